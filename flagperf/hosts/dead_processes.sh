#!/bin/sh
# Prints the folders of long commands whose launcher and guard are gone: nobody holds their locks, which are held before
# the file `pid` is there. Folders of other users are passed over, and nothing in them is opened. Needs ours.sh.
#   $@  what to do with each such folder; it is printed where that succeeds
for folder in /tmp/flagperf-process.*; do
    if ! ours "$folder" || [ ! -e "$folder/pid" ]; then continue; fi
    flock -n "$folder/lease" flock -n "$folder/lock" "$@" "$folder" && echo "$folder"
done 2>/dev/null
true
