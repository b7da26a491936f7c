"""Nodes of Slurm: an allocation of them, the way to each by srun, and a script that runs a job without a launcher.

In: the section `slurm` of the cluster's file. Out: nodes and their transports, as of any other cluster.
Other packages decide what the nodes run.
"""
