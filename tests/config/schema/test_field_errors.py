"""What the fields of vendors, products, runtimes and clusters refuse: the whole message, in a dry run already."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from refusals import lines, message
from user_folder import write

from flagperf.config.compose import compose
from flagperf.config.files.search_path import VENDORS
from flagperf.config.schema.cluster import Cluster
from flagperf.config.schema.platform import ContainerOptions, Hardware, Ulimit, Vendor
from flagperf.contract.build import build
from flagperf.errors import ConfigError

DOCKER = VENDORS / "cpu/docker/pytorch"

CLUSTER: dict[str, Any] = {"title": "lab", "nodes": [{"name": "n1", "address": "h1"}]}
VENDOR: dict[str, Any] = {
    "title": "Acme",
    "device": "cpu",
    "backend": "gloo",
    "plugin": None,
    "visible_devices": None,
    "image": {"pytorch": {"folder": str(DOCKER)}},
}
HARDWARE: dict[str, Any] = {"title": "A1", "vendor": "acme", "memory_gib": 16, "power_w": None, "peak_flops": {}}
GROUPS: dict[str, tuple[type, str, dict[str, Any]]] = {
    "vendor": (Vendor, "vendor/acme", VENDOR),
    "hardware": (Hardware, "hardware/A1", HARDWARE),
    "cluster": (Cluster, "cluster/lab", CLUSTER),
}
TOOL = {"command": ["acme-smi"], "parse": "(?P<power>x)"}
OVERRIDES = [
    "model=resnet50",
    "vendor=acme",
    "hardware=A1",
    "cluster=lab",
    "size=full",
    "runtime=docker",
    "dry_run=true",
]

FOLDER = "the name of a folder: not empty, without /, not . or .."
HOST = "the name or IP address of a host"
USER = "the name of a user, which begins with no -"
OPERAND = "text that begins with no -, as an option does"
PATH = "an absolute path, with ~ written out"
VARIABLE = "the name of a variable: letters, digits and _, no digit first"
SIZE = "a number with b, k, m, g or t, such as 512m, or null"
DEVICE = (
    "host[:container[:permissions]], both absolute paths of one device (no pattern, no X for a number), "
    "permissions of r, w and m in this order"
)
TARGET = "an absolute path in the container, or one with :rw, or null"
GPUS = "all, a count, or device=0,1, or null"
IMAGE = (
    "the name of an image as docker takes it: [registry/]name[:tag][@digest], the name in lower-case letters, or null"
)
ABOVE_0 = "a number, above 0"


def bench(folder: Path, group: str = "", values: dict[str, Any] | None = None) -> Path:
    """A folder with a vendor, its product and a cluster; one of them has further values."""
    for name, (_, file, good) in GROUPS.items():
        tree = {**good, **(values or {})} if name == group else good
        text = yaml.safe_dump({"vendor": tree} if name == "vendor" else tree, sort_keys=False)
        write(folder, {file: f"# @package _global_\n{text}" if name == "vendor" else text})
    return folder


def wrong(name: str, group: str, values: dict[str, Any], problem: str, key: str, **details: str) -> Any:
    """A row of values of a group, of which one is refused."""
    return pytest.param(group, values, {"problem": problem, "key": key, **details}, id=name)


def node(key: str, given: str, allowed: str, **values: Any) -> Any:
    """A node with a wrong value."""
    refusal = {"key": f"cluster.nodes[0].{key}", "given": given, "allowed": allowed}
    nodes = {"nodes": [{"name": "n1", "address": "h1", **values}]}
    return pytest.param("cluster", nodes, {"problem": "wrong form of value", **refusal}, id=f"{key} {given}")


def container(option: str, value: Any, allowed: str, problem: str = "wrong form of value", at: str = "") -> Any:
    """A cluster whose containers have a wrong option."""
    given = next(iter(value)) if isinstance(value, dict) else value[0] if isinstance(value, list) else value
    refusal = {"problem": problem, "key": f"cluster.container.{option}{at}", "given": str(given), "allowed": allowed}
    return pytest.param("cluster", {"container": {option: value}}, refusal, id=f"{option} {given}")


def variable(name: str, values: str = "environment") -> Any:
    refusal = {"key": f"vendor.{values}.{name}", "given": name or '""', "allowed": VARIABLE}
    return pytest.param("vendor", {values: {name: "1"}}, {"problem": "wrong form of value", **refusal}, id=f"{name!r}")


@pytest.mark.parametrize(
    ("group", "values", "refusal"),
    [
        pytest.param(
            "vendor",
            {"visible_devices": "A) touch made ;; B"},  # environment.sh has the name
            {
                "problem": "wrong form of value",
                "key": "vendor.visible_devices",
                "given": "A) touch made ;; B",
                "allowed": f"{VARIABLE}, or null",
            },
            id="visible_devices",
        ),
        *(variable(name) for name in ("x; touch /tmp/pwned;", "A B", "", "E=F", "1A", "$(id)", "ä", "A-B")),
        variable("A B", "deterministic_environment"),
        wrong(
            "a number for a variable",
            "vendor",
            {"environment": {"A": 1}},
            "wrong type of value",
            "vendor.environment.A",
            given="1",
            allowed="text",
            do="a value in quotes is text",
        ),
        *(node("name", name, FOLDER, name=name) for name in ("../../../etc/x", "/abs", "a/b", ".", "..")),
        node("name", r"a\x00b", FOLDER, name="a\0b"),
        node("name", '""', FOLDER, name=""),
        *(
            node("address", address, HOST, address=address)
            for address in ("../x", "a b", "-oProxyCommand=x", "$(id)", "a;b")
        ),
        *(node("user", user, f"{USER}, or null", user=user) for user in ("-oProxyCommand=x", "a b", "`id`")),
        wrong(
            "a jump host that ssh takes for an option",
            "cluster",
            {"ssh": {"jump": "-oProxyCommand=x"}},
            "wrong form of value",
            "cluster.ssh.jump",
            given="-oProxyCommand=x",
            allowed=f"{OPERAND}, or null",
        ),
        node("address", '""', HOST, address="", name="a"),
        node("data_dir", "data", f"{PATH}, or null", data_dir="data"),
        node("data_dir", "~/data", f"{PATH}, or null", data_dir="~/data"),
        *(
            wrong(
                f"work_dir {folder}",
                "cluster",
                {"work_dir": folder},
                "wrong form of value",
                "cluster.work_dir",
                given=folder,
                allowed=PATH,
            )
            for folder in ("rel/dir", "~/fp")
        ),
        wrong(
            "rendezvous: unknown key",
            "cluster",
            {"rendezvous": {"iface": "eth0"}},
            "unknown key",
            "cluster.rendezvous.iface",
            do="did you mean 'interface'?",
        ),
        wrong(
            "rendezvous: interface",
            "cluster",
            {"rendezvous": {"interface": 5}},
            "wrong type of value",
            "cluster.rendezvous.interface",
            given="5",
            allowed="text, or null",
            do="a value in quotes is text",
        ),
        *(
            wrong(
                f"{key} {value}",
                "cluster",
                {"ssh": {key: value}},
                "value out of range",
                f"cluster.ssh.{key}",
                given=str(value),
                allowed=ABOVE_0,
            )
            for key, value in (("keepalive", -1), ("keepalive", 0), ("reconnect", 0), ("reconnect", -3))
        ),
        wrong(
            "image policy",
            "cluster",
            {"image": {"policy": "pul"}},
            "no such option",
            "cluster.image.policy",
            given="pul",
            allowed="one of: build, pull, load, present, or null",
            do="did you mean 'pull'?",
        ),
        *(
            wrong(
                f"image {name}",
                "vendor",
                {"image": {"pytorch": {key: name}}},
                "wrong form of value",
                f"vendor.image.pytorch.{key}",
                given=name,
                allowed=IMAGE,
            )
            for key, name in (("name", "Foo Bar"), ("name", "a:b:c"), ("name", "-x"), ("base", "Acme:1"))
        ),
        container("gpus", "foo", GPUS),
        container("gpus", "device=", GPUS),
        container("gpus", "0", GPUS),
        container("shm_size", "lots", SIZE),
        container("shm_size", "-1g", SIZE),
        container("memory", "1,5g", SIZE),
        container("cpus", -1, f"{ABOVE_0}, or null", "value out of range"),
        *(
            container("devices", [device], DEVICE, at="[0]")
            for device in (
                "/dev/a:/dev/b:rwm:x",
                "/dev/davinciX",
                "/dev/xpuN:/dev/xpuN",
                "/dev/a*",
                "/dev/a[0-7]",
                "/dev/a{0..7}",
                "/dev/a<n>",
                ":/dev/b",
                "dev/a",
                "/dev/a:r",
                "/dev/a:/dev/b:x",
                "/dev/a:/dev/b:",
                "",
            )
            if device
        ),
        container("mounts", {"rel": "/a"}, PATH, at=".rel"),
        container("mounts", {"~/a": "/a"}, PATH, at=".~/a"),
        wrong(
            "mounts: relative target",
            "cluster",
            {"container": {"mounts": {"/a": "b"}}},
            "wrong form of value",
            "cluster.container.mounts./a",
            given="b",
            allowed=TARGET,
        ),
        wrong(
            "ulimits: below unlimited",
            "cluster",
            {"container": {"ulimits": {"stack": -5}}},
            "value out of range",
            "cluster.container.ulimits.stack",
            given="-5",
            allowed="a whole number, at least -1, or null",
        ),
        wrong(
            "ulimits: unknown",
            "cluster",
            {"container": {"ulimits": {"memlok": 1}}},
            "no such option",
            "cluster.container.ulimits.memlok",
            given="memlok",
            allowed=f"one of: {', '.join(get_args(Ulimit))}",
            do="did you mean 'memlock'?",
        ),
        wrong(
            "monitor: timeout",
            "vendor",
            {"monitor": {**TOOL, "timeout": -4}},
            "value out of range",
            "vendor.monitor.timeout",
            given="-4",
            allowed=ABOVE_0,
        ),
        wrong(
            "monitor: interval",
            "vendor",
            {"monitor": {**TOOL, "interval": -1}},
            "value out of range",
            "vendor.monitor.interval",
            given="-1",
            allowed="a number, at least 0",
        ),
        wrong(
            "hardware: unknown precision",
            "hardware",
            {"peak_flops": {"fp23": 1e12}},
            "no such option",
            "hardware.peak_flops.fp23",
            given="fp23",
            allowed="one of: fp32, tf32, fp16, bf16, fp8",
            do="did you mean 'fp32'?",
        ),
        wrong(
            "hardware: a link without speed",
            "hardware",
            {"links": {"node": {"bandwidth": 0, "latency": None}}},
            "value out of range",
            "hardware.links.node.bandwidth",
            given="0",
            allowed=f"{ABOVE_0}, or null",
        ),
    ],
)
def test_fields(group: str, values: dict[str, Any], refusal: dict[str, str]) -> None:
    kind, file, good = GROUPS[group]
    with pytest.raises(ConfigError) as caught:
        build(kind, {"name": "x", **good, **values}, group, lambda _: f"{file}.yaml")
    assert str(caught.value) == lines(refusal.pop("problem"), where=f"{file}.yaml", **refusal)


@pytest.mark.parametrize(
    ("group", "values", "refusal"),
    [
        variable("x; touch /tmp/pwned;"),
        node("name", "../../../etc/x", FOLDER, name="../../../etc/x"),
        node("address", "a/b", HOST, address="a/b"),
        container("gpus", "foo", GPUS),
        wrong(
            "NUL",
            "vendor",
            {"environment": {"A": "a\0b"}},
            "no text may hold the character NUL",
            "vendor.environment.A",
            given=r"'a\x00b'",
        ),
        wrong(
            "monitor: no command",
            "vendor",
            {"monitor": {**TOOL, "command": []}},
            "the command is empty",
            "vendor.monitor.command",
            given="[]",
        ),
        wrong(
            "monitor: parse",
            "vendor",
            {"monitor": {**TOOL, "parse": "(?P<power>"}},
            "not a regular expression: missing ), unterminated subpattern at position 0",
            "vendor.monitor.parse",
            given="(?P<power>",
        ),
        wrong(
            "hardware: no speed",
            "hardware",
            {"peak_flops": {"fp32": 0}},
            "value out of range",
            "hardware.peak_flops.fp32",
            given="0",
            allowed=ABOVE_0,
        ),
        wrong(
            "hardware: a name that is no pattern",
            "hardware",
            {"device_names": ["A1", "A(1"]},
            "wrong form of value",
            "hardware.device_names[1]",
            given="A(1",
            allowed="a regular expression",
        ),
        wrong(
            "image: nothing to load",
            "cluster",
            {"image": {"policy": "load"}},
            "vendor acme names no image for pytorch",
            "vendor.image.pytorch.name",
            do=f"policy load needs a ready image in vendor.image.pytorch.name; policy build makes one, of {DOCKER}",
        ),
        wrong(
            "image: no certificate",
            "cluster",
            {"image": {"ca_certificate": "/nope.pem"}},
            "there is no such file",
            "cluster.image.ca_certificate",
            given="/nope.pem",
        ),
    ],
)
def test_files(tmp_path: Path, group: str, values: dict[str, Any], refusal: dict[str, str]) -> None:
    folder = bench(tmp_path, group, values)
    file = "vendor/acme" if refusal["key"].startswith("vendor") else GROUPS[group][1]
    expected = lines(refusal.pop("problem"), where=f"{{bench}}/{file}.yaml", **refusal)
    assert message([*OVERRIDES, "data_dir=/data"], folder) == expected


@pytest.mark.parametrize(
    ("override", "refusal"),
    [
        pytest.param(
            "runtime.kind=dockr",
            lines(
                "no such option",
                where="command line",
                key="runtime.kind",
                given="dockr",
                allowed="one of: docker, process",
                do="did you mean 'docker'?",
            ),
            id="kind",
        ),
        pytest.param(
            "runtime.python=5",
            lines(
                "wrong type of value",
                where="command line",
                key="runtime.python",
                given="5",
                allowed=f"{OPERAND}, or null",
                do="as text it is written runtime.python=\"'5'\"",
            ),
            id="python",
        ),
        pytest.param(
            "+runtime.bogus=1",
            lines(
                "unknown key",
                where="command line",
                key="runtime.bogus",
                do="one of: container, image, kind, name, python, srun, title, wrapper",
            ),
            id="unknown key of the runtime",
        ),
        pytest.param(
            "runtime.container.shm_size=lots",
            lines(
                "wrong form of value",
                where="command line",
                key="runtime.container.shm_size",
                given="lots",
                allowed=SIZE,
            ),
            id="size",
        ),
        pytest.param(
            "+cluster.rendezvous.prot=29500",
            lines("unknown key", where="command line", key="cluster.rendezvous.prot", do="did you mean 'port'?"),
            id="unknown key of the rendezvous",
        ),
        pytest.param(
            "+vendor.environment.A-B=x",
            lines(
                "wrong form of value",
                where="command line",
                key="vendor.environment.A-B",
                given="A-B",
                allowed=VARIABLE,
            ),
            id="variable",
        ),
        pytest.param(
            "data.extent.train=many",
            lines(
                "wrong type of value",
                where="command line",
                key="data.extent.train",
                given="many",
                allowed="a whole number",
            ),
            id="extent of the data",
        ),
        pytest.param(
            "+data.extent.tolerance=2",
            lines(
                "value out of range",
                where="command line",
                key="data.extent.tolerance",
                given="2",
                allowed="a number, at least 0, at most 1",
            ),
            id="tolerance of the extent",
        ),
        pytest.param(
            "seed=9999999999999999999999",
            lines(
                "value out of range",
                where="command line",
                key="seed",
                given="9999999999999999999999",
                allowed="a whole number, at least 0, at most 4294967295",
            ),
            id="a seed that no generator takes",
        ),
    ],
)
def test_command_line(tmp_path: Path, override: str, refusal: str) -> None:
    assert message([*OVERRIDES, "data_dir=/data", "division=open", override], bench(tmp_path)) == refusal


def test_a_tuning_names_a_variable_that_is_none(tmp_path: Path) -> None:
    folder = bench(tmp_path)
    write(folder, {"vendor/acme/resnet50/A1": "# @package _global_\nvendor: {environment: {A B: x}}\n"})
    assert message([*OVERRIDES, "data_dir=/data"], folder) == lines(
        "wrong form of value",
        where="{bench}/vendor/acme/resnet50/A1.yaml",
        key="vendor.environment.A B",
        given="A B",
        allowed=VARIABLE,
    )


def test_what_is_accepted(tmp_path: Path) -> None:
    options = {
        "gpus": "device=0,GPU-3a",
        "shm_size": "1.5G",
        "memory": "64gb",
        "cpus": 1.5,
        "devices": ["/dev/a", "/dev/a:/dev/b", "/dev/a:/dev/b:rw", "/dev/X0", "/dev/by-id/AX"],
        "ulimits": {"memlock": -1, "stack": None},
        "mounts": {"/a b": "/c:rw", "/d": None},
    }
    nodes = [{"address": "fe80::1%eth0", "name": "a b'\n…"}, {"address": "10.0.0.2", "name": None}]
    folder = bench(tmp_path, "cluster", {"nodes": nodes, "container": options, "work_dir": "/a b"})
    job = compose([*OVERRIDES, "data_dir=/data"], [folder])
    assert [node.name for node in job.cluster.nodes] == ["a b'\n…", "10.0.0.2"]
    lists = {"devices": tuple(options["devices"])}  # type: ignore[arg-type]
    assert job.cluster.container == ContainerOptions(**{**options, **lists})  # type: ignore[arg-type]


def test_an_image_of_a_vendor_with_capitals_has_a_name_that_docker_takes(tmp_path: Path) -> None:
    vendor = f"# @package _global_\n{yaml.safe_dump({'vendor': VENDOR})}"
    product = yaml.safe_dump({**HARDWARE, "vendor": "Acme 2"})
    overrides = ["vendor='Acme 2'", "hardware=A1", "runtime=docker", "size=full", "data_dir=/data"]
    job = compose(overrides, [write(tmp_path, {"vendor/Acme 2": vendor, "hardware/A1": product})])
    assert job.image is not None and job.image.reference.startswith("flagperf-acme-2-pytorch:")
