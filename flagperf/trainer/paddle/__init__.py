"""The trainer of PaddlePaddle. No module of it imports torch.

entry.py    the entry for the framework-free part
engine.py   steps, evaluations and checkpoints
data.py     loaders
device.py   the device of a rank; ranks.py: how the ranks join and sum
identity.py the identity of network and optimizer
"""
