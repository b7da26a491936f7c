"""Access to one machine: run commands, start and stop processes, copy files, read facts, watch devices.

Higher packages choose the machine and the commands.
"""
