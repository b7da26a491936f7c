#!/bin/sh
# Removes folders of dead runs. A folder that has a filled folder of another user, as root's of a container, stays whole:
# only root or this other user may remove it. Prints those that stay, each with a NUL at its end.
#   $@  the folders
id=$(id -u)
for folder in "$@"; do
    others=$(find "$folder" -mindepth 1 -type d ! -user "$id" ! -empty -print -quit 2>/dev/null)
    if [ "$id" = 0 ] || [ -z "$others" ]; then
        rm -rf "$folder"
    else
        printf '%s\0' "$folder"
    fi
done
