#!/bin/sh
# Stands before scripts that look for processes.
#   marked NAME=VALUE    prints the ids of all processes that have this variable in their environment
marked() { grep -lszxF "$1" /proc/[0-9]*/environ | tr -dc '0-9\n'; }
