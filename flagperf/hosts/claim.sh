#!/bin/sh
# Makes a folder that nobody else may read, and says whose it is.
#   $1  the folder
#   $2  its owner
umask 077
mkdir -p "$1" && printf %s "$2" >"$1/.owner"
