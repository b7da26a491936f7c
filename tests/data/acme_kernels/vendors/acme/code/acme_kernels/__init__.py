"""What Acme brings along for its chip: an optimizer, a loader, and what it makes of a built network."""
