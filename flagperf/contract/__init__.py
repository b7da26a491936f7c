"""What launcher, ranks, files and readers agree on: settings, fields, events, records. Nothing here acts on a host.

Ranks import from here, so all of it is written for Python 3.8.
"""
