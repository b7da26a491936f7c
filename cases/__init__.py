"""Workload code that no library has: one folder a case, or a kind of case, with the same file names in each.

data.py     data sets in the real on-disk format, and how samples become a batch
task.py     what the training loop asks: batch to device, loss, samples, evaluation
sample.py   writes sample data: small, generated, deterministic, in the same format
network.py  only where no library has the network
"""
