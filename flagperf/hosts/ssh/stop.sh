#!/bin/sh
# Stops a long command, and waits until nothing is left of it. Needs ours.sh before it.
#   $1  its folder
ours "$1" || exit 0
kill -s TERM "$(cat "$1/pid")" 2>/dev/null
flock "$1/lock" true
rm -rf "$1"
