#!/bin/sh
# Drops the page caches, as root or by sudo without a password. Dirty pages are written first.
drop='sync; echo 3 >/proc/sys/vm/drop_caches'
[ "$(id -u)" = 0 ] && exec sh -c "$drop"
exec sudo -n sh -c "$drop"
