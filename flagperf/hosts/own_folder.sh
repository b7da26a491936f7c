#!/bin/sh
# Stands before scripts that work in a folder which other users of the host must not reach into.
#   own_folder FOLDER    makes it, for this user alone; refuses one that is another's, or that another could swap
#   guarded PATH         refuses a path below a folder that others could swap
# The folder belongs to this user and is no link. Every folder and link above it, as named and as resolved, belongs to
# root or this user, and nobody else may rename in it: not writable by group or others, unless the sticky bit is set.
me=$(id -u)
refuse() { printf '%s\n' "$1" >&2; exit 3; }
guarded() {
    place=$1
    while [ "$place" != / ]; do
        place=$(dirname "$place")
        about=$(stat -c '%u %A' "$place")
        case $about in
        "0 "* | "$me "*) ;;
        *) refuse "$place belongs to user $(stat -c %U "$place"), who could swap what lies in it" ;;
        esac
        case ${about#* } in
        l* | *[tT] | ?????[!w]??[!w]?) ;;
        *) refuse "$place can be written by others, who could swap what lies in it, and has no sticky bit" ;;
        esac
    done
}
own_folder() {
    (umask 077 && mkdir -p "$1") || exit 1
    [ -L "$1" ] && refuse "$1 is a link"
    [ "$(stat -c %u "$1")" = "$me" ] || refuse "$1 belongs to user $(stat -c %U "$1")"
    guarded "$1"
    guarded "$(cd -P "$1" && pwd -P)"
    chmod 700 "$1"
}
