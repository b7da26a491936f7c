"""The trainer of PaddlePaddle. No module of it imports torch.

entry.py    what the framework-free part calls
engine.py   Paddle's calls for a training: a step, an evaluation, a checkpoint
data.py     loaders
device.py   the device of a rank; ranks.py: how the ranks join
identity.py what identifies network and optimizer
"""
