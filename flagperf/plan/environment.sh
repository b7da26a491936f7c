#!/bin/sh
# Starts a command with the variables that are listed, and no others. It runs last before the ranks' launcher.
#   $1…  the command
# Names go to the log, values nowhere: not onto a command line either. An exported function of bash is a variable, too.
set -f
unset -f command echo sed tr # which bash may have from the environment, also as sh
# The path of a socket has at most 107 characters, and data loaders make theirs below the folder of temporary files.
for room in "$TMPDIR" "$TEMP" "$TMP"; do [ "$room" ] && break; done
if [ "${#room}" -gt 72 ] && [ -w /tmp ]; then
    echo "flagperf: the ranks have TMPDIR=/tmp: sockets below $room would have too long paths" >&2
    export TMPDIR=/tmp
fi
old=$IFS
IFS='
'
left=
for name in $(PATH=/usr/bin:/bin:$PATH; tr '\0' '\n' <"/proc/$$/environ" | sed -n 's/=.*//p'); do
    case $name in
    LISTED) continue ;;
    BASH_FUNC_*) ;;
    '' | [0-9]* | *[!A-Za-z0-9_]*) continue ;; # a line of a value
    *) eval "[ \"\${$name+set}\" ]" || continue ;;
    esac
    set -- -u "$name" "$@"
    case $name in
    SESSION) ;;
    *) left="$left $name" ;;
    esac
done
IFS=$old
[ ! "$left" ] || echo "flagperf: left out of the ranks' environment:$left" >&2
case ${1-} in
-u) exec /usr/bin/env "$@" ;;
esac
exec "$@"
