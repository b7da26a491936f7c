"""A rank's data: sample data, batches, and whether all ranks see the same."""
