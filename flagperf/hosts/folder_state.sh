#!/bin/sh
# Prints the state of a run's folder: kept, or the owner of a folder that is in use, or nothing.
# Needs own_folder.sh before it.
#   $1  the run's folder
[ -e "$1" ] || [ -L "$1" ] || exit 0
own_folder "${1%/*}"
own_folder "$1"
[ -f "$1/.uncollected" ] && echo kept && exit
[ -f "$1/.owner" ] && cat "$1/.owner"
true
