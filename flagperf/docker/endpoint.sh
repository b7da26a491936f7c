#!/bin/sh
# Prints where this user's docker commands find the daemon, as docker does: DOCKER_HOST, else the docker context in use,
# else the usual socket, else the socket of a rootless daemon.
#   $1  the usual socket
if [ -n "$DOCKER_HOST" ]; then
    echo "$DOCKER_HOST"
    exit
fi
if [ -n "$DOCKER_CONTEXT" ] || grep -qs '"currentContext"' "${DOCKER_CONFIG:-$HOME/.docker}/config.json"; then
    docker context inspect -f '{{.Endpoints.docker.Host}}' 2>/dev/null && exit
fi
rootless=${XDG_RUNTIME_DIR:-/run/user/$(id -u)}/docker.sock
if [ ! -e "$1" ] && [ -S "$rootless" ]; then
    echo "unix://$rootless"
else
    echo "unix://$1"
fi
