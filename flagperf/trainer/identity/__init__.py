"""What a rank says of itself: its software, its device, and what its case states."""
