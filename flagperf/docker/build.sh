#!/bin/sh
# Builds an image.
#   $1  the folder that was sent: `context`, and `proxies`, which sets environment variables
#   $2...  the docker command
# shellcheck source=/dev/null
cd "$1" && . ./proxies && chmod -R u=rwX,go=rX context || exit
shift
exec "$@"
