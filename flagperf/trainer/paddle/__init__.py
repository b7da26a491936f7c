"""The trainer of PaddlePaddle. No module of it imports torch.

entry.py    what the framework-free part calls
build.py    the parts of one training, from its configuration
loop.py     a step, an evaluation and a checkpoint; trainer/loop/training.py has what goes on around them
data.py     data sets, batches and loaders
task.py     what the loop needs to know of a model
"""
