#!/bin/sh
# The kernel's figures of what may slow a rank down, each line after the name of its file. A machine may lack some files.
for file in /proc/uptime /proc/loadavg /proc/vmstat /proc/net/dev /proc/net/snmp /sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_cur_freq; do
    [ -r "$file" ] && set -- "$@" "$file" # grep fails where a file is missing
done
exec grep -HE '^(pgmajfault|Tcp:)|: *[0-9]+( +[0-9]+){15}$|^[0-9]' "$@" # an interface of /proc/net/dev has 16 numbers
