#!/bin/sh
# Prints owner and owner file of each claimed folder, each ended by a zero byte; of a kept one "kept" in place of the
# owner. Needs own_folder.sh before it.
#   $1  the folder that they lie in
#   $2  make: make it where it is not there
[ -e "$1" ] || [ -L "$1" ] || [ "$2" = make ] || exit 0
own_folder "$1"
# Ranks make it; the ranks of a container are often root. Other users may have made one while the folder was open to them.
sample=$1/sample
if [ -e "$sample" ] || [ -L "$sample" ]; then
    # shellcheck disable=SC2154  # own_folder.sh sets it
    case $(stat -c %u "$sample") in 0 | "$me") ;; *) refuse "$sample belongs to another user" ;; esac
fi
mine() { [ -f "$1" ] && [ ! -L "${1%/*}" ] && [ -O "${1%/*}" ]; }
for file in "$1"/*/.owner; do
    mine "$file" && printf '%s\0' "$(cat "$file")" "$file"
done
for file in "$1"/*/.uncollected; do
    mine "$file" && printf 'kept\0%s\0' "$file"
done
true
