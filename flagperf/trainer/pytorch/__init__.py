"""The PyTorch engine and its parts.

entry.py        the entry for the framework-free part of the trainer
engine.py       steps, evaluations and checkpoints; read this first
parts.py        the parts of a training, made from the configuration
parallel/       how the ranks share the work
task.py         the interface of a model
"""
