#!/bin/sh
# Aborts the ranks of a node, so that each writes its stack to its log. Needs marked.sh before it.
#   $1  the node's log folder, which the ranks have in their environment; a rank's own children have it too: left out
#   $2  seconds for the stacks to be written
ids=' '
for id in $(marked "FLAGPERF_LOG_DIR=$1"); do
    grep -qsz '^LOCAL_RANK=' "/proc/$id/environ" && ids="$ids$id "
done
for id in $ids; do
    parent=$(sed 's/.*) . //' "/proc/$id/stat" | cut -d ' ' -f 1)
    case $ids in *" $parent "*) ;; *) kill -s ABRT "$id" ;; esac
done
sleep "$2"
