"""What nobody may see: which values are secret, and how configurations, texts and files are shown without them.

Secret are the variables that a cluster's file names, variables whose name says so, and the login in a URL.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

HIDDEN = "***"
SHORTEST = 6  # least characters of a value that is searched in printed text; a shorter value is part of other words
CHUNK = 1 << 20  # bytes of a file that are read at a time

# HF_TOKEN, WANDB_API_KEY, PGPASSWORD, MYSQL_PWD; not TOKENIZERS_PARALLELISM, MAX_TOKENS, KEYBOARD, MONKEY or OLDPWD
_NAME = re.compile(
    r"(TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?)(_|$)|(^|_)((API)?KEY|(SSH)?PASS|PAT)(_|$)|_PWD$",
    re.IGNORECASE,
)
_KEY = r"(?:environment\.(\w+)|cluster\.secrets\.\w+)"  # as in vendor.environment.HF_TOKEN; the latter has no value
_KEY_END = re.compile(f"{_KEY}$")
_REFERENCE = r"(?!\s*['\"]?(?:\{|\$\{|$))"  # what follows says where a value comes from, and is none
# Such a key in a text, or the name of a variable; and in YAML with its value
_SET = re.compile(rf"(?:{_KEY}|\b([A-Z][A-Z0-9_]*))['\"]?\s*[:=]{_REFERENCE}\s*")
# The name of a variable, and its value as YAML, JSON, a shell or the text of a mapping has it
_QUOTED = r"\\\"[^\"]*?\\\"|\"(?:[^\"\\]|\\.)*\"|'[^']*'"
_BARE = r"(?<==)[^\s,;}\"'\\]+|(?<!=)[^\s,}#\"'\\\[][^,}#\n]*"
_GIVEN = re.compile(
    rf"\b([A-Z][A-Z0-9_]*)((?:\\?['\"])?:(?=\s){_REFERENCE}[ \t]*|={_REFERENCE})({_QUOTED}|{_BARE})", re.MULTILINE
)
_NOTHING = ("null", "None", "true", "false")  # no value of a variable
_LOGIN = r"(?<=://)[^\s/@:'\"<>]{0,256}:[^\s/'\"<>]{2,256}(?=@)"  # user:password, never shorter than ***


def is_secret(variable: str) -> bool:
    """Whether the name of a variable says that its value is secret."""
    return _NAME.search(variable) is not None


def logins(text: str) -> list[str]:
    """The `user:password` of each URL in a text."""
    return re.findall(_LOGIN, text)


def without_logins(text: str) -> str:
    """A text with *** in place of the `user:password` of URLs."""
    return re.sub(_LOGIN, HIDDEN, text) if "://" in text else text


def shown(value: Any, key: str = "") -> Any:
    """A value of a configuration, of any depth, with *** for its secrets.

    Args:
        key: its dotted key.
    """
    if isinstance(value, Mapping):
        return {name: shown(item, f"{key}.{name}") for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(shown(item, key) for item in value)
    if value is not None and (match := _KEY_END.search(key)) and (match[1] is None or is_secret(match[1])):
        return HIDDEN
    return without_logins(value) if isinstance(value, str) else value


def quoted(value: Any, key: str = "") -> Any:
    """What a message may quote of a value. Of text that sets a secret variable, all that follows the name is hidden."""
    value = shown(value, key)
    if isinstance(value, str):
        for match in _SET.finditer(value):
            variable = match[1] or match[2]
            if variable is None or is_secret(variable):
                return value[: match.end()] + HIDDEN
    return value


def without_values(text: str, named: Container[str] = ()) -> str:
    """A text with *** in place of the values of secret variables, and of logins. YAML and JSON stay valid.

    Args:
        named: variables that are secret whatever their names say.
    """

    def hide(match: re.Match[str]) -> str:
        name, sign, value = match.groups()
        if not (is_secret(name) or name in named) or value.strip() in _NOTHING:
            return match[0]
        quote = '\\"' if value.startswith("\\") else value[0]
        if quote not in ('\\"', '"', "'"):
            quote = "" if sign == "=" else '"' if sign.startswith('"') else "'"  # a bare * has a meaning in YAML
        behind = value[len(value.rstrip()) :]  # what parts it from a comment
        return f"{name}{sign}{quote}{HIDDEN}{quote}{behind}"

    return without_logins(_GIVEN.sub(hide, text))


def is_hidden(value: str) -> bool:
    """Whether a value is one that a file shows in place of a secret."""
    return value == HIDDEN or f"://{HIDDEN}@" in value


class Mask:
    """Hides values in printed text: unchanged, line by line, and in the escapes of JSON and URLs.

    The passwords of URLs are hidden too: those in the values wherever they stand, any other where it stands in a URL.
    """

    def __init__(self, values: Iterable[str] = ()) -> None:
        parts = {part for value in values for part in (*re.split("[\r\n]+", value), *_passwords(value))}
        forms = {form for part in parts if len(part) >= SHORTEST for form in _forms(part)}
        self._needles = sorted((form.encode() for form in forms), key=len, reverse=True)
        self._pattern = re.compile(b"|".join([*map(re.escape, self._needles), _LOGIN.encode()]))
        self.longest = max([1024, *map(len, self._needles)])  # bytes of a secret

    def text(self, text: str) -> str:
        """The text with *** in place of secrets."""
        return self.sub(text.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")

    def sub(self, data: bytes) -> bytes:
        """The data with each secret replaced."""
        return self._pattern.sub(HIDDEN.encode(), data) if self._may_hold(data) else data

    def _may_hold(self, data: bytes) -> bool:
        """Whether data may hold a secret: far faster than the pattern."""
        return b"://" in data or any(needle in data for needle in self._needles)

    def cut(self, data: bytes) -> int:
        """The position at which data may be cut without cutting a secret: after a line end, if possible."""
        end = data.rfind(b"\n") + 1
        if end or len(data) < 2 * self.longest:
            return end
        end = len(data) - self.longest
        if not self._may_hold(data):
            return end
        starts = ((match.start() - len("://"), match.end()) for match in self._pattern.finditer(data))
        return next((max(start, 0) for start, stop in starts if start < end < stop), end)

    def file(self, path: Path) -> None:
        """Hide it in a file. Done in place: there may be no room for another file."""
        if not self._is_in(path):
            return
        masked, read, written = Masked(self), 0, 0
        with path.open("r+b") as file:
            while piece := file.read(CHUNK):
                read += len(piece)
                file.seek(written)
                written += file.write(masked.feed(piece))
                file.seek(read)
            file.seek(written)
            written += file.write(masked.end())
            file.truncate(written)

    def _is_in(self, path: Path) -> bool:
        masked = Masked(self)
        with path.open("rb") as file:
            while piece := file.read(CHUNK):
                masked.feed(piece)
        masked.end()
        return masked.found


class Masked:
    """Data that comes in pieces, without its secrets. The end of a piece is held back if it may begin a secret."""

    def __init__(self, mask: Mask) -> None:
        self._mask, self._rest = mask, b""
        self.found = False

    def feed(self, piece: bytes) -> bytes:
        """Take a piece of data, and return what can be passed on without secrets so far."""
        data = self._rest + piece
        end = self._mask.cut(data)
        self._rest = data[end:]
        return self._without(data[:end])

    def end(self) -> bytes:
        """What was held back, when nothing more comes."""
        rest, self._rest = self._rest, b""
        return self._without(rest)

    def _without(self, data: bytes) -> bytes:
        masked = self._mask.sub(data)
        self.found |= masked != data
        return masked


def _passwords(value: str) -> set[str]:
    """The passwords of URLs, as they stand there and as they are meant."""
    passwords = {login.partition(":")[2] for login in logins(value)}
    return passwords | {unquote(password) for password in passwords}


def _forms(value: str) -> set[str]:
    return {value, json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1], quote(value, safe="")}
