#!/bin/sh
# Prints what a host is and has, as lines `name: value`.
#   $1  a folder of the run, which may not be there yet
#   $2  glob of the accelerator's device files, or empty
#   $3  files of the kernel that list the TCP ports which are taken, or nothing: reading them is a third of the work
#   $4  folder that runs claim theirs in, or nothing; where it is there, a line `---` follows, and claimed.sh, with $1
# It starts few processes, because all hosts of a cluster are examined at the same time: one awk reads the kernel's files.
facts() {
    place=$1 devices=$2 ports=$3
    while [ ! -d "${place:-/}" ]; do
        case $place in */*) place=${place%/*} ;; *) place=. ;; esac
    done
    set --
    kernel=/proc/sys/kernel
    for file in $kernel/ostype $kernel/hostname $kernel/osrelease $kernel/arch /etc/os-release /proc/cpuinfo /proc/meminfo $ports /proc/vmstat /proc/sys/kernel/random/boot_id \
        /proc/driver/nvidia/version /sys/class/dmi/id/sys_vendor /sys/class/dmi/id/product_name; do
        [ -r "$file" ] && set -- "$@" "$file"
    done
    {
        echo "#machine"; [ -r $kernel/arch ] || uname -m  # Linux 6.1 has the file
        echo "#devices"; for file in $devices; do [ -e "$file" ] && echo "$file"; done
        echo "#inode"; stat -L -c %d:%i "${place:-/}" /proc/self/ns/mnt
        echo "#disk"; df -Pk "${place:-/}" /dev/shm
        echo "#inodes"; df -Pi "${place:-/}"
        echo "#addresses"; ip -o addr show
    } 2>/dev/null | awk '
        function value(line) { sub(/^[^:=]*[:=][ \t]*/, "", line); gsub(/"/, "", line); return line }
        NR == FNR && /^#/ { part = $1; row = 0; next }
        NR == FNR && part == "#machine" { machine = $1 }
        NR == FNR && part == "#devices" { devices = devices $0 " " }
        NR == FNR && part == "#inode" { if (++row == 1) inode = $1; else space = $1 }
        NR == FNR && part == "#disk" && ++row == 2 { disk = $4; source = $1 }
        NR == FNR && part == "#disk" && row == 3 { shm = $2 }
        NR == FNR && part == "#inodes" && $2 + 0 > 0 { inodes = $4 }  # some file systems count none
        NR == FNR && part == "#addresses" && $3 ~ /^inet6?$/ { sub(/\/.*/, "", $4); addresses = addresses $2 "=" $4 " " }
        NR == FNR { next }
        FILENAME ~ /ostype$/ { type = $1 }
        FILENAME ~ /hostname$/ { host = $1 }
        FILENAME ~ /osrelease$/ { release = $1 }
        FILENAME ~ /arch$/ { machine = $1 }
        FILENAME ~ /os-release$/ && /^PRETTY_NAME=/ { os = value($0) }
        FILENAME ~ /cpuinfo$/ && /^processor/ { cores++ }
        FILENAME ~ /cpuinfo$/ && /^model name/ && cpu == "" { cpu = value($0) }
        FILENAME ~ /meminfo$/ && /^MemTotal:/ { total = $2 }
        FILENAME ~ /meminfo$/ && /^MemAvailable:/ { available = $2 }
        FILENAME ~ /tcp6?$/ && $4 == "0A" { sub(/.*:/, "", $2); listening = listening $2 " " }
        FILENAME ~ /boot_id$/ { boot = $1 }
        FILENAME ~ /vmstat$/ && $1 == "oom_kill" { killed = $2 }
        FILENAME ~ /nvidia/ && FNR == 1 { driver = $0 }
        FILENAME ~ /dmi/ { hardware = hardware $0 " " }
        END {
            print "host: " host; print "os: " os; print "kernel: " type " " release " " machine; print "cpu: " cpu; print "cores: " cores
            print "memory_kib: " total; print "memory_available_kib: " available
            print "shm_kib: " shm; print "disk_free_kib: " disk; print "inodes_free: " inodes; print "hardware: " hardware
            print "devices: " devices; print "driver: " driver; print "listening: " listening
            if (source ~ /:/) { sub(/.*:/, "", inode); print "folder: network " source " " inode }
            else if (inode != "" && boot != "") print "folder: host " boot " " inode
            if (space != "" && boot != "") print "system: " boot " " space  # hosts of one kernel, as containers, differ in space
            print "addresses: " addresses; print "oom_kills: " killed
        }' - "$@"
}
facts "$1" "$2" "$3" || exit 1
[ -e "$4" ] || [ -L "$4" ] || exit 0
echo ---
set -- "$4"
