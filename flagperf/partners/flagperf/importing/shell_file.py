"""`environment_variables.sh` → the variables that it exports with stated values. It is never executed."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path

from flagperf.partners.flagperf.importing.values import Place, Said, Unread, Value

COMPUTED, CONDITIONAL, COMMAND, NOT_EXPORTED = "computed", "under a condition", "a command", "not exported"

_ASSIGNED = re.compile(r"(?P<export>export\s+)?(?P<name>[A-Za-z_]\w*)=(?P<text>.*)", re.DOTALL)
_EXPORTED = re.compile(r"export\s+(?P<name>[A-Za-z_]\w*)")
_OPENS, _CLOSES = re.compile(r"(if|for|while|until|case)\b"), re.compile(r"(fi|done|esac)\b")
_ONE_LINE = re.compile(r".*;\s*(fi|done|esac)$")
_SETS = re.compile(r"(?:^|[\s;&])([A-Za-z_]\w*)=|\b(?:export|unset)\s+([A-Za-z_]\w*)")
_USED, _PLAIN = re.compile(r"\$(?:(\w+)|\{(\w+)\})"), re.compile(r"[\w./:,+@%=-]*")
_HARMLESS = re.compile(r"set\s+[-+]\w+$|(then|do|else)$")


def read_shell(path: Path) -> Said:
    """The exported variables. What the shell would compute, and what stands under a condition, is told by line.

    A value may be made of earlier ones, such as ${HOME_OF_X}/bin.
    """
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
        inside = depth > 0 or bool(_OPENS.match(line))
        depth += bool(_OPENS.match(line)) and not _ONE_LINE.match(line)
        given, exported = _ASSIGNED.fullmatch(line), _EXPORTED.fullmatch(line)
        value = _literal(given["text"], {**plain, **values}) if given and not inside else None
        if given and value is not None:
            is_exported = given["export"] or given["name"] in values
            (values if is_exported else plain)[given["name"]] = Value(given["name"], value, place)
        elif exported and exported["name"] in plain and not inside:
            values[exported["name"]] = plain.pop(exported["name"])
        else:
            for name in (name for names in _SETS.findall(line) for name in names):
                plain.pop(name, None)
                values.pop(name, None)
            why = CONDITIONAL if inside else COMPUTED if given or exported else COMMAND
            unread.append(Unread(line, why, place))
    unread += [Unread(f"{one.name}={one.value}", NOT_EXPORTED, one.place) for one in plain.values()]
    return Said(values, tuple(unread), (path,))


def _literal(text: str, known: Mapping[str, Value]) -> str | None:
    """The text of a value, with the earlier ones that it names; None where only the shell would tell."""

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
