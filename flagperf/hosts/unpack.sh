#!/bin/sh
# Unpacks an archive and removes it.
#   $1  the folder that its content goes to
#   $2  the archive, a tar.gz
# tar itself gets no path: it would take \ in one for an escape, and : for the end of a host's name.
mkdir -p "$1" && (cd "$1" && tar -xzf -) <"$2" && rm "$2"
