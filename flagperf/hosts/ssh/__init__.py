"""A host that is reached over asyncssh."""
