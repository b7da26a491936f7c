"""Shared by launcher, ranks, files and readers: settings, fields, events, records. Nothing here acts on a host.

Ranks import from here, so all of it is written for Python 3.8.
"""
