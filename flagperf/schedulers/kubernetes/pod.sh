#!/bin/sh
# What a pod of a run does: lays out the code, starts the ranks of its node and, when these have ended, prints their logs.
#   $1   folder with the parts of the code, a tar.gz
#   $2   folder that the code goes to
#   $3   the node's log folder
#   $4   log of the ranks' launcher
#   $5   folder in the log folder, for what the launcher writes for itself
#   $6…  the command that starts the ranks
# Its exit status is that of the ranks' launcher. A pod that has ended can only be asked for its output: so the logs go
# there, between two lines that nothing else prints, as a tar.gz in base64.
parts=$1 code=$2 logs=$3 launcher=$4 scratch=$5
shift 5
mkdir -p "$logs" && cat "$parts"/* | tar -xzf - -C "$code" || exit 1
echo "the ranks start; their logs are in $logs"
"$@" >>"$launcher" 2>&1 &
ranks=$!
trap 'kill -TERM "$ranks" 2>/dev/null' TERM INT
wait "$ranks"
status=$?
while kill -0 "$ranks" 2>/dev/null; do # a signal has ended the wait, not the launcher
    wait "$ranks"
    status=$?
done
rm -rf "$scratch"
echo "-----BEGIN FLAGPERF LOGS-----"
tar -czf - -C "${logs%/*}" "${logs##*/}" | base64
echo "-----END FLAGPERF LOGS-----"
exit "$status"
