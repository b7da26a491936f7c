"""What the kernel's and ipmitool's texts mean."""

from __future__ import annotations

import pytest

from flagperf.hosts.monitors.node import BusyFraction, RaplPower, largest_watts, used_fraction

RAPL = """intel-rapl:0/name:package-0
intel-rapl:0:0/name:core
intel-rapl:0:1/name:dram
intel-rapl:1/name:psys
intel-rapl:0/energy_uj:{package}
intel-rapl:0:0/energy_uj:999
intel-rapl:0:1/energy_uj:{dram}
intel-rapl:1/energy_uj:999
intel-rapl:0/max_energy_range_uj:9999999
intel-rapl:0:0/max_energy_range_uj:9999999
intel-rapl:0:1/max_energy_range_uj:9999999
intel-rapl:1/max_energy_range_uj:9999999
{uptime} 400.00"""


def test_busy_is_neither_idle_nor_waiting_for_disks() -> None:
    read = BusyFraction()
    assert read("cpu  100 0 50 800 50 0 0 0 0 0") == []
    assert read("cpu  120 0 60 850 70 0 0 0 7 0") == ["0.3000"]  # 30 of 100 ticks; guest time is inside user time
    assert read("cpu  120 0 60 850 70 0 0 0 7 0") == []  # no time went by


def test_used_memory_is_what_no_new_program_could_have() -> None:
    assert used_fraction("MemTotal:       1000 kB\nMemAvailable:    250 kB") == ["0.7500"]


@pytest.mark.parametrize(
    ("text", "watts"),
    [
        pytest.param("    Instantaneous power reading:                   214 Watts", "214", id="dcmi"),
        pytest.param(
            "PSU1_Power       | 180 Watts         | ok\nTotal_Power      | 352 Watts         | ok\n"
            "Fan_Power        | 24 Watts          | ok",
            "352",
            id="sdr, the largest",
        ),
    ],
)
def test_ipmitool(text: str, watts: str) -> None:
    assert largest_watts(text) == [watts]


def test_zero_watts_is_no_reading() -> None:
    with pytest.raises(ValueError, match="no reading in watts"):
        largest_watts("Total_Power | 0 Watts | ok")


def test_rapl_counts_packages_and_memory_and_goes_over_the_end_of_a_counter() -> None:
    read = RaplPower()
    assert read(RAPL.format(package=9_000_000, dram=1_000_000, uptime="10.00")) == []
    assert read(RAPL.format(package=9_500_000, dram=1_100_000, uptime="10.50")) == ["1.20\t0.60"]
    assert read(RAPL.format(package=500_000, dram=1_100_000, uptime="12.50")) == ["0.50\t1.60"]


def test_rapl_without_a_package() -> None:
    with pytest.raises(ValueError, match="no RAPL domain of a package"):
        RaplPower()("intel-rapl:1/name:psys\nintel-rapl:1/energy_uj:999\n10.00 400.00")
