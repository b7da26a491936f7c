#!/bin/sh
# Unpacks an archive and removes it.
#   $1  the folder that its content goes to
#   $2  the archive, a tar.gz
mkdir -p "$1" && tar -xzf "$2" -C "$1" && rm "$2"
