"""Object detection and instance segmentation on COCO: every case of this kind differs by its network and recipe."""
