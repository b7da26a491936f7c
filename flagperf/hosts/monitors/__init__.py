"""Monitors: what cpu, memory, power and accelerators of a node do while a round runs.

A host has sshd and docker, nothing of ours, so a monitor is a command there. One shell per node repeats the commands
(`loop`). The launcher reads their output (`node`, `nvml`, flagperf.config.schema.monitor_tool) and writes FlagPerf's
log files (`running`). When the round has ended, flagperf.results.monitors sums them up. docs/monitors.md describes the
formats.
"""
