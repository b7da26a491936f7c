"""Summaries of articles, with encoder-decoders of transformers."""
