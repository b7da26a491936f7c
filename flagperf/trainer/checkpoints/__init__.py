"""Files of checkpoints and weights."""
