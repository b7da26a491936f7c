"""One machine: run commands, start and stop processes, send and fetch files, learn facts, watch devices.

Which machine, and what for, is decided above.
"""
