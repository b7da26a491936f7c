#!/bin/sh
# Runs a long command and is its parent. Ends when the command has ended, or stops it when asked with SIGTERM.
# Needs marked.sh before it. Its process holds `lock` from the beginning to the end.
#   $1  the command's folder, with `lease` and `lock`; `pid` and, at the end, `status` come into it
#   $2  linger: seconds for which nobody holds `lease` before the command is stopped
#   $3  grace: tenths of a second between SIGTERM and SIGKILL
#   $4  the command, as a line of shell
dir=$1 linger=$2 tenths=$3 mark=FLAGPERF_PROCESS=$1
echo $$ >"$dir/pid"
signal() { for pid in $(marked "$mark"); do kill -s "$1" "$pid"; done; }
stop() {
    trap '' TERM
    kill "$watcher"
    signal TERM
    while [ "$tenths" -gt 0 ] && [ -n "$(marked "$mark")" ]; do sleep 0.1; tenths=$((tenths - 1)); done
    signal KILL
}
trap stop TERM
FLAGPERF_PROCESS=$dir sh -c "$4" </dev/null 9>&- &
command=$!
exec 2>/dev/null  # the log is the command's: a shell that reaps it may add "Killed", at any of the lines below
(
    exec 9>&-
    export FLAGPERF_PROCESS="$dir"
    until flock -x "$dir/lease" true; sleep "$linger"; flock -n -x "$dir/lease" true; do :; done
    kill -s TERM $$
) &
watcher=$!
wait "$command"; status=$?
while kill -s 0 "$command"; do wait "$command"; status=$?; done
kill "$watcher"
signal KILL
echo "$status" >"$dir/status"
flock -n -x "$dir/lease" rm -rf "$dir"
