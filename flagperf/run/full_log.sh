#!/bin/sh
# Ends with 0 if a file has all bytes that a file of this user may have.
#   $1  the file
limit=$(awk '/^Max file size/ {print $4}' /proc/self/limits)
[ "$limit" != unlimited ] && [ "$(stat -c %s "$1")" -ge "$limit" ]
