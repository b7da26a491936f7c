#!/bin/sh
# Prints RAPL's domains with their energy counters, and the uptime.
cd /sys/class/powercap && grep -H "" intel-rapl:*/name intel-rapl:*/*energy*_uj && cat /proc/uptime
