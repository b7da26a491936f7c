"""What is secret, and how it is hidden in configurations, messages, texts and files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flagperf import secret
from flagperf.errors import ConfigError
from flagperf.plain import plain
from flagperf.secret import Mask, Masked, is_secret, quoted, shown, without_values

NAMES = {
    "HF_TOKEN": True,
    "hf_token": True,
    "GITHUBTOKEN": True,
    "WANDB_API_KEY": True,
    "APIKEY": True,
    "AWS_SECRET_ACCESS_KEY": True,
    "KEY": True,
    "PGPASSWORD": True,
    **dict.fromkeys(("DB_PASSWD", "MYSQL_PWD", "SSHPASS", "DB_PASS", "SSH_PASSPHRASE"), True),
    **dict.fromkeys(("AWS_CREDENTIALS", "GH_PAT"), True),
    **dict.fromkeys(("PWD", "OLDPWD", "BYPASS", "COMPASS", "PATH", "LD_LIBRARY_PATH"), False),
    "DB_PASSWORD_FILE": True,
    "TOKENIZERS_PARALLELISM": False,
    "MAX_TOKENS": False,
    "KEYBOARD": False,
    "MONKEY": False,
    "SECRETARY": False,
    "OMP_NUM_THREADS": False,
}


@pytest.mark.parametrize(("name", "expected"), NAMES.items(), ids=NAMES.keys())
def test_names(name: str, expected: bool) -> None:
    assert is_secret(name) is expected


SHOWN: dict[str, tuple[Any, Any]] = {
    "a variable": ({"vendor": {"environment": {"HF_TOKEN": "abc", "A": "b"}}}, {"HF_TOKEN": "***", "A": "b"}),
    "a number": ({"vendor": {"environment": {"KEY": 12}}}, {"KEY": "***"}),
    "null stays": ({"vendor": {"environment": {"KEY": None}}}, {"KEY": None}),
    "a login in a list": ({"vendor": {"environment": ["http://a:bc@d", 1]}}, ["http://***@d", 1]),
}


@pytest.mark.parametrize(("given", "expected"), SHOWN.values(), ids=SHOWN.keys())
def test_shown(given: Any, expected: Any) -> None:
    assert shown(given) == {"vendor": {"environment": expected}}


def test_the_key_of_ssh_and_other_keys_are_shown() -> None:
    config = {"cluster": {"ssh": {"key": "~/.ssh/id"}, "image": {"http_proxy": "http://me:word@proxy:1"}}, "seq": 3}
    assert shown(config) == config | {
        "cluster": {"ssh": {"key": "~/.ssh/id"}, "image": {"http_proxy": "http://***@proxy:1"}}
    }


QUOTED: dict[str, tuple[Any, str, Any]] = {
    "by its key": (12, "vendor.environment.HF_TOKEN", "***"),
    "an override": ("+vendor.environment.HF_TOKEN=a,b", "", "+vendor.environment.HF_TOKEN=***"),
    "an override, in small letters": ("vendor.environment.my_key=a", "", "vendor.environment.my_key=***"),
    "a mapping as text": ("vendor.environment={A: b, HF_TOKEN: c}", "", "vendor.environment={A: b, HF_TOKEN: ***"),
    "a mapping": ({"HF_TOKEN": "c", "A": "b"}, "vendor.environment", {"HF_TOKEN": "***", "A": "b"}),
    "another key": ("{'key': 'a', 'SIZE': 3}", "cluster.ssh", "{'key': 'a', 'SIZE': 3}"),
    "a number": (3, "nproc", 3),
}


@pytest.mark.parametrize(("given", "key", "expected"), QUOTED.values(), ids=QUOTED.keys())
def test_quoted(given: Any, key: str, expected: Any) -> None:
    assert quoted(given, key) == expected


def test_errors_quote_no_secret() -> None:
    error = ConfigError("wrong type of value", key="vendor.environment.HF_TOKEN", given=12345)
    expected = "wrong type of value\n  where:   command line\n  key:     vendor.environment.HF_TOKEN\n  given:   ***"
    assert (str(error), str(error.within("job 1"))) == (expected, f"job 1: {expected}")
    assert plain("pip: http://me:word@proxy:1 refuses") == "pip: http://***@proxy:1 refuses"


VALUE = 'pa"ss wörd/1'
TEXTS = {
    "as it is": f"token {VALUE}, again {VALUE}\n",
    "in JSON": 'token "pa\\"ss w\\u00f6rd/1"\n',
    "in JSON of UTF-8": 'token "pa\\"ss wörd/1"\n',
    "in a URL": "get https://host/?t=pa%22ss%20w%C3%B6rd%2F1&x\n",
    "a line of several": "second line!\n",
    "the password of a value's URL": "login as swordfish\n",
    "any login": "http://me:word@host/ and https://a:80/x@y and ftp://u:p@ss@host\n",
    "no login": 'http://host:80 {"a":"http://b:80","c":"me@d"} me:word@host\n',
    "too short": "12345\n",
}
EXPECTED = {
    "as it is": "token ***, again ***\n",
    "in JSON": 'token "***"\n',
    "in JSON of UTF-8": 'token "***"\n',
    "in a URL": "get https://host/?t=***&x\n",
    "a line of several": "***\n",
    "the password of a value's URL": "login as ***\n",
    "any login": "http://***@host/ and https://a:80/x@y and ftp://***@host\n",
}
MASK = Mask([VALUE, "first line\nsecond line!\nlast", "https://me:swordfish@proxy", "12345"])


@pytest.mark.parametrize("name", TEXTS)
def test_mask(name: str) -> None:
    assert MASK.text(TEXTS[name]) == EXPECTED.get(name, TEXTS[name])


def test_a_mask_keeps_bytes_that_are_no_text() -> None:
    assert MASK.sub(b"\xff" + VALUE.encode() + b"\xfe") == b"\xff***\xfe"


@pytest.mark.parametrize("end", ["\n", ""], ids=["with line end", "torn"])
def test_no_cut_hides_it_from_the_mask(end: str) -> None:
    """Data that comes in two pieces, cut anywhere; then one without any line end, longer than what is held back."""
    whole = "".join(TEXTS.values()).encode() + f"last {VALUE}{end}".encode()
    for cut in range(len(whole)):
        masked = Masked(MASK)
        assert masked.feed(whole[:cut]) + masked.feed(whole[cut:]) + masked.end() == MASK.sub(whole), cut
    line = (b"x" * 700 + b"http://me:word@host " + VALUE.encode()) * 20
    masked = Masked(MASK)
    pieces = [masked.feed(line[at : at + 97]) for at in range(0, len(line), 97)]
    assert max(map(len, pieces)) > 0
    assert b"".join(pieces) + masked.end() == MASK.sub(line)


@pytest.mark.parametrize("chunk", [7, 64, 1 << 20])
def test_a_file_is_masked_in_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    monkeypatch.setattr(secret, "CHUNK", chunk)
    path, whole = tmp_path / "log", "".join(TEXTS.values()).encode() * 3
    path.write_bytes(whole)
    inode = path.stat().st_ino
    MASK.file(path)
    assert (path.read_bytes(), path.stat().st_ino) == (MASK.sub(whole), inode)
    before = path.stat()
    MASK.file(path)
    assert path.stat().st_mtime_ns == before.st_mtime_ns  # nothing is in it: left as it is


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("HF_TOKEN: a b  # c", "HF_TOKEN: '***'  # c", id="YAML"),
        pytest.param('HF_TOKEN: "a b"', 'HF_TOKEN: "***"', id="YAML in quotes"),
        pytest.param("HF_TOKEN: ${oc.env:X}", "HF_TOKEN: ${oc.env:X}", id="YAML that refers"),
        pytest.param("HF_TOKEN:\n  variable: X", "HF_TOKEN:\n  variable: X", id="YAML of a source"),
        pytest.param('{"HF_TOKEN": "a\\"b", "A": 1}', '{"HF_TOKEN": "***", "A": 1}', id="JSON"),
        pytest.param('{"HF_TOKEN": 5, "A_KEY": null}', '{"HF_TOKEN": "***", "A_KEY": null}', id="JSON, no text"),
        pytest.param('"{\\"HF_TOKEN\\": \\"a\\"}"', '"{\\"HF_TOKEN\\": \\"***\\"}"', id="JSON in JSON"),
        pytest.param("{'HF_TOKEN': 'a', 'B': 'c'}", "{'HF_TOKEN': '***', 'B': 'c'}", id="Python"),
        pytest.param("-e HF_TOKEN=a image", "-e HF_TOKEN=*** image", id="shell"),
        pytest.param("['-e', 'HF_TOKEN=a']", "['-e', 'HF_TOKEN=***']", id="argv"),
        pytest.param("LAB_LOGIN=a MAX_TOKENS=5", "LAB_LOGIN=*** MAX_TOKENS=5", id="named"),
        pytest.param("HF_TOKEN: '***'", "HF_TOKEN: '***'", id="hidden already"),
    ],
)
def test_values_of_variables_in_a_text(text: str, expected: str) -> None:
    assert without_values(text, ("LAB_LOGIN",)) == expected
