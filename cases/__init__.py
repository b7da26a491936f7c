"""Workload code that no library has: one folder for each case, or kind of case, with the same file names in each.

data.py     data sets in the real on-disk format, and the collation of batches
task.py     the interface to the training loop: batch to device, loss, samples, evaluation
sample.py   writes sample data: small, generated, deterministic, in the same format
network.py  only where no library has the network
"""
