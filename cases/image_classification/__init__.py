"""Image classification on a folder of images: every case of this kind differs by its network and recipe only."""
