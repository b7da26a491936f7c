"""The PyTorch engine and its parts.

entry.py        what the framework-free part of the trainer calls
engine.py       steps, evaluations and checkpoints; read this first
parts.py        what the engine works with, made from the configuration
parallel/       how the ranks share the work
task.py         what the engine asks of a model
"""
