"""The start of ranks: on a node, and in each of them until its training begins."""
