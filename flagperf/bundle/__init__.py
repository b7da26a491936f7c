"""Packs a run's folder into one file that can be handed on, and checks such a file against its own statement.

Input: the folder of a run. Output: FILE.tar.zst with the files of the run, without secrets, and a statement of their
SHA-256. A key, if given, signs the statement. In the other direction: the unpacked files, and a list of the files that
differ from the statement.
This package does not look at figures. flagperf.verify does.
"""
