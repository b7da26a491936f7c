"""What may keep a run from working on a cluster, one line a check."""
