#!/bin/sh
# Prints owner and owner file of each claimed folder, each ended by a zero byte.
#   $1  the folder that they lie in
for file in "$1"/*/.owner; do
    [ -f "$file" ] && printf '%s\0' "$(cat "$file")" "$file"
done
true
