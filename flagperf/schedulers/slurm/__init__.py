"""Nodes of Slurm: an allocation of them, the way to each by srun, and a script that runs a job without a launcher.

In: what the cluster's file says of Slurm. Out: nodes and their transports, as of any other cluster. What runs on the
nodes is decided above.
"""
