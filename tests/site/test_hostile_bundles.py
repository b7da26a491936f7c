"""Bundles of people who mean harm, or of a broken disk: `verify` and `site` say why they are refused, and go on."""

from __future__ import annotations

import copy
import hashlib
import itertools
import json
import math
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from recorded import recorded_run
from signing_key import write_key

from flagperf import report
from flagperf.bundle import apart, archive
from flagperf.bundle.check import check_bundle
from flagperf.bundle.pack import pack
from flagperf.cli.main import run_command
from flagperf.contract.perflog import PREFIX
from flagperf.errors import ConfigError
from flagperf.run.command_file import Command, keep
from flagperf.site.entries import entry_of
from flagperf.verify import check, objections, texts

pytestmark = pytest.mark.long

JOB = "resnet50-pytorch-cpux1x2"
CONFIG, RESULT, SUMMARY = f"{JOB}/config.yaml", f"{JOB}/round1/result.json", f"{JOB}/summary.json"
LOG = f"{JOB}/round1/vm_noderank0/rank0.out.log"
Change = Callable[[Path], object]

LAUGHS = "a0: &a [x, x, x]\n" + "".join(
    f"a{n + 1}: &{chr(98 + n)} [{', '.join(9 * ['*' + chr(97 + n)])}]\n" for n in range(24)
)


def appended(name: str, text: str) -> Change:
    return lambda run: (run / name).write_text(f"{(run / name).read_text()}\n{text}")


def replaced(name: str, old: str, new: str) -> Change:
    def change(run: Path) -> None:
        text, count = re.subn(old, lambda _: new, (run / name).read_text())
        assert count
        (run / name).write_text(text)

    return change


def without_logs(run: Path) -> None:
    for path in run.rglob("rank*.out.log"):
        path.unlink()


def expression(run: Path) -> None:
    """A name of devices that takes exponential time."""
    appended(CONFIG, 'hardware: {name: cpu, device_names: ["(a|a)+"]}\n')(run)
    built = {"event": "BUILT", "value": {"device_name": f"{'a' * 60}b"}, "metadata": {"time_ms": 1}}
    appended(LOG, f"[PerfLog] {json.dumps(built)}\n")(run)


HOSTILE: dict[str, tuple[Change, str]] = {  # change of a run's folder, and the reason why its bundle is refused
    "aliases that repeat each other": (appended(CONFIG, LAUGHS), "no round of this bundle states a throughput"),
    "a configuration that contains itself": (appended(CONFIG, "me: &me [*me]\n"), "no round of this bundle states"),
    "changes that contain themselves": (
        lambda run: (run / JOB / "changes.yaml").write_text("&a [*a]"),
        f"{JOB}: changes.yaml",
    ),
    "10^12 devices": (replaced(CONFIG, "\nnproc: 2", f"\nnproc: {10**12}"), "no round"),
    "10^13 rounds": (replaced(CONFIG, "\nrepeat: 2", f"\nrepeat: {10**13}"), "no round"),
    "an infinite number of nodes": (replaced(CONFIG, "\nnnodes: 1", "\nnnodes: .inf"), "no round"),
    "all devices of all nodes": (
        lambda run: [
            replaced(CONFIG, "\nnnodes: 1", "\nnnodes: 65536")(run),
            replaced(CONFIG, "\nnproc: 2", "\nnproc: 1024")(run),
        ],
        "no round",
    ),
    "a number of 10,000 digits": (replaced(CONFIG, "\nseed: 0", f"\nseed: 0x{'f' * 10_000}"), "no round"),
    "a deep configuration": (appended(CONFIG, "deep: " + "[" * 500 + "]" * 500), "no round"),
    "a configuration deeper than any stack": (appended(CONFIG, "deep: " + "[" * 100_000), "no round"),
    "a deep result": (lambda run: (run / RESULT).write_text('{"a": ' * 900 + "1" + "}" * 900), JOB),
    "a summary deeper than any stack": (
        lambda run: (run / SUMMARY).write_text("[" * 1_000_000),
        f"{JOB}: summary.json",
    ),
    "infinities in a result": (replaced(RESULT, r'("p_\w+": )[0-9.]+', '"p_train": Infinity'), JOB),
    "figures of 4,000 digits": (replaced(RESULT, r'"global_steps": \d+', f'"global_steps": {"9" * 4000}'), JOB),
    "wrong types in a log": (replaced(LOG, r'"step": \d+', '"step": [{}]'), JOB),
    "times of a log beyond all years": (replaced(LOG, r'"time_ms": \d+', f'"time_ms": {"9" * 300}'), JOB),
    "no logs of ranks": (without_logs, JOB),
    "a log that is a list": (lambda run: (run / LOG).write_text('[PerfLog] ["event"]\n' * 9), JOB),
    "no configuration": (lambda run: (run / CONFIG).write_text("[]"), "no round"),
}


# In the place of each field one of these, in turn.
VALUES = (10**12, -1, math.inf, math.nan, 10**24, "x", [], {}, None, True, [[]], {"a": {"b": 1}}, 0.5, "${x}", 0, "\0")


def fields(tree: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of each field of a tree; of a list, those of two entries."""
    entries = tree.items() if isinstance(tree, dict) else enumerate(tree[:2]) if isinstance(tree, list) else ()
    for name, value in entries:
        yield (*above, name)
        yield from fields(value, (*above, name))


def with_value(tree: Any, path: Sequence[Any], value: object) -> Any:
    tree = copy.deepcopy(tree)
    node = tree
    for name in path[:-1]:
        node = node[name]
    node[path[-1]] = value
    return tree


def records(text: str, kind: str) -> Iterator[tuple[Any, Callable[[Any], str]]]:
    """The trees of a file, and how a tree is written in its place; of a log, the last event of each kind."""
    if kind == ".log":
        lines = text.splitlines()
        last = {json.loads(line[len(PREFIX) :])["event"]: n for n, line in enumerate(lines) if line.startswith(PREFIX)}
        for number in last.values():
            event = json.loads(lines[number][len(PREFIX) :])
            yield (
                event,
                lambda tree, n=number: "\n".join([*lines[:n], PREFIX + json.dumps(tree), *lines[n + 1 :]]) + "\n",
            )
    else:
        yield (yaml.safe_load(text), yaml.safe_dump) if kind == ".yaml" else (json.loads(text), json.dumps)


def read_all(run: Path) -> None:
    """What `verify` and `site` read of a bundle."""
    rows = check(run)
    _ = list(objections(rows)), [texts(row) for row in rows]
    with suppress(ConfigError):
        check_bundle(run, None)
    with suppress(ConfigError):
        _ = [entry_of(job, "1", "1") for job in report.read_run(run)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [CONFIG, f"{JOB}/changes.yaml", RESULT, SUMMARY, LOG, "statement.json", "command.json"]
)
def test_no_value_of_a_field_raises_an_exception(name: str, bundles: Path, tmp_path: Path) -> None:
    """The readers themselves refuse each of them; the process around a reader is for what nobody thought of."""
    run = shutil.copytree(next((bundles / "unpacked").iterdir()), tmp_path / "run")
    keep(Command(("repeat=2",), False, (), "/", 5.0), run)
    text, values, raised = (run / name).read_text(), itertools.cycle(VALUES), []
    for tree, written in records(text, Path(name).suffix):
        for path in fields(tree):
            value = next(values)
            (run / name).write_text(written(with_value(tree, path, value)))
            try:
                read_all(run)
            except Exception as error:
                raised.append((path, value, repr(error)))
    assert raised == []


def bundle_of(run: Path, path: Path) -> Path:
    """The bundle of a folder that is not as flagperf writes it, with a statement that fits it."""
    files = {file.relative_to(run).as_posix(): file.read_bytes() for file in sorted(run.rglob("*")) if file.is_file()}
    statement = json.loads(files["statement.json"])
    files.pop("statement.json")
    digests = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    statement["subject"] = [{"name": name, "digest": {"sha256": digest}} for name, digest in digests.items()]
    with archive.create(path) as out:
        for name, data in sorted({**files, "statement.json": json.dumps(statement).encode()}.items()):
            out.add(f"{run.name}/{name}", data)
    return path


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle for each row, and a good one."""
    folder = tmp_path_factory.mktemp("hostile")
    pack(recorded_run(folder / "result"), folder / "good.tar.zst")
    (folder / "unpacked").mkdir()
    good = archive.unpack(folder / "good.tar.zst", folder / "unpacked")
    for number, (change, _) in enumerate(HOSTILE.values()):
        run = folder / "changed" / str(number) / good.name
        shutil.copytree(good, run)
        change(run)
        bundle_of(run, folder / f"{number:02}.tar.zst")
    return folder


def test_a_site_refuses_them_and_shows_the_others(
    bundles: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["site", str(bundles), f"into={tmp_path / 'public'}", "refused=skip"]) == 9
    out = capsys.readouterr().out
    refusals = {
        Path(name).name: reasons.strip().splitlines()
        for name, reasons in re.findall(r"^refused: (\S+)\n((?:  .*\n)+)", out, re.M)
    }
    said = {name: refusals[f"{number:02}.tar.zst"][0] for number, name in enumerate(HOSTILE)}
    assert {name: line[: len(HOSTILE[name][1])] for name, line in said.items()} == {
        name: reason for name, (_, reason) in HOSTILE.items()
    }
    assert out.splitlines()[-1].startswith(f"{tmp_path}/public/index.html: 1 rows of 1 bundles, ")


@pytest.mark.slow
def test_verify_refuses_them(bundles: Path, capsys: pytest.CaptureFixture[str]) -> None:
    codes = {name: run_command(["verify", str(bundles / f"{n:02}.tar.zst")]) for n, name in enumerate(HOSTILE)}
    assert codes == dict.fromkeys(HOSTILE, 9)
    assert "Traceback" not in capsys.readouterr().err


def test_no_vendor_approves_them(bundles: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_key(bundles / "key")
    for name in ("a configuration that contains itself", "no logs of ranks"):
        path = bundles / f"{[*HOSTILE].index(name):02}.tar.zst"
        assert run_command(["approve", str(path), f"key={bundles / 'key'}"]) == 9
        assert capsys.readouterr().out.startswith("not approved: ")
        assert not path.with_name(f"{path.name}.approval.json").exists()


@pytest.mark.slow
def test_an_expression_without_end(
    bundles: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Time that no reader bounds ends with the time of the bundle."""
    monkeypatch.setattr(apart, "SECONDS", 3)
    run = next((bundles / "unpacked").iterdir())
    shutil.copytree(run, tmp_path / run.name)
    expression(tmp_path / run.name)
    path = bundle_of(tmp_path / run.name, tmp_path / "slow.tar.zst")
    assert run_command(["verify", str(path)]) == 9
    assert capsys.readouterr().out == "refused: its examination took more than 3 s of a processor\n"
