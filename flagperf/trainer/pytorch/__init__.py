"""The PyTorch loop and its parts.

entry.py        what the framework-free part of the trainer calls
loop.py         the one loop of every PyTorch case; read this first
step.py         one optimizer step
parts.py        what the loop works with, made from the configuration
task.py         what the loop asks of a model
"""
