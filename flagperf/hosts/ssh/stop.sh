#!/bin/sh
# Stops a long command, and waits until nothing is left of it.
#   $1  its folder
kill -s TERM "$(cat "$1/pid")" 2>/dev/null
flock "$1/lock" true
rm -rf "$1"
