"""The PyTorch loop and its parts."""
