"""Describes the values that a key accepts: type, range, options or form. config/schema/ and settings.py use it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from typing_extensions import Annotated

from flagperf.errors import ConfigError, meant, near
from flagperf.secret import quoted


@dataclass(frozen=True)
class Field:
    """The values that one key accepts. `platform`: the key says where, how often or how a job runs; no case has it."""

    type: type
    low: float | None = None  # smallest value allowed …
    above: float | None = None  # … or the value it must be above
    high: float | None = None
    options: tuple[str, ...] = ()
    form: str | None = None  # regular expression that the whole text matches …
    words: str = ""  # … and the allowed values in words
    classes: bool = False  # an item of the list may also be a mapping with the path of a class as _target_
    pattern: bool = False  # a regular expression
    null: bool = False
    platform: bool = False
    finite: bool = True  # false: a number may be infinite, or not a number

    def accepts(self, value: Any) -> bool:
        """True when the value has the type and form, and lies in the range."""
        if value is None:
            return self.null
        if not is_a(value, self.type) and (self.finite or not isinstance(value, float)):
            return False
        if self.options and not all(map(self._is_option, value if self.type is list else [value])):
            return False
        if self.form is not None and not re.fullmatch(self.form, value, re.DOTALL):
            return False
        if self.pattern and not _compiles(value):
            return False
        if self.type in (int, float):
            return (
                (self.low is None or value >= self.low)
                and (self.above is None or value > self.above)
                and (self.high is None or value <= self.high)
            )
        return True

    def _is_option(self, item: Any) -> bool:
        return item in self.options or (self.classes and is_a(item, dict) and is_a(item.get("_target_"), str))

    def __str__(self) -> str:
        null = ", or null" if self.null else ""
        if self.options:
            options = ", ".join(self.options) + (", {_target_: path of a class, …}" if self.classes else "")
            return f"{'a list of' if self.type is list else 'one of'}: {options}{null}"
        bounds = {"at least": self.low, "above": self.above, "at most": self.high}
        limits = "".join(f", {name} {at}" for name, at in bounds.items() if at is not None)
        return (self.words or TYPE_NAMES[self.type]) + limits + null

    def check(self, key: str, value: Any, where: Callable[[str], str]) -> None:
        """Refuse a value that is not accepted.

        Args:
            key: the dotted key, for the message.
            where: dotted key → the file or "command line" that set it.

        Raises:
            ConfigError: with the allowed values, and the option that was probably meant.
        """
        if self.accepts(value):
            return
        file, advice = where(key), meant(value, self.options)
        if not is_a(value, self.type):
            problem = "wrong type of value"
            if self.type is list and self.options and isinstance(value, str) and advice:
                advice = f"a list stands in brackets: {key}=[{near(value, self.options)[0]}]"
            if self.type is dict:
                advice = f"set the keys below it: {key}.NAME=VALUE"
            if self.type is str and isinstance(value, (bool, int, float)):
                as_text = f"as text it is written {key}=\"'{quoted(value, key)}'\""
                advice = as_text if file == "command line" else "a value in quotes is text"
        else:
            formed = self.form or self.pattern
            problem = "no such option" if self.options else "wrong form of value" if formed else "value out of range"
        given = "null" if value is None else value if value != "" else '""'
        raise ConfigError(problem, where=file, key=key, given=given, allowed=str(self), advice=advice)


def _compiles(pattern: str) -> bool:
    try:
        re.compile(pattern)
    except re.error:
        return False
    return True


TYPE_NAMES = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    list: "a list",
    dict: "a mapping",
}


def is_a(value: Any, kind: type) -> bool:
    """True when a YAML value is of the kind; a whole number is a number, true and false are not."""
    if isinstance(value, bool):
        return kind is bool
    if kind is float:
        return isinstance(value, (int, float)) and math.isfinite(value)
    return isinstance(value, kind)


def count(low: int = 1, *, high: int | None = None, null: bool = False, platform: bool = False) -> Field:
    """A whole number of things."""
    return Field(int, low=low, high=high, null=null, platform=platform)


def seconds(*, null: bool = False, platform: bool = False) -> Field:
    """A time."""
    return Field(float, above=0, null=null, platform=platform)


def text(*options: str, null: bool = False, platform: bool = False) -> Field:
    """Text, or one of the options."""
    return Field(str, options=options, null=null, platform=platform)


def switch(*, platform: bool = False) -> Field:
    """True or false."""
    return Field(bool, platform=platform)


def folder_name(*, null: bool = False, platform: bool = False) -> Field:
    """Text that names a folder, and cannot lead out of the one it lies in."""
    words = "the name of a folder: not empty, without /, not . or .."
    return Field(str, form=r"(?!\.{1,2}\Z)[^/\0]+", words=words, null=null, platform=platform)


UNITS = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4}
SIZE = r"(\d+(?:\.\d+)?)([kmgt]?)b?"  # as docker writes it, in capitals or not

Figure = Annotated[float, Field(float, finite=False)]
NotNegative = Annotated[float, Field(float, low=0)]
Positive = Annotated[float, Field(float, above=0)]
Share = Annotated[float, Field(float, above=0, high=1)]
Count = Annotated[int, count()]
CountFrom0 = Annotated[int, count(0)]
Port = Annotated[int, count(high=65535)]
FolderName = Annotated[str, folder_name()]
# OpenSSH refuses the same names: as a word of a command they would be an option, or more than a word for a shell.
_UNSAFE = r"""\s\0'"`$;&<>|(){}"""
Address = Annotated[str, Field(str, form=rf"(?!-)[^/\\{_UNSAFE}]+", words="the name or IP address of a host")]
UserName = Annotated[str, Field(str, form=rf"(?!-)[^{_UNSAFE}]+", words="the name of a user, which begins with no -")]
Operand = Annotated[str, Field(str, form=r"(?!-)[^\0]+", words="text that begins with no -, as an option does")]
AbsolutePath = Annotated[str, Field(str, form=r"/[^\0]*", words="an absolute path, with ~ written out")]
Variable = Annotated[
    str,
    Field(str, form="[A-Za-z_][A-Za-z0-9_]*", words="the name of a variable: letters, digits and _, no digit first"),
]
VariablePattern = Annotated[
    str,
    Field(
        str,
        form=r"[A-Za-z_][A-Za-z0-9_]{2,}\*?",
        words="the name of a variable, or its beginning and a *: NCCL_*",
    ),
]
_DOMAIN = r"(?:\[[0-9A-Fa-f:]+\]|[A-Za-z0-9][A-Za-z0-9.-]*)(?::\d+)?"
_PATH = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
ImageReference = Annotated[
    str,
    Field(
        str,
        form=rf"(?:{_DOMAIN}/)?{_PATH}(?:/{_PATH})*(?::\w[\w.-]{{0,127}})?(?:@[A-Za-z0-9+._-]+:[0-9A-Fa-f]{{32,}})?",
        words="the name of an image as docker takes it: [registry/]name[:tag][@digest], the name in lower-case letters",
    ),
]
Pattern = Annotated[str, Field(str, pattern=True, words="a regular expression")]
ByteSize = Annotated[str, Field(str, form=f"(?i:{SIZE})", words="a number with b, k, m, g or t, such as 512m")]
Gpus = Annotated[str, Field(str, form=r"all|[1-9]\d*|device=[^\s,]+(,[^\s,]+)*", words="all, a count, or device=0,1")]
DeviceFile = Annotated[
    str,
    Field(
        str,
        # docker takes a pattern such as /dev/a[0-7], or the X of an example such as /dev/davinciX, as a name
        form=r"(?!.*([*?\[\]{}<>]|[a-z][XN](:|\Z)))/[^:\0]+(:/[^:\0]+(:(?=.)r?w?m?)?)?",
        words="host[:container[:permissions]], both absolute paths of one device (no pattern, no X for a number), "
        "permissions of r, w and m in this order",
    ),
]
MountTarget = Annotated[
    str, Field(str, form=r"/[^:\0]+(:rw)?", words="an absolute path in the container, or one with :rw")
]
Limit = Annotated[int, Field(int, low=-1)]


def size_in_bytes(text: str) -> int:
    """Bytes of a size as docker writes it: 512m, 1.5g."""
    match = re.fullmatch(SIZE, text.lower())
    if not match:
        raise ValueError(f"not a size: {text}")  # the composition has refused such a text
    return int(float(match[1]) * UNITS[match[2]])
