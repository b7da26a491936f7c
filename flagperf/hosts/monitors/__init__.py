"""Monitors: measure cpu, memory, power and accelerators of a node during a round.

A host has sshd and docker, but no program of flagperf. So a monitor is a command on the host. One shell for each node
repeats the commands (`loop`). The launcher reads their output (`node`, `nvml`, flagperf.config.schema.monitor_tool) and
writes FlagPerf's log files (`running`). After the round, flagperf.results.monitors summarises the logs. The formats are
described in docs/monitors.md.
"""
