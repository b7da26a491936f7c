"""The same classification on TensorFlow 2. Folders of images and sample data are those of the case on PyTorch."""
