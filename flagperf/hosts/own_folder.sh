#!/bin/sh
# Stands before scripts that work in a folder which other users of the host must not reach into.
#   own_folder FOLDER    makes a missing one, for this user alone; refuses one that is another's, or that others could
#                        write to or swap. What is there keeps its rights: a folder like /tmp belongs to all users
#   guarded PATH         refuses a path below a folder that others could swap
# The folder belongs to this user and is no link. Every folder and link above it, as named and as resolved, belongs to
# root or this user, and nobody else may rename in it: not writable by group or others, unless the sticky bit is set.
# It starts few processes, because all hosts of a cluster do so at the same time.
while read -r field _ user _; do
    case $field in Uid:) me=$user && break ;; esac  # the effective one; id would be one more process
done </proc/self/status
refuse() { printf '%s\n' "$1" >&2; exit 3; }
guarded() {
    place=$1
    set -- "$1"
    while [ "$place" ]; do
        place=${place%/*}
        set -- "$@" "${place:-/}"
    done
    rows=$(stat -c '%u %A %U' "$@") || exit 1
    own=  # the row of PATH itself, which own_folder looks at
    while read -r owner mode user; do
        place=$1  # a name may hold line ends
        shift
        [ "$own" ] || { own="$owner $mode $user"; continue; }
        case $owner in 0 | "$me") ;; *) refuse "$place belongs to user $user, who could swap what lies in it" ;; esac
        case $mode in
        l* | *[tT] | ?????[!w]??[!w]?) ;;
        *) refuse "$place can be written by others, who could swap what lies in it, and has no sticky bit" ;;
        esac
    done <<EOF
$rows
EOF
}
own_folder() {
    [ -d "$1" ] || (umask 077 && mkdir -p "$1") || exit 1
    [ -L "$1" ] && refuse "$1 is a link"
    guarded "$1"
    [ "${own%% *}" = "$me" ] || refuse "$1 belongs to user ${own##* }"
    case ${own#* } in ?????[!w]??[!w]*) ;; *) refuse "$1 can be written by others, who could put links into it" ;; esac
    real=$(cd -P "$1" && pwd -P)
    [ "$real" = "$1" ] || guarded "$real"
}
