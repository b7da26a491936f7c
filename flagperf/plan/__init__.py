"""JobConfig → Plan: the exact commands of a round, per node, as data.

Pure: nothing here reads a file or reaches a host.
"""
