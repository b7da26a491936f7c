"""Encoders that predict hidden tokens of a text from those around them, with the networks of transformers."""
