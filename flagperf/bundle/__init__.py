"""A run's folder ↔ one file that can be handed on, and held against what it states.

Comes in: the folder of a run. Goes out: FILE.tar.zst with its files, without secrets, and a statement of their hashes,
signed with a key if one is given; or, back again, the files in a folder, and which of them are not as stated.
Not done here: looking at figures. flagperf.verify does it.
"""
