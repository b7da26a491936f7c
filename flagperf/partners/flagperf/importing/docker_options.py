"""Docker options as FlagPerf's ACCE_CONTAINER_OPT writes them → container options of a cluster, and variables."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Any

# docker's option → our key; options of LISTS may be repeated
LISTS = {
    "device": "devices",
    "cap-drop": "cap_drop",
    "cap-add": "cap_add",
    "security-opt": "security_opt",
    "group-add": "group_add",
}
TEXTS = {
    **{name: name for name in ("network", "ipc", "pid", "uts", "memory", "gpus", "runtime", "user")},
    "net": "network",
    "shm-size": "shm_size",
}
SWITCHES = ("privileged", "init")
SHORT = {"-v": "--volume", "-e": "--env", "-u": "--user", "-m": "--memory"}


def read_options(text: str) -> tuple[dict[str, Any], dict[str, str], list[str]]:
    """Container options, variables, and the options without a counterpart.

    A volume of the form source:target[:ro] is a mount. Docker's volumes without a target have no counterpart.
    """
    options: dict[str, Any] = {}
    variables: dict[str, str] = {}
    unknown = []
    for name, value in _pairs(text):
        if name in LISTS and value:
            options.setdefault(LISTS[name], []).append(value)
        elif name in TEXTS and value:
            options[TEXTS[name]] = value
        elif name in SWITCHES and value in (None, "true", "false"):
            options[name] = value != "false"
        elif name == "cpus" and value and re.fullmatch(r"\d+(\.\d+)?", value):
            options[name] = float(value)
        elif name == "env" and value and "=" in value:
            variable, _, content = value.partition("=")
            variables[variable] = content
        elif name == "volume" and value and (match := re.fullmatch(r"(/[^:]*):(/[^:]*?)(:ro|:rw)?", value)):
            options.setdefault("mounts", {})[match[1]] = match[2] + ("" if match[3] == ":ro" else ":rw")
        elif name == "ulimit" and value and (match := re.fullmatch(r"(\w+)=(-?\d+)", value)):
            options.setdefault("ulimits", {})[match[1]] = int(match[2])
        else:
            unknown.append(f"--{name}" + (f"={value}" if value else "") if name else str(value))
    return options, variables, unknown


def _pairs(text: str) -> Iterator[tuple[str, str | None]]:
    """Names and values of options. A word that belongs to no option has the name ""."""
    try:
        words = shlex.split(text)
    except ValueError:
        yield "", text
        return
    while words:
        word = words.pop(0)
        word = SHORT.get(word, word)
        if not word.startswith("--"):
            yield "", word
            continue
        name, equals, value = word[2:].partition("=")
        if equals or name in SWITCHES:
            yield name, value or None
        else:
            yield name, words.pop(0) if words and not words[0].startswith("-") else None
