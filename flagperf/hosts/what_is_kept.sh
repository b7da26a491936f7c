#!/bin/sh
# Prints what a run left in its folder: kept, the owner of a folder that was not given up, or nothing.
#   $1  the run's folder
[ -f "$1/.uncollected" ] && echo kept && exit
[ -f "$1/.owner" ] && cat "$1/.owner"
true
