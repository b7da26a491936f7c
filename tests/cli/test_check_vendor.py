"""`flagperf check vendor=…`: what shipped vendors lack, a vendor of the user's own, and broken files."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml
from shipped import VENDORS

from flagperf.cli.check_vendor import check_vendor
from flagperf.cli.vendor_files import Lack
from flagperf.config.files.search_path import CONF
from flagperf.config.rules.extension import NO_PROOF
from flagperf.errors import ConfigError

ACME = Path(__file__).parents[1] / "data/acme"
GLOBAL = "# @package _global_\n"


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
    return [(Path(lack.file).name, lack.key, lack.problem) for lack in lacks if lack.needed]


@pytest.mark.long
@pytest.mark.parametrize("vendor", VENDORS)
def test_shipped_vendors_lack_nothing_needed(vendor: str) -> None:
    """Each product and each tuning is composed, and each tuning is the one that its scale gets."""
    assert [lack for lack in check_vendor(vendor) if lack.needed] == []


def test_what_a_vendor_may_still_add(acme: Path) -> None:
    (acme / "vendor/acme/glm").mkdir()
    (acme / "vendor/acme/glm/A1x2x1.yaml").write_text(GLOBAL)
    untuned = ", ".join(sorted(path.stem for path in (CONF / "model").glob("*.yaml") if path.stem != "resnet50"))
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
            f"none for 1x1 of {untuned}: the case's own values are used",
            needed=False,
        ),
    ]


def test_own_code_without_a_proof(acme: Path) -> None:
    left_out = shutil.ignore_patterns("proofs")
    shutil.copytree(ACME.with_name("acme_kernels"), acme, ignore=left_out, dirs_exist_ok=True)
    what = f"no proof, so that a run is open: {NO_PROOF}"
    tunings = [str(acme / f"vendor/acme/resnet50/{name}.yaml") for name in ("A1", "A1x2x1")]
    found = [lack for lack in check_vendor("acme", [acme]) if lack.key == "vendor.extension"]
    assert found == [Lack(tuning, "vendor.extension", what, needed=False) for tuning in tunings]


def test_no_monitor(acme: Path) -> None:
    change(acme / "vendor/acme.yaml", monitor=None, device="npu")
    what = "null: temperature, power, memory and utilisation of devices stay unknown"
    path = acme / "vendor/acme.yaml"
    assert (str(path), "vendor.monitor", what, False) in check_vendor("acme", [acme])
    assert needed(acme) == []


def test_monitor_that_reads_little(acme: Path) -> None:
    change(acme / "vendor/acme.yaml", monitor={"command": ["acme-smi"], "parse": r"(?P<temperature>\d+)C"})
    what = "no group for: power, memory_used, memory_total, utilisation"
    lacks = check_vendor("acme", [acme])
    assert (str(acme / "vendor/acme.yaml"), "vendor.monitor.parse", what, False) in lacks
    what = "no group index: a sample that lacks a device cannot be used: the device is unknown"
    assert (str(acme / "vendor/acme.yaml"), "vendor.monitor.parse", what, False) in lacks


@pytest.mark.parametrize(
    ("values", "key", "what"),
    [
        pytest.param({"backend": "absent"}, "vendor.backend", "a required key is missing; text", id="missing key"),
        pytest.param({"bakend": "x"}, "vendor.bakend", "unknown key; did you mean 'backend'?", id="unknown key"),
        pytest.param(
            {"monitor": {"command": [], "parse": "(?P<power>x)"}},
            "vendor.monitor.command",
            "the command is empty; given []",
            id="no command",
        ),
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
    number = path.read_text().replace("fp32: ", "fp32: 5e11    # was ")  # a number for a run, though not for PyYAML
    path.write_text(number + "memory_gb: 1\n")
    assert needed(acme) == [("A1.yaml", "hardware.memory_gb", "unknown key; did you mean 'memory_gib'?")]
    path.unlink()
    assert needed(acme) == [
        ("<product>.yaml, with vendor: acme", "", "no product"),
        ("A1.yaml", "", "the vendor has no product A1"),
        ("A1x2x1.yaml", "", "the vendor has no product A1"),
    ]


VARIABLE = "the name of a variable: letters, digits and _, no digit first"


def test_what_is_wrong_hides_nothing_else(acme: Path) -> None:
    """A half-written vendor, whose device is the CPU, a product with two slips, and another file that is no YAML."""
    (acme / "vendor/acme.yaml").write_text(f"{GLOBAL}vendor: {{titel: Acme, device: cpu, monitor: {{command: []}}}}\n")
    product = (acme / "hardware/A1.yaml").read_text()
    (acme / "hardware/A1.yaml").write_text(product.replace("fp32", "fp23").replace("power_w: 75", "power_w: -75"))
    (acme / "hardware/B1.yaml").write_text("vendor: [\n")
    (acme / "vendor/acme/resnet50/A1.yaml").write_text(f"{GLOBAL}train_batch_sise: 64\n")
    missing = "a required key is missing; text"
    key = "vendor.image.pytorch"
    image = (
        f"name the vendor's image in {key}.name, or an image to build on in {key}.base; read docs/adding-a-vendor.md"
    )
    assert needed(acme) == [
        ("acme.yaml", "vendor.titel", "unknown key; did you mean 'title'?"),
        ("acme.yaml", "vendor.title", missing),
        ("acme.yaml", "vendor.backend", missing),
        ("acme.yaml", "vendor.plugin", f"{missing}, or null"),
        ("acme.yaml", "vendor.visible_devices", f"a required key is missing; {VARIABLE}, or null"),
        ("acme.yaml", "vendor.image.pytorch.name", f"vendor acme names no image for pytorch; {image}"),
        ("acme.yaml", "vendor.monitor.command", "the command is empty; given []"),
        ("B1.yaml:2", "", "not valid YAML: expected the node content, but found '<stream end>'"),
        ("A1.yaml", "hardware.power_w", "value out of range; given -75; a number, above 0, or null"),
        ("A1.yaml", "hardware.peak_flops.fp23", "no such option; given fp23; did you mean 'fp32'?"),
        ("A1.yaml", "train_batch_sise", "unknown key; did you mean 'train_batch_size'?"),
    ]


def test_all_that_is_wrong_with_a_tuning(acme: Path) -> None:
    tuning = "train_batch_sise: 64\nnetwork: {width: 2}\ntarget: {value: 1}\n"
    (acme / "vendor/acme/resnet50/A1.yaml").write_text(GLOBAL + tuning)
    fixed = "a tuning may change mutable keys only; given %s; "
    fixed += "take it out of the tuning; an experiment with division=open may set it"
    assert needed(acme) == [
        ("A1.yaml", "train_batch_sise", "unknown key; did you mean 'train_batch_size'?"),
        ("A1.yaml", "target.value", fixed % 1),
        ("A1.yaml", "network.width", fixed % 2),
    ]


@pytest.mark.parametrize(
    ("file", "text", "row"),
    [
        pytest.param(
            "vendor/acme.yaml",
            "vendor: {title: Acme}\n",
            ("acme.yaml", "", "the first line must be: # @package _global_"),
            id="vendor: no package line",
        ),
        pytest.param(
            "vendor/acme.yaml",
            f"{GLOBAL}vender: {{title: Acme}}\n",
            ("acme.yaml", "vender", "a vendor file may set vendor only; vendor"),
            id="vendor: a slip at the top",
        ),
        pytest.param(
            "vendor/acme.yaml",
            f"{GLOBAL}vendor: hello\n",
            ("acme.yaml", "vendor", "wrong type of value; given hello; a mapping"),
            id="vendor: no mapping",
        ),
        pytest.param(
            "vendor/acme.yaml",
            "vendor: [",
            ("acme.yaml:1", "", "not valid YAML: expected the node content, but found '<stream end>'"),
            id="vendor: no YAML",
        ),
        pytest.param(
            "vendor/acme/resnet50/A1.yaml",
            f"{GLOBAL}target: {{value: 3}}\n",
            (
                "A1.yaml",
                "target.value",
                "a tuning may change mutable keys only; given 3; "
                "take it out of the tuning; an experiment with division=open may set it",
            ),
            id="tuning: immutable key",
        ),
        pytest.param(
            "vendor/acme/resnet50/A1.yaml",
            "train_batch_size: 3\n",
            ("A1.yaml", "", "the first line must be: # @package _global_"),
            id="tuning: no package line",
        ),
        pytest.param(
            "vendor/acme/resnet50/A1.yaml",
            f"{GLOBAL}lr: [\n",
            ("A1.yaml:3", "", "not valid YAML: expected the node content, but found '<stream end>'"),
            id="tuning: no YAML",
        ),
        pytest.param(
            "vendor/acme/resnet50/A1.yaml",
            f"{GLOBAL}vendor: {{image: {{pytorch: {{requirements: [x]}}}}}}\n",
            (
                "A1.yaml",
                "vendor.image.pytorch.requirements",
                "image acme-pytorch:1.0 is used as it is, so no packages can be added; given x; take an image that has "
                "them, or build on it: vendor.image.pytorch.base=acme-pytorch:1.0",
            ),
            id="tuning: packages for a ready image",
        ),
        pytest.param(
            "vendor/acme/resnet50/A1x1x8.yaml",
            GLOBAL,
            ("A1x1x8.yaml", "nproc", "more ranks than devices; given 8; at most 2, the devices of a node with A1"),
            id="tuning: a scale that the product does not have",
        ),
        pytest.param(
            "vendor/acme/resnet50/A1x01x1.yaml",
            GLOBAL,
            ("A1x01x1.yaml", "", "no run uses it: resnet50-pytorch-A1x1x1 is tuned by acme/resnet50/A1"),
            id="tuning: not the name of its scale",
        ),
        pytest.param(
            "vendor/acme/resnet50/A2.yaml",
            GLOBAL,
            ("A2.yaml", "", "the vendor has no product A2: one of: A1"),
            id="tuning: no such product",
        ),
        pytest.param(
            "vendor/acme/resnet51/A1.yaml",
            GLOBAL,
            ("A1.yaml", "", "there is no case resnet51: did you mean 'resnet50'?"),
            id="tuning: no such case",
        ),
    ],
)
def test_what_a_run_would_be_refused_for(acme: Path, file: str, text: str, row: tuple[str, str, str]) -> None:
    (acme / file).parent.mkdir(exist_ok=True)
    (acme / file).write_text(text)
    assert needed(acme) == [row]


def test_unknown_vendor() -> None:
    with pytest.raises(ConfigError) as caught:
        check_vendor("nvidea")
    rows = "  where:   command line\n  key:     vendor\n  given:   nvidea\n  allowed: did you mean 'nvidia'?"
    assert str(caught.value) == f"no such vendor\n{rows}"
