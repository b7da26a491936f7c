#!/bin/sh
# Prints why the docker daemon does not answer: absent, stopped or forbidden.
#   $1  its socket
PATH=$PATH:/usr/sbin:/sbin
if [ ! -e "$1" ]; then
    if command -v dockerd >/dev/null; then echo stopped; else echo absent; fi
elif [ -w "$1" ]; then
    echo stopped
else
    echo forbidden
fi
