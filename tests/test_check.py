"""`flagperf check vendor=…`: what shipped vendors lack, a vendor of the user's own, and broken files."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml

from flagperf.check import Lack, check_vendor
from flagperf.errors import ConfigError
from flagperf.places import CONF

ACME = Path(__file__).parent / "data/acme"
VENDORS = sorted(path.stem for path in (CONF / "vendor").glob("*.yaml"))


@pytest.fixture
def acme(tmp_path: Path) -> Path:
    """A copy of the vendor made of YAML alone, to be broken."""
    return Path(shutil.copytree(ACME, tmp_path / "acme"))


def change(path: Path, **values: object) -> None:
    """Set keys of the vendor mapping; "absent" removes one."""
    tree = yaml.safe_load(path.read_text())
    tree["vendor"] |= values
    tree["vendor"] = {key: value for key, value in tree["vendor"].items() if value != "absent"}
    path.write_text("# @package _global_\n" + yaml.safe_dump(tree))


def needed(folder: Path) -> list[tuple[str, str, str]]:
    lacks = check_vendor("acme", [folder])
    return [(Path(lack.file).name, lack.key, lack.what) for lack in lacks if lack.needed]


@pytest.mark.parametrize("vendor", VENDORS)
def test_shipped_vendors_lack_nothing_needed(vendor: str) -> None:
    assert [lack for lack in check_vendor(vendor) if lack.needed] == []


def test_the_host_itself_lacks_nothing() -> None:
    assert check_vendor("cpu") == []


def test_what_a_vendor_may_still_add(acme: Path) -> None:
    for case in (CONF / "model").glob("*.yaml"):
        if case.stem != "glm":
            folder = acme / "vendor/acme" / case.stem
            folder.mkdir(exist_ok=True)
            (folder / "A1.yaml").write_text("# @package _global_\n")
    (acme / "vendor/acme/glm").mkdir()
    (acme / "vendor/acme/glm/A1x1x8.yaml").write_text("# @package _global_\n")
    assert check_vendor("acme", [acme]) == [
        Lack(
            str(acme / "vendor/acme.yaml"),
            "vendor.device_files",
            "null: devices are not counted before a run starts",
            needed=False,
        ),
        Lack(str(acme / "hardware/A1.yaml"), "peak_flops", "none for tf32, fp16: no MFU there", needed=False),
        Lack(
            "vendor/acme/<case>/A1x<scale>.yaml",
            "",
            "none for 1x1, 2x8 of glm: the case's own values are used",
            needed=False,
        ),
    ]


def test_no_monitor(acme: Path) -> None:
    change(acme / "vendor/acme.yaml", monitor=None, device="npu")
    what = "null: temperature, power, memory and utilisation stay unknown"
    assert needed(acme) == [("acme.yaml", "vendor.monitor", what)]


def test_monitor_that_reads_little(acme: Path) -> None:
    change(acme / "vendor/acme.yaml", monitor={"command": ["acme-smi"], "parse": r"(?P<temperature>\d+)C"})
    what = "no group for: power, memory_used, memory_total, utilisation"
    assert (str(acme / "vendor/acme.yaml"), "vendor.monitor.parse", what, False) in check_vendor("acme", [acme])


@pytest.mark.parametrize(
    ("values", "key", "what"),
    [
        pytest.param({"backend": "absent"}, "vendor.backend", "a required key is missing; text", id="missing key"),
        pytest.param({"bakend": "x"}, "vendor.bakend", "unknown key; did you mean 'backend'?", id="unknown key"),
        pytest.param(
            {"monitor": {"command": "acme-smi", "parse": "x"}},
            "vendor.monitor.command",
            "wrong type of value; given acme-smi; a list",
            id="command as text",
        ),
        pytest.param(
            {"monitor": {"command": ["acme-smi"], "parse": "(?P<pover>x)"}},
            "vendor.monitor.parse",
            "unknown group; given pover; did you mean 'power'?",
            id="unknown figure",
        ),
    ],
)
def test_wrong_values(acme: Path, values: dict[str, object], key: str, what: str) -> None:
    change(acme / "vendor/acme.yaml", **values)
    assert needed(acme) == [("acme.yaml", key, what)]


def test_no_image(acme: Path) -> None:
    change(acme / "vendor/acme.yaml", image={})
    (row,) = needed(acme)
    assert row[:2] == ("acme.yaml", "vendor.image.pytorch.name")
    assert row[2].startswith("vendor acme names no image for pytorch; name the vendor's image in ")


def test_defaults_of_an_accelerator(acme: Path) -> None:
    path = acme / "vendor/acme.yaml"
    path.write_text(path.read_text().replace("  - override /size: full\n", ""))
    what = "`override /size: full`, which accelerators default to"
    assert (str(path), "defaults", what, False) in check_vendor("acme", [acme])


def test_hardware_missing_and_broken(acme: Path) -> None:
    path = acme / "hardware/A1.yaml"
    path.write_text(path.read_text() + "memory_gb: 1\n")
    assert needed(acme) == [("A1.yaml", "hardware.memory_gb", "unknown key; did you mean 'memory_gib'?")]
    path.unlink()
    assert needed(acme) == [("<product>.yaml, with vendor: acme", "", "no product")]


def test_unknown_vendor() -> None:
    with pytest.raises(ConfigError) as caught:
        check_vendor("nvidea")
    rows = "  where:   command line\n  key:     vendor\n  given:   nvidea\n  allowed: did you mean 'nvidia'?"
    assert str(caught.value) == f"no such vendor\n{rows}"


def test_a_file_that_is_no_yaml(acme: Path) -> None:
    path = acme / "vendor/acme.yaml"
    path.write_text("vendor: [")
    with pytest.raises(ConfigError, match="not YAML") as caught:
        check_vendor("acme", [acme])
    assert caught.value.where == str(path)
