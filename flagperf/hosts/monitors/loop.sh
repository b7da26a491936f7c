#!/bin/sh
# Functions that print a monitor's samples. Both return only when a source is of no use, so that
# `stream ... || sample ...` goes on to the next one.
#   stream SOURCE WORD...
#       a command that prints marked samples until it is stopped
#   sample OUTPUT SOURCE LAST PAUSE INTERVAL LIMIT WORD...
#       a command that prints one sample. OUTPUT: the file that the samples are appended to; each waits beside it until
#       it is whole. LAST: not empty where no further source follows, so that this one is never given up. PAUSE and
#       INTERVAL: seconds after the first sample, and after each further one. LIMIT: seconds that a sample may take.
# A sample of more than 1 MiB (2048 blocks) is cut off there, for a tool that goes mad must not fill a disk. The host's
# own limit may be lower.
stream() {
    source=$1; shift
    date "+@begin $source %s" # in case it fails before its first sample
    "$@"
    printf '\n@end %s\n' "$?"
    return 1
}
sample() {
    output=$1 source=$2 last=$3 pause=$4 interval=$5 limit=$6; shift 6; good=
    trap 'kill "$child" 2>/dev/null; exit 0' TERM # timeout puts its command into a process group of its own
    while :; do
        date "+@begin $source %s"
        (ulimit -f 2048 2>/dev/null; exec timeout -k 1 "$limit" "$@") >"$output.sample" 2>&1 & child=$!
        wait "$child"; status=$?
        kill -s KILL -- "-$child" 2>/dev/null # processes that the tool left: timeout ends the tool, but no process that ignores SIGTERM
        case $status in # figures count with any status, but not those of a tool that was killed
            124 | 137 | 153) head -c 1000 "$output.sample" ;;
            *) cat "$output.sample" ;;
        esac
        printf '\n@end %s\n' "$status"
        [ "$status" -eq 0 ] && good=yes
        [ "$good$last" ] || return 1
        sleep "$pause" & child=$!
        wait "$child"; pause=$interval
    done
}
