"""Logs of a known course → means, coverage and energy, against sums done by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flagperf.contract.monitor_log import Device, stamp
from flagperf.results.monitors import job_energy, summarize

START = 1_700_000_000.0


def write(folder: Path, name: str, samples: list[tuple[float, str]]) -> None:
    (folder / f"{name}_monitor.log").write_text("".join(f"{stamp(START + t)}\t{text}\n" for t, text in samples))


def write_devices(folder: Path, samples: list[tuple[float, list[Device]]]) -> None:
    blocks = ["\n".join([stamp(START + t), *(one.line() for one in devices), "", ""]) for t, devices in samples]
    (folder / "acme_monitor.log").write_text("".join(blocks))


def approx(value: Any) -> Any:
    """Numbers at any depth, compared with a small tolerance."""
    if isinstance(value, dict):
        return {key: approx(item) for key, item in value.items()}
    return pytest.approx(value, rel=1e-9) if isinstance(value, float) else value


def test_fractions(tmp_path: Path) -> None:
    write(tmp_path, "cpu", [(-5, "0.9"), (0, "0.2"), (5, "0.4"), (10, "0.6"), (15, "0.9")])
    assert summarize(tmp_path, START, START + 10) == approx({"cpu": {"mean": 0.4, "max": 0.6, "coverage": 1.0}})


def test_energy_of_readings_is_the_area_under_them(tmp_path: Path) -> None:
    write(tmp_path, "pwr", [(-10, "90"), (0, "100"), (10, "200"), (20, "100")])
    assert summarize(tmp_path, START, START + 20) == {
        "pwr": approx(
            {
                "mean": 400 / 3,
                "max": 200.0,
                "coverage": 1.0,
                "source": "node",
                "energy_j": 3000.0,
                "energy_wh": 3000 / 3600,
                "idle_w": 90.0,
                "energy_above_idle_j": 3000.0 - 90 * 20,
            }
        )
    }


def test_energy_of_a_counter_is_its_difference(tmp_path: Path) -> None:
    write(tmp_path, "pwr", [(0, "1\t0"), (10, "1\t700"), (20, "1\t2000")])
    figures = summarize(tmp_path, START, START + 20)["pwr"]
    assert (figures["source"], figures["energy_j"], figures["coverage"]) == ("rapl", pytest.approx(2000), 1.0)
    assert "idle_w" not in figures


def test_a_counter_that_went_back_counts_by_its_readings(tmp_path: Path) -> None:
    write(tmp_path, "pwr", [(0, "50\t9000"), (10, "50\t9500"), (20, "50\t10"), (30, "50\t510")])
    assert summarize(tmp_path, START, START + 30)["pwr"]["energy_j"] == pytest.approx(1500)


def test_a_hole_is_no_coverage_and_counts_with_the_mean_of_the_rest(tmp_path: Path) -> None:
    write(tmp_path, "pwr", [(0, "100"), (5, "100"), (10, "100"), (80, "300"), (85, "300"), (90, "300"), (95, "300")])
    figures = summarize(tmp_path, START, START + 100)["pwr"]
    assert figures["coverage"] == pytest.approx(0.25)
    assert figures["energy_j"] == pytest.approx((10 * 100 + 15 * 300) / 25 * 100)


def test_devices(tmp_path: Path) -> None:
    samples = [
        (-5, [Device(30, 50, 0, 16, 0), Device(31, 60, 0, 16, 0)]),
        (0, [Device(40, 100, 8, 16, 100), Device(42, 300, 10, 16, 50)]),
        (10, [Device(50, 200, 8, 16, 80), Device(52, 400, 12, 16, 90)]),
    ]
    write_devices(tmp_path, samples)
    assert summarize(tmp_path, START, START + 10) == {
        "acme": approx(
            {
                "devices": 2,
                "indices": [0, 1],
                "temperature": {"mean": 46.0, "max": 52.0, "coverage": 1.0, "devices": 2},
                "power": {
                    "devices": 2,
                    "mean": 500.0,
                    "max": 600.0,
                    "coverage": 1.0,
                    "energy_j": 5000.0,
                    "energy_wh": 5000 / 3600,
                    "idle_w": 110.0,
                    "energy_above_idle_j": 5000.0 - 1100.0,
                },
                "memory_used": {"mean": 9.5, "max": 12.0, "coverage": 1.0, "devices": 2},
                "memory_total": {"mean": 16.0, "max": 16.0, "coverage": 1.0, "devices": 2},
                "utilisation": {"mean": 80.0, "max": 100.0, "coverage": 1.0, "devices": 2},
            }
        )
    }


def busy(*indices: int) -> list[tuple[float, list[Device]]]:
    """Six devices, of which these draw 300 W and the others 50 W."""
    return [
        (
            t,
            [
                Device(80, 300, energy=300 * t) if place in indices else Device(30, 50, energy=50 * t)
                for place in range(6)
            ],
        )
        for t in (-5, 0, 5, 10)
    ]


@pytest.mark.parametrize("devices", [(2, 3), (3, 2)])
def test_only_the_devices_of_the_job_count(tmp_path: Path, devices: tuple[int, ...]) -> None:
    write_devices(tmp_path, busy(2, 3))
    figures = summarize(tmp_path, START, START + 10, devices)["acme"]
    assert (figures["devices"], figures["indices"]) == (2, list(devices))
    assert figures["temperature"]["mean"] == 80
    assert figures["power"]["mean"] == 600
    assert figures["power"]["energy_j"] == pytest.approx(6000)  # by the counters


def test_a_device_that_the_tool_leaves_out_is_not_known(tmp_path: Path) -> None:
    write_devices(tmp_path, busy(2, 3))
    figures = summarize(tmp_path, START, START + 10, (5, 6))["acme"]
    assert figures["power"] == {"mean": 50.0, "max": 50.0, "coverage": 1.0, "devices": 1}


def test_devices_that_the_tool_does_not_show(tmp_path: Path) -> None:
    write_devices(tmp_path, busy(2, 3))
    why = "the tool shows 6 devices, and none of those of the job, [130, 131]"
    assert summarize(tmp_path, START, START + 10, (130, 131)) == {"acme": {"not_available": why}}


def test_a_sample_that_lacks_a_device_shifts_no_figures(tmp_path: Path) -> None:
    """Nobody knows which device is missing where there are fewer than in other samples."""
    both, one = [Device(power=45.5), Device(power=145.5)], [Device(power=145.5)]
    write_devices(tmp_path, [(0, both), (5, one), (10, both), (15, both), (20, one), (25, both)])
    assert summarize(tmp_path, START, START + 25, (0,))["acme"]["power"]["mean"] == 45.5


def test_what_cannot_be_is_no_figure_and_is_counted(tmp_path: Path) -> None:
    fine = Device(40, 100, 8, 16, 50)
    samples = [(0, fine), (5, Device(40, -5, 17, 16, 50)), (10, Device(400, 65535, 8, 16, 101)), (15, fine)]
    write_devices(tmp_path, [(t, [Device(30, -1, -1, 16, -1), one]) for t, one in samples])
    assert summarize(tmp_path, START, START + 12, (1,))["acme"] == {
        "devices": 1,
        "indices": [1],
        "temperature": {"mean": 40.0, "max": 40.0, "coverage": 1.0, "devices": 1},
        "power": {"mean": 100.0, "max": 100.0, "coverage": 1.0, "devices": 1},
        "memory_used": {"mean": 8.0, "max": 8.0, "coverage": 1.0, "devices": 1},
        "memory_total": {"mean": 16.0, "max": 16.0, "coverage": 1.0, "devices": 1},
        "utilisation": {"mean": 50.0, "max": 50.0, "coverage": 1.0, "devices": 1},
        "impossible": {"temperature": 1, "power": 2, "memory_used": 1, "utilisation": 1},
    }


def test_a_node_has_no_impossible_figures_either(tmp_path: Path) -> None:
    write(tmp_path, "cpu", [(0, "0.2"), (5, "-0.4"), (10, "1.5"), (15, "0.4")])
    write(tmp_path, "pwr", [(0, "-1"), (5, "1e9")])
    assert summarize(tmp_path, START, START + 15) == {
        "cpu": {"mean": approx(0.3), "max": 0.4, "coverage": 1.0, "impossible": 2},
        "pwr": {"impossible": 2},
    }


def test_power_of_some_devices_is_no_energy_of_all(tmp_path: Path) -> None:
    write_devices(tmp_path, [(t, [Device(40, 100, utilisation=90), Device(42)]) for t in (0, 10)])
    assert summarize(tmp_path, START, START + 10) == {
        "acme": {
            "devices": 2,
            "indices": [0, 1],
            "temperature": {"mean": 41.0, "max": 42.0, "coverage": 1.0, "devices": 2},
            "power": {"mean": 100.0, "max": 100.0, "coverage": 1.0, "devices": 1},
            "utilisation": {"mean": 90.0, "max": 90.0, "coverage": 1.0, "devices": 1},
        }
    }


def test_a_device_that_falls_silent_lowers_the_coverage(tmp_path: Path) -> None:
    samples = [(t, [Device(power=100), Device(power=200 if t < 10 else None)]) for t in (0, 5, 10, 15, 20)]
    write_devices(tmp_path, samples)
    power = summarize(tmp_path, START, START + 20)["acme"]["power"]
    assert (power["devices"], power["mean"], power["coverage"]) == (2, 300.0, pytest.approx(0.25))
    assert power["energy_j"] == pytest.approx(300 * 20)


def test_no_device_of_the_job_has_figures(tmp_path: Path) -> None:
    write_devices(tmp_path, busy(2, 3))
    assert summarize(tmp_path, START, START + 10, devices=()) == {}


def test_what_is_not_available_is_never_zero(tmp_path: Path) -> None:
    write(tmp_path, "pwr", [(0, "not available: RAPL: no such folder")])
    write(tmp_path, "acme", [(0, "not available: acme-smi: not found")])
    write(tmp_path, "cpu", [(-5, "0.1"), (3600, "0.1")])  # nothing within the time
    write(tmp_path, "mem", [])
    assert summarize(tmp_path, START, START + 10) == {
        "pwr": {"not_available": "RAPL: no such folder"},
        "acme": {"not_available": "acme-smi: not found"},
        "cpu": {
            "not_available": "no sample lies in the training, the nearest is 5 s before it (of 2)",
            "coverage": 0.0,
        },
    }


def test_torn_and_foreign_lines_are_passed_over(tmp_path: Path) -> None:
    write(tmp_path, "mem", [(0, "0.5"), (5, "0.")])
    with (tmp_path / "mem_monitor.log").open("a") as file:
        file.write("garbage\n2023-11\t0.7\n" + stamp(START + 10) + "\t0.x")
    assert summarize(tmp_path, START, START + 10)["mem"]["mean"] == pytest.approx(0.25)


def test_energy_of_a_job_is_the_sum_over_its_nodes() -> None:
    one = {"pwr": {"source": "node", "energy_j": 100.0, "coverage": 0.9, "energy_above_idle_j": 40.0}}
    two = {"pwr": {"source": "node", "energy_j": 300.0, "coverage": 0.8, "energy_above_idle_j": 50.0}}
    assert job_energy({"a": one, "b": two}, samples=1000) == {
        "node": approx(
            {
                "energy_j": 400.0,
                "energy_wh": 400 / 3600,
                "coverage": 0.8,
                "energy_above_idle_j": 90.0,
                "energy_per_sample_j": 0.4,
            }
        )
    }


def test_energy_that_one_node_does_not_know_has_its_reason() -> None:
    devices = {"power": {"energy_j": 100.0, "coverage": 1.0}}
    nodes = {"a": {"acme": devices}, "b": {"acme": {"not_available": "gone"}}, "c": {"cpu": {"mean": 0.1}}}
    assert job_energy(nodes, samples=10) == {
        "devices": {"not_available": "b: gone; c: its monitors do not report it", "coverage": 0.0}
    }
    alone = {"a": {"acme": devices, "pwr": {"not_available": "none"}}}
    assert sorted(job_energy(alone, samples=None)) == ["devices"]
