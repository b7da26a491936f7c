#!/bin/sh
# Keeps of a run's folder what was not collected. Nothing else of it stays, and no clean-up of dead runs takes it away.
#   $1  the run's folder
#   $2  the case's folder in it
for entry in "$1"/* "$1"/.[!.]*; do
    case $entry in "$2" | "$1/.owner" | "$1/.uncollected") ;; *) rm -rf "$entry" ;; esac
done
mv "$1/.owner" "$1/.uncollected"
