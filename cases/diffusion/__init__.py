"""Generation of images with rectified flow."""
