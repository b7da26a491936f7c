"""The code of the case NAME."""
