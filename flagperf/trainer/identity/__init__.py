"""What a rank reports about itself: its software, its device, and the recipe that its case states."""
