"""The trainer of TensorFlow 2. No module of it imports torch.

entry.py    the entry for the framework-free part
engine.py   steps, evaluations and checkpoints
data.py     base of the data sets, and their batches by tf.data
device.py   the device of a rank; ranks.py: how the ranks join and sum
identity.py the identity of network and optimizer
"""
