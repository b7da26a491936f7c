"""Monitors: what cpu, memory, power and accelerators of a node do while a round runs.

A host has sshd and docker, nothing of ours, so a monitor is a command there. One shell per node repeats the commands
(`loop`), the launcher reads what they print (`node`, `table`, `nvml`), writes FlagPerf's log files (`running`), and
sums them up when the round has ended (`reading`). docs/monitors.md describes the formats.
"""
