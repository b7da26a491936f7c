"""A job → one file for a room without internet: wheels, image, sample data, a list of the full data, and `install.sh`.

The same inputs give the same bytes. What lies in no file of this machine comes through pip and docker, which reach the
network by their own configuration; nothing else here does.
"""
