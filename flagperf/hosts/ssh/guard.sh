#!/bin/sh
# Runs a long command and is its parent. Ends when the command has ended, or stops it when asked with SIGTERM.
# Needs marked.sh and ours.sh before it. Its process holds `lock` from the beginning to the end.
#   $1  the command's folder, with `lease`, `lock` and `guard.py`; `pid` and, at the end, `status` come into it
#   $2  linger: seconds for which nobody holds `lease` before the command is stopped
#   $3  grace: tenths of a second between SIGTERM and SIGKILL
#   $4  the command, as a line of shell
# Where the host has Python, the command runs below guard.py, which ends all of its descendants, whatever session and
# environment they gave themselves. Elsewhere those are ended that have the mark in their environment.
dir=$1 linger=$2 tenths=$3 mark=FLAGPERF_PROCESS=$1 input=/dev/null guard=
echo $$ >"$dir/pid"
signal() { for pid in $(marked "$mark"); do kill -s "$1" "$pid"; done; }
alive() { if [ "$guard" ]; then grep -qsz . "/proc/$command/environ"; else [ -n "$(marked "$mark")" ]; fi; }
stop() {
    trap '' TERM
    kill "$watcher"
    if [ "$guard" ]; then kill -s TERM "$command"; tenths=$((tenths + 60)); else signal TERM; fi # it may take 5 s more
    while [ "$tenths" -gt 0 ] && alive; do sleep 0.1; tenths=$((tenths - 1)); done
    signal KILL
}
set -- sh -c "$4"
if python3 -I -S -c 'import ctypes, sys; sys.exit(sys.version_info < (3, 7))' 2>/dev/null && mkfifo "$dir/alive"; then
    guard=$dir/guard.py input=$dir/alive
    exec 5<>"$input" # open as long as this process lives
    [ "${LC_CTYPE+set}" ] || set -- env -u LC_CTYPE "$@" # Python sets it in a C locale, and its children would inherit it
    set -- python3 -I -S "$guard" "$((tenths / 10)).$((tenths % 10))" "$@"
fi
trap stop TERM
FLAGPERF_PROCESS=$dir "$@" <"$input" 5>&- 9>&- &
command=$!
exec 2>/dev/null  # the log is the command's: a shell that reaps it may add "Killed", at any of the lines below
(
    exec 5>&- 9>&- 4>>"$dir/lease" # opened once: a cleaner of /tmp may remove the folder, and another user make it
    export FLAGPERF_PROCESS="$dir"
    until flock -x 4; flock -u 4; sleep "$linger"; flock -n -x 4; do :; done
    kill -s TERM $$
) &
watcher=$!
wait "$command"; status=$?
while kill -s 0 "$command"; do wait "$command"; status=$?; done
kill "$watcher"
signal KILL
ours "$dir" || exit
echo "$status" >"$dir/status"
flock -n -x "$dir/lease" rm -rf "$dir"
