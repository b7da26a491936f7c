"""The trainer of MindSpore. No module of it imports torch.

entry.py    what the framework-free part calls
build.py    the parts of one training, from its configuration
loop.py     a step, an evaluation and a checkpoint; trainer/loop/training.py has what goes on around them
data.py     data sets, and their batches by MindSpore's loader
task.py     what the loop needs to know of a model
"""
