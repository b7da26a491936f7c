#!/bin/sh
# Runs a command for a limited time. All processes that it started end with it, also those that ignore SIGTERM.
#   $1  seconds
#   $@  after them: the command
limit=$1
shift
(exec timeout -k 1 "$limit" "$@") & child=$! # timeout makes a process group of its own
wait "$child"
status=$?
kill -s KILL -- "-$child" 2>/dev/null
case $status in 124 | 137) echo "no answer within $limit s" >&2 ;; esac
exit "$status"
