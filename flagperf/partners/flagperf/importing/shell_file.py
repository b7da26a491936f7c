"""`environment_variables.sh` → the variables that it exports with known values. The file is never executed."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path

from flagperf.partners.flagperf.importing.values import FileContent, SourceLine, Unread, Value

COMPUTED, CONDITIONAL, COMMAND, NOT_EXPORTED = "computed", "under a condition", "a command", "not exported"

_ASSIGNED = re.compile(r"(?P<export>export\s+)?(?P<name>[A-Za-z_]\w*)=(?P<text>.*)", re.DOTALL)
_EXPORTED = re.compile(r"export\s+(?P<name>[A-Za-z_]\w*)")
_OPENS, _CLOSES = re.compile(r"(if|for|while|until|case)\b"), re.compile(r"(fi|done|esac)\b")
_ONE_LINE = re.compile(r".*;\s*(fi|done|esac)$")
_SETS = re.compile(r"(?:^|[\s;&])([A-Za-z_]\w*)=|\b(?:export|unset)\s+([A-Za-z_]\w*)")
_USED, _PLAIN = re.compile(r"\$(?:(\w+)|\{(\w+)\})"), re.compile(r"[\w./:,+@%=-]*")
_HARMLESS = re.compile(r"set\s+[-+]\w+$|(then|do|else)$")


def read_shell(path: Path) -> FileContent:
    """The exported variables. Lines that the shell must compute, and lines under a condition, become Unread.

    A value may contain earlier variables, such as ${HOME_OF_X}/bin.
    """
    values: dict[str, Value] = {}
    plain: dict[str, Value] = {}  # variables that are set and not yet exported
    unread: list[Unread] = []
    depth = 0
    for number, raw in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
        line, source = raw.strip().rstrip(";").strip(), SourceLine(path, number)
        if not line or line.startswith("#") or _HARMLESS.match(line):
            continue
        if _CLOSES.match(line):
            depth = max(0, depth - 1)
            continue
        inside = depth > 0 or bool(_OPENS.match(line))
        depth += bool(_OPENS.match(line)) and not _ONE_LINE.match(line)
        assignment, exported = _ASSIGNED.fullmatch(line), _EXPORTED.fullmatch(line)
        value = _literal(assignment["text"], {**plain, **values}) if assignment and not inside else None
        if assignment and value is not None:
            is_exported = assignment["export"] or assignment["name"] in values
            (values if is_exported else plain)[assignment["name"]] = Value(assignment["name"], value, source)
        elif exported and exported["name"] in plain and not inside:
            values[exported["name"]] = plain.pop(exported["name"])
        else:
            for name in (name for names in _SETS.findall(line) for name in names):
                plain.pop(name, None)
                values.pop(name, None)
            why = CONDITIONAL if inside else COMPUTED if assignment or exported else COMMAND
            unread.append(Unread(line, why, source))
    unread += [
        Unread(f"{variable.name}={variable.value}", NOT_EXPORTED, variable.source) for variable in plain.values()
    ]
    return FileContent(values, tuple(unread), (path,))


def _literal(text: str, known: Mapping[str, Value]) -> str | None:
    """The text of a value, with earlier variables filled in; None where only the shell knows it."""

    def filled(used: re.Match[str]) -> str:
        value = str(known[name].value) if (name := used[1] or used[2]) in known else ""
        return value if value and _PLAIN.fullmatch(value) else used[0]

    if not re.fullmatch(r"\s*'[^']*'\s*", text):
        text = _USED.sub(filled, text)
        if re.search(r"[`$]|^~", text):
            return None
    try:
        words = shlex.split(text, comments=True)
    except ValueError:
        return None
    return (words or [""])[0] if len(words) < 2 else None
