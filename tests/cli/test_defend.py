"""`flagperf export` and `verify`: their output, their exit codes and their error messages."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from recorded import recorded_run
from securesystemslib.dsse import Envelope
from securesystemslib.signer import SSlibKey
from signing_key import write_key

from flagperf.bundle import archive
from flagperf.bundle.approval import approval_file
from flagperf.bundle.signature import key_id, public_key
from flagperf.cli.main import run_command

pytestmark = pytest.mark.long

JOB = "resnet50-pytorch-cpux1x2"


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """A signed bundle of a recorded run; the keys lie beside it."""
    write_key(tmp_path / "key")
    path = tmp_path / "run.tar.zst"
    run = recorded_run(tmp_path / "result")
    assert run_command(["export", str(run), str(path), f"key={tmp_path / 'key'}"]) == 0
    return path


def changed(bundle: Path, name: str, old: str, new: str, *, hashes: bool = False) -> None:
    """Change what a file of a bundle holds; `hashes`: and make its statement anew, as whoever has no key can."""
    with tempfile.TemporaryDirectory() as folder:
        top = archive.unpack(bundle, Path(folder))
        path = top / JOB / name
        text, count = re.subn(old, new, path.read_text(), count=1)
        assert count == 1
        path.write_text(text)
        if hashes:
            statement = json.loads((top / "statement.json").read_text())
            for one in statement["subject"]:
                one["digest"]["sha256"] = hashlib.sha256((top / one["name"]).read_bytes()).hexdigest()
            (top / "statement.json").write_text(json.dumps(statement))
        bundle.unlink()
        with archive.create(bundle) as out:
            for file in sorted(one for one in top.rglob("*") if one.is_file()):
                out.add(file.relative_to(folder).as_posix(), file.read_bytes())


def last_lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The lines below the tables."""
    lines = capsys.readouterr().out.splitlines()
    return lines[next(number for number, line in enumerate(lines) if line.startswith("hashes: ")) :]


def test_a_bundle_that_is_what_it_states(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    again = bundle.with_name("again.tar.zst")
    run = bundle.parent / "result" / "two-rounds"
    assert run_command(["export", str(run), str(again), f"key={bundle.parent / 'key'}"]) == 0
    name = key_id(public_key(bundle.parent / "key.pub"))
    assert capsys.readouterr().out.splitlines() == [
        f"{again}: 17 files, {bundle.stat().st_size:,} bytes, signed by {name}",
        "secret values left out: none, beside those that the run itself had hidden",
    ]
    assert run_command(["verify", str(bundle), f"key={bundle.parent / 'key.pub'}"]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"^p_train +112\.9 +112\.9 +agrees +units of STEP_ENDs over train_no_eval_time$", shown, re.M)
    assert re.search(r"^rank 0: peak_memory +0\.94455 +not recomputed +measured inside the process;", shown, re.M)
    assert shown.splitlines()[-5:] == [
        "hashes: all 17 files agree",
        f"signature: good, by {name}",
        "secret values left out: 0",
        "approval: none",
        shown.splitlines()[-1],
    ]
    assert re.fullmatch(r"figures: [0-9]+ agree, 0 differ, [0-9]+ are not recomputed", shown.splitlines()[-1])


@pytest.mark.parametrize(
    ("name", "old", "new", "figure"),
    [
        pytest.param(
            "round1/result.json",
            r'"p_train": 112\.8',
            '"p_train": 113.8',
            "p_train is 113.9, recomputed 112.9 (units of STEP_ENDs over train_no_eval_time)",
            id="result",
        ),
        pytest.param(
            "round1/vm_noderank0/rank1.out.log",
            r'("step": 30, .*?"loss": [0-9]\.)[0-9]',
            r"\g<1>9",
            "rank 1: loss_checksum is 86353857, recomputed ",
            id="log",
        ),
        pytest.param(
            "round1/result.json",
            '"verdict": "SUSPECT"',
            '"verdict": "VALID"',
            "verdict is VALID, recomputed SUSPECT (status unfinished)",
            id="verdict",
        ),
    ],
)
@pytest.mark.parametrize("hashes", [False, True])
def test_a_changed_digit(
    bundle: Path, capsys: pytest.CaptureFixture[str], name: str, old: str, new: str, figure: str, hashes: bool
) -> None:
    """A wrong hash names the file. With new hashes the signature is wrong. Either way the figure is named."""
    changed(bundle, name, old, new, hashes=hashes)
    capsys.readouterr()
    assert run_command(["verify", str(bundle), f"key={bundle.parent / 'key.pub'}"]) == 9
    output = last_lines(capsys)
    if hashes:
        assert output[0] == "hashes: all 17 files agree"
        assert output[1].startswith("signature: not by SHA256:")
    else:
        assert output[0] == "hashes: 1 files differ from the statement"
        assert output[1].startswith(f"  {JOB}/{name}: sha256 is ")
        assert output[2].startswith("signature: good, by SHA256:")
    assert any(line.startswith(f"  {JOB}/round1: {figure}") for line in output)


def test_figures_without_logs_are_not_believed(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for rank in (0, 1):
        changed(bundle, f"round1/vm_noderank0/rank{rank}.out.log", r"(?s)\A.*\Z", "", hashes=True)
    capsys.readouterr()
    assert run_command(["verify", str(bundle)]) == 9
    output = last_lines(capsys)
    figures = [line.split(": ")[1].split(" is ")[0] for line in output[output.index("approval: none") + 2 :]]
    assert figures == ["p_whole", "p_train", "p_core", "target_reached", "verdict", "round 1", "verdict"]


def test_a_bundle_without_figures(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in (1, 2):
        changed(bundle, f"round{number}/result.json", r"(?s)\A.*\Z", '{"status": "failed"}', hashes=True)
    changed(bundle, "summary.json", r"(?s)\A.*\Z", "{}", hashes=True)
    capsys.readouterr()
    assert run_command(["verify", str(bundle)]) == 9
    output = last_lines(capsys)
    assert (output[0], output[-1]) == (
        "hashes: all 17 files agree",
        "  no round of this bundle states a throughput: the bundle proves nothing",
    )


@pytest.mark.parametrize("suffix", ["csv", "xlsx", "json"])
def test_export(tmp_path: Path, capsys: pytest.CaptureFixture[str], suffix: str) -> None:
    run, path = recorded_run(tmp_path / "result"), tmp_path / f"out.{suffix}"
    assert run_command(["export", str(run), str(path)]) == 0
    assert (capsys.readouterr().out, path.stat().st_size > 500) == (f"{path}\n", True)


USAGE = {
    "verify": "flagperf verify FILE.tar.zst [key=FILE] [keys=FILE]",
    "export": (
        "flagperf export RUN_DIR FILE.csv|FILE.xlsx|FILE.json|FILE.tar.zst [key=FILE]; "
        "flagperf export RUN_DIR FOLDER meter=node|FILE[,FILE…] [conversion=SHARE] [network=WATTS]"
    ),
}
TWO = "a run folder and the file to write"
NO_RUN = "no run in this folder\n  where:   command line\n  given:   {}/none\n"
NO_RUN += "  do:      give a folder such as result/run20260101-120000"
THERE = "this file exists already\n  where:   command line\n  given:   {}/there.{}\n"
THERE += "  do:      remove it, or choose another name"
PART = "this folder is a part of a run\n  where:   command line\n  given:   {}/run/JOB%s\n"
PART += "  do:      give the folder of the run: {}/run"


def wrong(words: str, message: str) -> object:
    return pytest.param(words.split(), message, id=words)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        wrong("export", f'export takes {TWO}\n  where:   command line\n  given:   ""\n  do:      {USAGE["export"]}'),
        wrong(
            "verify", f'verify takes one bundle\n  where:   command line\n  given:   ""\n  do:      {USAGE["verify"]}'
        ),
        wrong(
            "export RUN", f"export takes {TWO}\n  where:   command line\n  given:   RUN\n  do:      {USAGE['export']}"
        ),
        wrong("export {}/none {}/b.tar.zst", NO_RUN),
        wrong("export {}/none {}/b.csv", NO_RUN),
        wrong("report {}/run/JOB", PART % ""),
        wrong("report {}/run/JOB/round1", PART % "/round1"),
        wrong("export {}/run/JOB {}/b.tar.zst", PART % ""),
        wrong("export {}/run/JOB {}/b.csv", PART % ""),
        wrong("export {}/run {}/there.tar.zst", THERE.replace(".{}", ".tar.zst")),
        wrong("export {}/run {}/there.csv", THERE.replace(".{}", ".csv")),
        wrong(
            "export {}/run {}/b.csv key={}/key",
            "only a bundle is signed\n  where:   command line\n  key:     key\n  given:   {}/key\n"
            "  allowed: with FILE.tar.zst",
        ),
        wrong(
            "export {}/run {}/b.txt",
            "unknown format\n  where:   command line\n  given:   {}/b.txt\n"
            "  allowed: FILE.csv or FILE.xlsx or FILE.json or FILE.tar.zst",
        ),
        wrong("export {}/run {}/no/b.tar.zst", "no such folder\n  where:   command line\n  given:   {}/no"),
        wrong(
            "export {}/run {}/no/b.csv",
            "the file cannot be written: No such file or directory\n  where:   command line\n  given:   {}/no/b.csv",
        ),
        wrong(
            "export {}/run {}/run/b.tar.zst",
            "the bundle would lie inside the run that it packs\n  where:   command line\n  given:   {}/run/b.tar.zst\n"
            "  do:      choose another folder",
        ),
        wrong(
            "export {}/run {}/b.tar.zst kye=x",
            "unknown option of export\n  where:   command line\n  given:   kye\n  allowed: did you mean 'key'?\n"
            f"  do:      {USAGE['export']}",
        ),
        wrong(
            "export {}/run {}/b.tar.zst key={}/none",
            "the key cannot be read: No such file or directory\n  where:   command line\n  key:     key\n"
            "  given:   {}/none",
        ),
        wrong(
            "verify {}/there.tar.zst key={}/there.csv",
            "no key to check a signature with\n  where:   command line\n  key:     key\n  given:   {}/there.csv\n"
            "  allowed: an Ed25519 public key, as OpenSSH or OpenSSL write it",
        ),
        wrong("verify {}/none", "this bundle cannot be read\n  where:   {}/none\n  given:   No such file or directory"),
        wrong("verify {}/run", "this bundle cannot be read\n  where:   {}/run\n  given:   not a regular file"),
        wrong("verify {}/there.csv", "not a bundle of flagperf\n  where:   {}/there.csv\n  allowed: a file .tar.zst"),
        wrong(
            "verify {}/there.tar.zst",
            "this is no bundle of flagperf: the statement is missing\n"
            "  where:   command line\n  given:   statement.json",
        ),
    ],
)
def test_a_wrong_line_gets_one_message(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded_run(tmp_path, "two-rounds").rename(tmp_path / "run")
    for number in (1, 2):  # this version writes config.yaml into each round
        shutil.copy(tmp_path / "run" / JOB / "config.yaml", tmp_path / "run" / JOB / f"round{number}")
    (tmp_path / "there.csv").write_text("something else, of more than a few bytes\n")
    with archive.create(tmp_path / "there.tar.zst") as out:
        out.add("run/a", b"")
    before = sorted(tmp_path.rglob("*"))
    *arguments, expected = (text.replace("{}", str(tmp_path)).replace("JOB", JOB) for text in (*words, message))
    assert run_command(arguments) == 2
    assert capsys.readouterr() == ("", f"flagperf: {expected}\n")
    assert sorted(tmp_path.rglob("*")) == before


# ---------------------------------------------------------------- approvals


@pytest.fixture
def approved(bundle: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """A bundle that the vendor cpu has approved; `keys` beside it has the key of cpu."""
    folder = bundle.parent
    write_key(folder / "vendor")
    assert run_command(["approve", str(bundle), f"key={folder / 'vendor'}"]) == 0
    name = key_id(public_key(folder / "vendor.pub"))
    assert capsys.readouterr().out.splitlines()[-1] == f"{bundle}.approval.json: approved by {name}"
    (folder / "keys").write_text(f"# vendors\n\ncpu {(folder / 'vendor.pub').read_text()}")
    return bundle


def approval_line(bundle: Path, capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, str]:
    code = run_command(["verify", str(bundle), *options])
    return code, next(line for line in capsys.readouterr().out.splitlines() if line.startswith("approval: "))


def test_an_approval_is_shown(approved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = key_id(public_key(approved.parent / "vendor.pub"))
    unchecked = f"approval: by {name}; not checked: give keys=FILE with this public key"
    assert approval_line(approved, capsys) == (0, unchecked)
    keys = f"keys={approved.parent / 'keys'}"
    assert approval_line(approved, capsys, keys) == (0, f"approval: good, by cpu, {name}")
    others = approved.parent / "others"
    others.write_text(f"cpu {(approved.parent / 'key.pub').read_text()}")
    assert approval_line(approved, capsys, f"keys={others}") == (0, unchecked)


def of_another_bundle(envelope: dict[str, Any]) -> None:
    text = base64.b64decode(envelope["payload"])
    envelope["payload"] = base64.b64encode(re.sub(rb'"sha256": "....', b'"sha256": "0000', text)).decode()


def of_another_kind(envelope: dict[str, Any]) -> None:
    text = base64.b64decode(envelope["payload"])
    envelope["payload"] = base64.b64encode(text.replace(b"flagperf:approval", b"flagperf:bundle")).decode()


def of_nobody(envelope: dict[str, Any]) -> None:
    envelope["signatures"] = []


def by_another_key(envelope: dict[str, Any]) -> None:
    envelope["signatures"][0]["sig"] = base64.b64encode(b"0" * 64).decode()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        pytest.param(of_another_bundle, "the approval is for another bundle", id="bundle"),
        pytest.param(of_another_kind, "not an approval, but urn:flagperf:bundle:1", id="kind"),
        pytest.param(of_nobody, "the envelope has no signature", id="no signature"),
        pytest.param(by_another_key, "the signature is not by SHA256:", id="signature"),
        pytest.param(dict.clear, "not an envelope: 'payloadType'", id="empty"),
    ],
)
def test_a_wrong_approval_is_not_believed(
    approved: Path, capsys: pytest.CaptureFixture[str], change: Callable[[dict[str, Any]], None], why: str
) -> None:
    path = approval_file(approved)
    envelope = json.loads(path.read_text())
    change(envelope)
    path.write_text(json.dumps(envelope))
    code, line = approval_line(approved, capsys, f"keys={approved.parent / 'keys'}")
    assert (code, line.startswith(f"approval: cannot be believed: {why}")) == (9, True)


def test_a_bundle_is_approved_once(approved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["approve", str(approved), f"key={approved.parent / 'vendor'}"]) == 2
    assert capsys.readouterr().err == (
        f"flagperf: this bundle is approved already\n  where:   command line\n  given:   {approved}.approval.json\n"
        "  do:      remove the file first\n"
    )


def test_a_changed_bundle_is_not_approved(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    changed(bundle, "round1/result.json", r'"p_train": 112\.8', '"p_train": 113.8')
    write_key(bundle.parent / "vendor")
    assert run_command(["approve", str(bundle), f"key={bundle.parent / 'vendor'}"]) == 9
    assert "not approved: the files of the bundle differ from its statement" in capsys.readouterr().out.splitlines()
    assert not approval_file(bundle).exists()


def test_others_can_check_an_approval(approved: Path) -> None:
    """The library of in-toto verifies the approval; its subject is the file of the bundle."""
    envelope = Envelope.from_dict(json.loads(approval_file(approved).read_bytes()))
    key = public_key(approved.parent / "vendor.pub")
    raw = key.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    name = key_id(key)
    assert list(envelope.verify([SSlibKey(name, "ed25519", "ed25519", {"public": raw.hex()})], 1)) == [name]
    digest = hashlib.sha256(approved.read_bytes()).hexdigest()
    assert json.loads(envelope.payload)["subject"] == [{"name": approved.name, "digest": {"sha256": digest}}]


@pytest.mark.parametrize("line", ["cpu", "cpu ssh-rsa AAAA", "ssh-ed25519 AAAA"])
def test_a_line_without_a_key(bundle: Path, capsys: pytest.CaptureFixture[str], line: str) -> None:
    keys = bundle.parent / "keys"
    keys.write_text(f"# vendors\n{line}\n")
    capsys.readouterr()
    assert run_command(["verify", str(bundle), f"keys={keys}"]) == 2
    assert capsys.readouterr().err == (
        f"flagperf: no key in this line\n  where:   {keys}:2\n  key:     keys\n  given:   {line}\n"
        "  allowed: NAME ssh-ed25519 AAAA…, as in OpenSSH's file of allowed signers\n"
    )
