"""The kernel's figures of what may slow a rank down."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

from flagperf.contract.monitor_log import host_samples, stamp
from flagperf.hosts.monitors.node import HostFigures, host

SAMPLE = """\
/proc/uptime:{uptime} 900.00
/proc/loadavg:3.25 1.00 1.00 1/200 999
/proc/vmstat:pgmajfault {faults}
/proc/net/dev:    lo: 9 9 9 9 0 0 0 0 9 9 9 9 0 0 0 0
/proc/net/dev:  eth0:{received} 5 {errors} 2 0 0 0 0 50 5 1 0 0 0 0 0
/proc/net/snmp:Tcp: InSegs OutSegs RetransSegs
/proc/net/snmp:Tcp: 7 8 {again}
/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq:2400000
/sys/devices/system/cpu/cpu1/cpufreq/scaling_cur_freq:1200000
"""


def test_rates_since_the_sample_before() -> None:
    read = HostFigures()
    assert read(SAMPLE.format(uptime=100.0, faults=10, received=1, errors=1, again=4)) == []
    (line,) = read(SAMPLE.format(uptime=105.0, faults=30, received=2, errors=3, again=5))
    assert line == "3.2load 4faults/s 0.4errors/s 0.2retransmits/s 1800MHz"
    ((_, figures),) = host_samples(f"{stamp(0)}\t{line}\n")
    assert figures == {
        "load": 3.2, "page_faults": 4.0, "network_errors": 0.4, "retransmits": 0.2, "host_clock": 1800.0
    }  # fmt: skip


def test_the_figures_of_this_machine() -> None:
    (source,) = host(5.0).sources
    samples = []
    for pause in (0.0, 0.1):
        time.sleep(pause)
        samples.append(subprocess.run(source.command.argv, capture_output=True, text=True, check=True).stdout)
    listed = [line.partition(":")[2] for line in samples[0].splitlines() if line.startswith("/proc/net/dev:")]
    interfaces = Path("/proc/net/dev").read_text().splitlines()[2:]
    assert [line.split(":")[0] for line in listed] == [line.split(":")[0] for line in interfaces]
    first, (line,) = map(source.read, samples)
    ((_, figures),) = host_samples(f"{stamp(0)}\t{line}\n")
    assert (first, {"load", "page_faults", "retransmits"} - figures.keys()) == ([], set())


def test_a_machine_without_some_files() -> None:
    read = HostFigures()
    lines = "/proc/uptime:{} 900.00\n/proc/loadavg:3.25 1.00 1.00 1/200 999\n"
    assert [read(lines.format(100.0)), read(lines.format(101.0))] == [[], ["3.2load N/A N/A N/A N/A"]]
