"""The same classification on MindSpore. Folders of images and sample data are those of the case on PyTorch."""
