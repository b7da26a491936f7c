#!/bin/sh
# Prints why the docker daemon does not answer: absent, stopped or forbidden; runs, if somebody here
# listens on its socket.
#   $1  its socket
PATH=$PATH:/usr/sbin:/sbin
if [ ! -e "$1" ]; then
    if command -v dockerd >/dev/null; then echo stopped; else echo absent; fi
elif [ ! -w "$1" ]; then
    echo forbidden
elif awk -v path="$(readlink -f "$1")" '
        { file = $8; sub("^/var/run/", "/run/", file) }
        $4 == "00010000" && (file == path || $8 == path) { found = 1 }
        END { exit !found }' /proc/net/unix; then
    echo runs
else
    echo stopped
fi
