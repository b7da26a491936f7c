"""Reaches a host over asyncssh."""
