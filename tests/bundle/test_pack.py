"""Bundles of a recorded run: their files, their hidden secrets and their signatures."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from cryptography.hazmat.primitives import serialization
from recorded import recorded_run
from securesystemslib.dsse import Envelope
from securesystemslib.signer import SSlibKey
from signing_key import write_key

from flagperf import __version__
from flagperf.bundle.archive import unpack
from flagperf.bundle.check import BundleCheck, check_bundle
from flagperf.bundle.contents import Hiding
from flagperf.bundle.pack import pack
from flagperf.bundle.signature import key_id, private_key, public_key
from flagperf.errors import ConfigError
from flagperf.run import command_file
from flagperf.run.folder import RUN_LOG, held

JOB = "resnet50-pytorch-cpux1x2"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return recorded_run(tmp_path / "result")


def unpacked(bundle: Path, folder: Path) -> Path:
    folder.mkdir()
    return unpack(bundle, folder)


def a_key(folder: Path, name: str = "key") -> Path:
    write_key(folder / name)
    return folder / name


def test_the_same_run_gives_the_same_bytes(run: Path, tmp_path: Path) -> None:
    key = private_key(a_key(tmp_path))
    for name in ("one", "two"):
        pack(run, tmp_path / f"{name}.tar.zst", key)
    assert (tmp_path / "one.tar.zst").read_bytes() == (tmp_path / "two.tar.zst").read_bytes()


def test_a_bundle_holds_the_run_and_states_its_hashes(run: Path, tmp_path: Path) -> None:
    (run / RUN_LOG).write_text("a line\n")
    command_file.keep(command_file.Command(("nproc=2",), False, (), "/home/me", 5.0, "0.1.0", {"cases": "aa"}), run)
    expected = {path.relative_to(run).as_posix(): path.read_bytes() for path in run.rglob("*") if path.is_file()}
    left_out = (f"{JOB}/round1/checkpoint/step5.pt", f"{JOB}/round1/vm_noderank0/.scratch/x", "statement.json")
    for name in left_out:
        (run / name).parent.mkdir(exist_ok=True)
        (run / name).write_text("no")
    (run / "link").symlink_to("/etc/passwd")
    assert pack(run, tmp_path / "b.tar.zst").files == len(expected)
    folder = unpacked(tmp_path / "b.tar.zst", tmp_path / "out")
    assert check_bundle(folder, None) == BundleCheck(len(expected), (), "none", True, 0)
    statement = json.loads((folder / "statement.json").read_bytes())
    (folder / "statement.json").unlink()
    assert {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    } == expected
    assert statement == {
        "_type": "https://in-toto.io/Statement/v1",
        "predicateType": "urn:flagperf:bundle:1",
        "subject": [
            {"name": name, "digest": {"sha256": hashlib.sha256(data).hexdigest()}}
            for name, data in sorted(expected.items())
        ],
        "predicate": {
            "bundler": f"flagperf {__version__}",
            "run": "two-rounds",
            "command": {"line": "flagperf nproc=2", "folder": "/home/me", "began": 5.0},
            "code": {"version": "0.1.0", "cases": "aa"},
            "hidden": {"values": 0, "files": {}},
            "jobs": [
                {
                    "name": JOB,
                    "case": "resnet50",
                    "size": "tiny",
                    "nnodes": 1,
                    "nproc": 2,
                    "division": "closed",
                    "framework": "pytorch",
                    "vendor": "cpu",
                    "hardware": "cpu",
                    "revision": 1,
                    "rounds": 2,
                    "code": [],
                    "images": [],
                    "data": [],
                }
            ],
        },
    }


def test_code_image_and_data_are_stated(run: Path, tmp_path: Path) -> None:
    """Each record appears once, as the ranks and the first host logged it."""
    for node in (run / JOB).glob("round*/vm_noderank0"):
        for log in node.glob("rank*.out.log"):
            built = '[PerfLog] {"event": "BUILT", "value": {"software": {"code": {"flagperf": "aa"}}}, '
            built += '"metadata": {"file": "", "lineno": 1, "time_ms": 1, "rank": 0}}\n'
            text = log.read_text().replace(
                '"rank": 0, "host"', '"data_files": 7, "data_fingerprint": "ff", "rank": 0, "host"'
            )
            log.write_text(built + text)
        info = (node / "sys_info.log").read_text()
        (node / "sys_info.log").write_text(f"image: lab/x:1\nimage_id: sha256:1\nimage_digest: sha256:2\n{info}")
        (node.parent / "result.json").unlink()
    pack(run, tmp_path / "b.tar.zst")
    folder = unpacked(tmp_path / "b.tar.zst", tmp_path / "out")
    (job,) = json.loads((folder / "statement.json").read_bytes())["predicate"]["jobs"]
    assert {key: job[key] for key in ("code", "images", "data")} == {
        "code": [{"flagperf": "aa"}],
        "images": [{"reference": "lab/x:1", "id": "sha256:1", "digest": "sha256:2"}],
        "data": [{"files": 7, "fingerprint": "ff"}],
    }


# ---------------------------------------------------------------- secrets


def test_secrets_are_left_out_and_counted(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_LOGIN", "value-of-a-login")
    (tmp_path / "secret").write_text("value-of-a-file\n")
    config = yaml.safe_load((run / JOB / "config.yaml").read_text())
    config["cluster"]["secrets"] = {
        "LAB_LOGIN": {"variable": "MY_LOGIN"},
        "LAB_FILE": {"file": str(tmp_path / "secret")},
    }
    (run / JOB / "config.yaml").write_text(yaml.safe_dump(config))
    log = run / JOB / "round1" / "vm_noderank0" / "start_pytorch_task.log"
    log.write_text(
        "plain\nvalue-of-a-login, value-of-a-file\nHF_TOKEN=hf_abc LAB_LOGIN=other\n"
        "{'WANDB_API_KEY': 'abc', 'MAX_TOKENS': '5'}\nhttps://me:my-password@host/x\n"
    )
    kept = (
        "plain\n***, ***\nHF_TOKEN=*** LAB_LOGIN=***\n{'WANDB_API_KEY': '***', 'MAX_TOKENS': '5'}\nhttps://***@host/x\n"
    )
    name = log.relative_to(run).as_posix()
    packed = pack(run, tmp_path / "b.tar.zst")
    assert packed.hidden == {name: 6}
    folder = unpacked(tmp_path / "b.tar.zst", tmp_path / "out")
    assert (folder / name).read_text() == kept
    assert json.loads((folder / "statement.json").read_bytes())["predicate"]["hidden"] == {
        "values": 6,
        "files": {name: 6},
    }
    assert check_bundle(folder, None).hidden == 6
    assert "value-of-a-login" in log.read_text()  # the run itself stays as it is


@pytest.mark.parametrize(
    "cluster",
    [
        pytest.param({"secrets": ["HF_TOKEN"]}, id="a list"),
        pytest.param({"secrets": {"A": 5, "B": {}, "C": {"file": 5}, 7: {"word": "x"}}}, id="no sources"),
        pytest.param({"secrets": {"A": {"file": "pipe"}}}, id="a pipe, which has no end"),
        pytest.param({"secrets": {"A": {"file": "/dev/zero"}}}, id="a device, which has no end"),
    ],
)
def test_odd_secrets_of_a_folder_of_others_cost_nothing(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cluster: object
) -> None:
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    config = yaml.safe_load((run / JOB / "config.yaml").read_text())
    (run / JOB / "config.yaml").write_text(yaml.safe_dump({**config, "cluster": cluster}))
    assert pack(run, tmp_path / "b.tar.zst").files == len([path for path in run.rglob("*") if path.is_file()])


@pytest.mark.parametrize(
    "line",
    [
        '{"environment": {"HF_TOKEN": "***", "A": 1}}',
        '{"environment": {"HF_TOKEN": "a\\"b", "A": 1}}',
        '{"environment": {"HF_TOKEN": 5, "MY_KEY": null}}',
        '{"said": "{\\"HF_TOKEN\\": \\"abc\\"}"}',
    ],
)
def test_json_stays_json(line: str) -> None:
    hidden, _ = Hiding([]).hide(line.encode())
    assert b"abc" not in hidden
    assert json.loads(hidden).keys() == json.loads(line).keys()


# ---------------------------------------------------------------- signatures


@pytest.mark.parametrize(
    "made_by",
    [
        pytest.param(name, marks=pytest.mark.skipif(not shutil.which(name), reason=f"needs {name} (Debian: {package})"))
        for name, package in (("ssh-keygen", "openssh-client"), ("openssl", "openssl"))
    ],
)
def test_keys_of_openssh_and_openssl_sign(run: Path, tmp_path: Path, made_by: str) -> None:
    key, public = tmp_path / "key", tmp_path / "key.pub"
    if made_by == "ssh-keygen":
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    else:
        subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", key], check=True)
        subprocess.run(["openssl", "pkey", "-in", key, "-pubout", "-out", public], check=True)
    pack(run, tmp_path / "b.tar.zst", private_key(key))
    folder = unpacked(tmp_path / "b.tar.zst", tmp_path / "out")
    name = key_id(public_key(public))
    assert check_bundle(folder, public_key(public)).signature == f"good, by {name}"
    unchecked = check_bundle(folder, None)
    assert (unchecked.signature, unchecked.is_trusted) == (
        f"by {name}; not checked: give key=FILE with the signer's public key",
        True,
    )
    other = public_key(a_key(tmp_path, "other"))
    refused = check_bundle(folder, other)
    assert (refused.signature, refused.is_trusted) == (
        f"not by {key_id(other)}, or for another statement; the envelope names {name}",
        False,
    )
    if made_by == "ssh-keygen":
        shown = subprocess.run(["ssh-keygen", "-lf", public], check=True, capture_output=True, text=True).stdout
        assert shown.split()[1] == name


def test_others_can_check_the_signature(run: Path, tmp_path: Path) -> None:
    """The library of in-toto verifies the signature."""
    key = private_key(a_key(tmp_path))
    pack(run, tmp_path / "b.tar.zst", key)
    folder = unpacked(tmp_path / "b.tar.zst", tmp_path / "out")
    envelope = Envelope.from_dict(json.loads((folder / "statement.dsse.json").read_bytes()))
    raw = key.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    name = key_id(key.public_key())
    theirs = SSlibKey(name, "ed25519", "ed25519", {"public": raw.hex()})
    assert list(envelope.verify([theirs], 1)) == [name]
    assert envelope.payload == (folder / "statement.json").read_bytes()


@pytest.mark.parametrize(
    ("change", "description"),
    [
        pytest.param(lambda text: text.replace(b'"nproc": 2', b'"nproc": 4'), "not by", id="statement"),
        pytest.param(None, "none, although a key was given", id="taken away"),
    ],
)
def test_another_statement_is_not_signed(run: Path, tmp_path: Path, change: object, description: str) -> None:
    key = private_key(a_key(tmp_path))
    pack(run, tmp_path / "b.tar.zst", key)
    folder = unpacked(tmp_path / "b.tar.zst", tmp_path / "out")
    if change is None:
        (folder / "statement.dsse.json").unlink()
    else:
        path = folder / "statement.json"
        path.write_bytes(change(path.read_bytes()))  # type: ignore[operator]
    result = check_bundle(folder, key.public_key())
    assert (result.signature.startswith(description), result.is_trusted) == (True, False)


@pytest.mark.skipif(not shutil.which("ssh-keygen"), reason="needs ssh-keygen (Debian: openssh-client)")
@pytest.mark.parametrize(
    "options",
    [
        pytest.param(("-t", "rsa", "-b", "2048", "-N", ""), id="rsa"),
        pytest.param(("-t", "ed25519", "-N", "secret"), id="passphrase"),
    ],
)
def test_another_kind_of_key_is_refused(tmp_path: Path, options: tuple[str, ...]) -> None:
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", *options, "-f", key], check=True)
    with pytest.raises(ConfigError) as caught:
        private_key(key)
    assert str(caught.value) == (
        f"no key to sign with\n  where:   command line\n  key:     key\n  given:   {key}\n"
        "  allowed: an Ed25519 private key without a passphrase, as OpenSSH or OpenSSL write it\n"
        "  do:      make a key: ssh-keygen -t ed25519 -N '' -f FILE, or openssl genpkey -algorithm ed25519 -out FILE"
    )


# ---------------------------------------------------------------- refusals and changed files


def test_a_run_that_goes_on_is_refused(run: Path, tmp_path: Path) -> None:
    with held(run), pytest.raises(ConfigError) as caught:
        pack(run, tmp_path / "b.tar.zst")
    assert str(caught.value) == (
        f"this run is still running\n  where:   command line\n  given:   {run}\n"
        "  do:      wait for its end: flagperf watch shows it"
    )


def test_changed_files_are_named(run: Path, tmp_path: Path) -> None:
    pack(run, tmp_path / "b.tar.zst")
    folder = unpacked(tmp_path / "b.tar.zst", tmp_path / "out")
    changed = folder / JOB / "summary.json"
    changed.write_text(changed.read_text().replace("0", "1", 1))
    (folder / JOB / "changes.yaml").unlink()
    (folder / "more").write_text("")
    digests = [hashlib.sha256(path.read_bytes()).hexdigest()[:16] for path in (changed, run / JOB / "summary.json")]
    assert check_bundle(folder, None).wrong == (
        "more: is not in the statement",
        f"{JOB}/changes.yaml: is missing",
        f"{JOB}/summary.json: sha256 is {digests[0]}…, the statement says {digests[1]}…",
    )


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("no JSON", id="text"),
        pytest.param('{"_type": "another"}', id="type"),
        pytest.param("[" * 100_000, id="deep"),
        pytest.param(
            '{"_type": "https://in-toto.io/Statement/v1", "predicateType": "urn:flagperf:bundle:1", '
            '"subject": [5], "predicate": []}',
            id="fields",
        ),
    ],
)
def test_a_statement_that_cannot_be_read(tmp_path: Path, text: str) -> None:
    (tmp_path / "statement.json").write_text(text)
    with pytest.raises(ConfigError, match="the statement of this bundle cannot be read"):
        check_bundle(tmp_path, None)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("no JSON", id="text"),
        pytest.param("[]", id="list"),
        pytest.param('{"payloadType": "application/json", "payload": "", "signatures": []}', id="type"),
        pytest.param(
            '{"payloadType": "application/vnd.in-toto+json", "payload": "", "signatures": [5]}', id="signatures"
        ),
        pytest.param(
            '{"payloadType": "application/vnd.in-toto+json", "payload": "e30=", "signatures": [{"sig": 5}]}', id="sig"
        ),
    ],
)
def test_an_envelope_that_cannot_be_read(run: Path, tmp_path: Path, text: str) -> None:
    pack(run, tmp_path / "b.tar.zst")
    folder = unpacked(tmp_path / "b.tar.zst", tmp_path / "out")
    (folder / "statement.dsse.json").write_text(text)
    assert not check_bundle(folder, private_key(a_key(tmp_path)).public_key()).is_trusted
