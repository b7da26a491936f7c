#!/bin/sh
# Prints for each pattern how many entries of a data folder match it; or, with status 1, the fault of the folder.
#   $1  the folder
#   then for each pattern: the pattern, the number of its parts, the most to count
# find's * matches / too: with the depth fixed it has none to match, so that both read a pattern as pathlib does.
cd -- "$1" 2>/dev/null || {
    [ -e "$1" ] || { echo "does not exist"; exit 1; }
    [ -d "$1" ] && echo "cannot be read" || echo "is not a folder"
    exit 1
}
shift
while [ $# -gt 0 ]; do
    find -L . -mindepth "$2" -maxdepth "$2" -path "./$1" -print0 | tr -dc '\0' | head -c "$3" | wc -c
    shift 3
done
