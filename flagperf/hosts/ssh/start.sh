#!/bin/sh
# Starts a long command, prints its folder, and then holds it. Needs own_folder.sh before it.
#   $1  marked.sh, ours.sh and guard.sh, as text
#   $2  flagperf/hosts/guard.py, as text
#   $3  ours.sh and hold.sh, as text
#   $4  the log that the command's output is appended to
#   $5  linger, $6 grace, $7 line: as guard.sh takes them
guard=$1 reaper=$2 hold=$3 log=$4; shift 4
no_room() { echo "no file can be written in /tmp: $(df -Pk /tmp | awk 'END { print $4 }') KiB and $(df -Pi /tmp | awk 'END { print $4 }') inodes are free" >&2; exit 1; }
dir=$(mktemp -d /tmp/flagperf-process.XXXXXX 2>/dev/null) || no_room
guarded "$dir"
{ printf %s "$reaper" >"$dir/guard.py"; } 2>/dev/null || { rm -rf "$dir"; no_room; }
exec 8>"$dir/lease" 9>"$dir/lock" 7>>"$log" || exit 1
flock -s 8; flock 9
setsid sh -c "$guard" flagperf "$dir" "$@" </dev/null >&7 2>&1 8>&- 7>&- &
exec 9>&- 7>&-
echo "$dir"
exec sh -c "$hold" flagperf "$dir" "$1"
