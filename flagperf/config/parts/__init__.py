"""The parts of a configured case that need more than a check of their types: data, image, strategy, batch sizes."""
