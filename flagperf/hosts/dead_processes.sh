#!/bin/sh
# Prints the folders of long commands whose launcher and guard have ended: nobody holds their locks. The locks are
# held before the file `pid` exists. The script skips folders of other users, and opens nothing in them. Needs ours.sh.
#   $@  a command for each such folder; the script prints the folder if the command succeeds
for folder in /tmp/flagperf-process.*; do
    if ! ours "$folder" || [ ! -e "$folder/pid" ]; then continue; fi
    flock -n "$folder/lease" flock -n "$folder/lock" "$@" "$folder" && echo "$folder"
done 2>/dev/null
true
