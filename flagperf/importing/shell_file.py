"""`environment_variables.sh` → the variables that it exports with stated values. It is never executed."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from flagperf.importing.values import Place, Said, Unread, Value

COMPUTED, CONDITIONAL, COMMAND, NOT_EXPORTED = "computed", "under a condition", "a command", "not exported"

_ASSIGNED = re.compile(r"(?P<export>export\s+)?(?P<name>[A-Za-z_]\w*)=(?P<text>.*)", re.DOTALL)
_EXPORTED = re.compile(r"export\s+(?P<name>[A-Za-z_]\w*)")
_OPENS, _CLOSES = re.compile(r"(if|for|while|until|case)\b"), re.compile(r"(fi|done|esac)\b")
_HARMLESS = re.compile(r"set\s+[-+]\w+$|(then|do|else)$")


def read_shell(path: Path) -> Said:
    """The exported variables. What the shell would compute, and what stands under a condition, is told by line."""
    values: dict[str, Value] = {}
    plain: dict[str, Value] = {}  # set, and not yet exported
    unread: list[Unread] = []
    depth = 0
    for number, raw in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
        line, place = raw.strip().rstrip(";").strip(), Place(path, number)
        if not line or line.startswith("#") or _HARMLESS.match(line):
            continue
        if _CLOSES.match(line):
            depth = max(0, depth - 1)
            continue
        depth += bool(_OPENS.match(line))
        given, exported = _ASSIGNED.fullmatch(line), _EXPORTED.fullmatch(line)
        value = _literal(given["text"]) if given and not depth else None
        if given and value is not None:
            (values if given["export"] else plain)[given["name"]] = Value(given["name"], value, place)
        elif exported and exported["name"] in plain and not depth:
            values[exported["name"]] = plain.pop(exported["name"])
        else:
            if given or exported:
                name = (given or exported)["name"]  # type: ignore[index]
                plain.pop(name, None)
                values.pop(name, None)
            why = CONDITIONAL if depth else COMPUTED if given or exported else COMMAND
            unread.append(Unread(line, why, place))
    unread += [Unread(f"{one.name}={one.value}", NOT_EXPORTED, one.place) for one in plain.values()]
    return Said(values, tuple(unread), (path,))


def _literal(text: str) -> str | None:
    """The text of a value that the shell would take as it stands; None for any other."""
    computed = "`" in text or "$" in text
    if computed and not re.fullmatch(r"\s*'[^']*'\s*", text):
        return None
    try:
        words = shlex.split(text, comments=True)
    except ValueError:
        return None
    return (words or [""])[0] if len(words) < 2 else None
