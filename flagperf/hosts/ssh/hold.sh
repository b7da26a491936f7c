#!/bin/sh
# The channel from a long command to its launcher. Holds a shared lock on `lease` while a line arrives at least every
# linger, and prints the exit status when the guard has ended.
#   $1  the command's folder
#   $2  linger, in seconds
# Needs ours.sh before it: after a restart of the host, the folder of that name may belong to another user.
# If start.sh ran before, it gives up its own lock on `lease` (8) only when this script holds the lock.
dir=$1 linger=$2
ours "$dir" || exit 1
exec 3<&0 6>>"$dir/lease" || exit 1
flock -s 6
exec 8>&-
{ flock "$dir/lock" cat "$dir/status"; } 6>&- 3<&- &
waiter=$!
( while line=$(timeout "$linger" head -n 1) && [ -n "$line" ]; do :; done; kill $waiter $$ ) <&3 6>&- >/dev/null 2>&1 &
reader=$!
wait $waiter; status=$?
kill $reader 2>/dev/null
exit $status
