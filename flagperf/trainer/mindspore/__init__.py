"""The trainer of MindSpore. No module of it imports torch.

entry.py    what the framework-free part calls
engine.py   MindSpore's calls for a training: a step, an evaluation, a checkpoint
data.py     base of the data sets, and their batches by MindSpore's loader
device.py   the device of a rank; ranks.py: how the ranks join
identity.py what identifies network and optimizer
"""
