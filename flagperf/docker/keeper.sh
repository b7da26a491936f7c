#!/bin/sh
# Waits until it is stopped, and then kills the marked processes. Needs marked.sh before it.
#   $1  the mark, NAME=VALUE
#   $2...  a command to be run after that, if any
stop() {
    trap '' TERM # also for the processes started here: a guard asks each descendant to end
    for _ in 1 2 3 4 5; do
        ids=$(marked "$1")
        [ -n "$ids" ] || return
        for id in $ids; do kill -s KILL "$id"; done 2>/dev/null
        sleep 0.2
    done
}
trap 'stop "$1"; shift; "$@"; exit' TERM
while :; do sleep 3600 & wait $!; done
