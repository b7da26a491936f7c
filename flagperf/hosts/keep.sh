#!/bin/sh
# Keeps the logs of a run's folder that were not collected, and removes all else. No clean-up of dead runs removes them.
#   $1  the run's folder
#   $2  the case's folder in it
for entry in "$1"/* "$1"/.[!.]*; do
    case $entry in "$2" | "$1/.owner" | "$1/.uncollected") ;; *) rm -rf "$entry" ;; esac
done
mv "$1/.owner" "$1/.uncollected"
