#!/bin/sh
# Makes a folder of this user's own work folder that says whose it is. Needs own_folder.sh before it.
#   $1  the folder
#   $2  its owner
own_folder "${1%/*}"
own_folder "$1"
[ -L "$1/.owner" ] && refuse "$1/.owner is a link"
[ -e "$1/.owner" ] && [ "$(cat "$1/.owner")" != "$2" ] && refuse "another run works in $1"
printf %s "$2" >"$1/.owner"
