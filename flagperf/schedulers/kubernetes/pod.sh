#!/bin/sh
# What a pod of a run does: lays out the code, starts the ranks of its node and, when these have ended, prints their logs.
#   $1   folder with the parts of the code, a tar.gz
#   $2   folder that the code goes to
#   $3   the node's log folder
#   $4   log of the ranks' launcher
#   $5   folder in the log folder, for the launcher's own files
#   $6   seconds until the first step …
#   $7   … and between two signs of progress after it. Then the ranks are stopped, and stopped.log has the reason
#   $8   the script of the monitors; empty: another container runs it
#   $9…  the command that starts the ranks
# Its exit status is that of the ranks' launcher. A pod that has ended can only be asked for its output: so the logs go
# there, between two lines that nothing else prints, as a tar.gz in base64.
parts=$1 code=$2 logs=$3 launcher=$4 scratch=$5 first_step=$6 stall=$7 script=$8
shift 8
mkdir -p "$logs" && cat "$parts"/* | tar -xzf - -C "$code" || exit 1
echo "the ranks start; their logs are in $logs"
"$@" >>"$launcher" 2>&1 &
ranks=$!
monitors=''
if [ -n "$script" ]; then
    sh "$script" "$logs" >/dev/null 2>&1 &
    monitors=$!
fi
( # no launcher watches the ranks: this loop reads the last lines of the first one's log
    line='' before='' waited=0 key=first_step limit=$first_step
    while :; do
        pause=$((limit < 10 ? 1 : limit < 100 ? limit / 10 : 10))
        sleep "$pause"
        waited=$((waited + pause))
        for log in "$logs"/rank*.out.log; do break; done
        line=$(tail -n 200 "$log" 2>/dev/null | grep '^\[PerfLog\]' | grep -v '"WAITING"' | tail -n 1)
        if [ "$key" = first_step ] && grep -qs '"STEP_END"' "$log"; then
            key=stall limit=$stall waited=0
        elif [ "$line" != "$before" ]; then
            case $key$line in stall* | *'"HEARTBEAT"'*evaluat*) waited=0 ;; esac
        fi
        before=$line
        [ "$waited" -le "$limit" ] || break
    done
    if [ "$key" = stall ]; then problem="hang: no progress for" keys=deadlines.stall; fi
    echo "${problem:-no first step within} $limit s (${keys:-deadlines.start + deadlines.first_step})" >"$logs/stopped.log"
    kill -TERM "$ranks" 2>/dev/null
    sleep 60
    kill -KILL "$ranks" 2>/dev/null
) >/dev/null 2>&1 & # its output must not keep that of the pod open
watch=$!
trap 'kill -TERM "$ranks" 2>/dev/null' TERM INT
wait "$ranks"
status=$?
while kill -0 "$ranks" 2>/dev/null; do # a signal has ended the wait, not the launcher
    wait "$ranks"
    status=$?
done
kill "$watch" $monitors 2>/dev/null
rm -rf "$scratch"
echo "-----BEGIN FLAGPERF LOGS-----"
tar -czf - -C "${logs%/*}" "${logs##*/}" | base64
echo "-----END FLAGPERF LOGS-----"
exit "$status"
