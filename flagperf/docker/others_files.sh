#!/bin/sh
# Prints this user as uid:gid, and then this user's folders that have files of other users. Root needs nobody's permission.
#   $@  the folders
id=$(id -u)
[ "$id" = 0 ] && exit
echo "$id:$(id -g)"
for folder; do
    [ -O "$folder" ] && [ "$(find "$folder" ! -user "$id" -print -quit 2>/dev/null)" ] && printf '%s\n' "$folder"
done
