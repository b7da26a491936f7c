"""What a configuration may set, and which code it may name: mutable keys, closed division, classes, secrets."""
