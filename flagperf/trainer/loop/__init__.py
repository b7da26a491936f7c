"""The training itself: what is due when, what is measured and logged. No framework."""
