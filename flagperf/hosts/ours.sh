#!/bin/sh
# Stands before scripts that open files in a folder of /tmp, where every user of the host may make any name.
#   ours FOLDER    whether it is a folder of this user, no link, and closed to all others
# Nobody else can replace the folder later: /tmp has the sticky bit, which start.sh has checked.
ours() { case $(stat -c '%A %u' "$1" 2>/dev/null) in "drwx--"[-S]"--- $(id -u)") ;; *) false ;; esac; }
