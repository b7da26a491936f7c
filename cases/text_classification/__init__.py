"""Classes of sentences, with the networks of transformers."""
