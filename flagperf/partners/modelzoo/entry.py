"""The entry of model.yaml, which describes the command of the short run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from flagperf.contract.regular import parse_yaml
from flagperf.partners.modelzoo import guide
from flagperf.partners.modelzoo.arguments import spelled
from flagperf.partners.modelzoo.fault import Fault

LOCATION = f"in the folder, or in {guide.ENTRY_IN_ZOO} above it"


@dataclass(frozen=True)
class Entry:
    """The script of the short run, and its parameters."""

    run_file: str
    params: Mapping[str, Any]  # the guide's parameters, then those of `others`

    def argv(self, python: str, options: set[str]) -> list[str]:
        """The command, as the page on model.yaml defines it. `options`: the options that the script takes."""
        pairs = [(f"--{spelled(name, options)}", str(value)) for name, value in self.params.items()]
        return [python, self.run_file, *(word for pair in pairs for word in pair)]


def read_entry(folder: Path) -> tuple[Entry | None, list[Fault]]:
    """The entry of a model folder, or None where it has faults; and its faults."""
    path = _file(folder)
    if path is None:
        return None, [
            Fault(guide.ENTRY, "no such file", f"an entry {LOCATION}", "write it: the short run is made from it")
        ]
    try:
        content = parse_yaml(path.read_text(encoding="utf-8", errors="replace"), aliases=True)
    except (ValueError, yaml.YAMLError) as error:
        return None, [Fault(guide.ENTRY, f"no YAML: {str(error).splitlines()[0]}", "a list of entries", "mend it")]
    entries = [item for item in content if isinstance(item, dict)] if isinstance(content, list) else []
    own_entries = entries if path.parent == folder else [item for item in entries if _is_of(item, folder)]
    if len(own_entries) != 1:
        return None, [
            Fault(
                guide.ENTRY, f"{len(own_entries)} entries of this folder", "a list with one", "run_dir names the folder"
            )
        ]
    faults = [Fault(guide.ENTRY, *texts) for texts in _wrong(own_entries[0], folder)]
    return (None if faults else _entry(own_entries[0])), faults


def _file(folder: Path) -> Path | None:
    paths = (folder / guide.ENTRY, *(parent / guide.ENTRY_IN_ZOO for parent in folder.parents))
    return next((path for path in paths if path.is_file()), None)


def _is_of(entry: Mapping[str, Any], folder: Path) -> bool:
    desc = entry.get("desc")
    run_dir = Path(str(desc.get("run_dir") or "") if isinstance(desc, dict) else "")
    return bool(run_dir.parts) and folder.parts[-len(run_dir.parts) :] == run_dir.parts


def _wrong(entry: Mapping[str, Any], folder: Path) -> Iterator[tuple[str, str, str]]:
    """For each fault: the actual value, the value that the guide asks for, and the advice."""
    desc, params = entry.get("desc"), entry.get("params")
    if not isinstance(desc, dict) or not isinstance(params, dict):
        yield (
            f"the keys {', '.join(map(str, entry))}",
            "case_name, desc and params, the last two with keys below them",
            "add them",
        )
        return
    run_dir, run_file = str(desc.get("run_dir") or ""), str(desc.get("run_file") or "")
    tops = [f"{top}/" for top in guide.FRAMEWORKS.values()]
    if not run_dir.startswith(tuple(tops)):
        yield f"run_dir: {run_dir or 'empty'}", f"a path that begins with {' or '.join(tops)}", "correct it"
    if not run_file.startswith(f"{guide.SCRIPTS}/") or not (folder / run_file).is_file():
        yield f"run_file: {run_file or 'empty'}", f"a script of this folder below {guide.SCRIPTS}/", "correct it"
    if not entry.get("case_name"):
        yield "case_name: empty", "the name of your account", "fill it"
    for name in guide.PARAMS:
        if params.get(name) in (None, ""):
            yield f"params.{name}: empty", "a value: no parameter may be missing or empty", "fill it"
    others = params.get(guide.OTHERS, {})
    if not isinstance(others, dict) or any(value in (None, "") for value in others.values()):
        yield (
            f"params.{guide.OTHERS}: {others}",
            "further parameters, each with a value",
            "fill them, or remove the key",
        )
    for name in ("step", "epoch"):
        if params.get(name) not in (None, "") and (not isinstance(params[name], int) or params[name] < 1):
            yield f"params.{name}: {params[name]}", "a whole number above 0", "correct it"


def _entry(entry: Mapping[str, Any]) -> Entry:
    params = {name: entry["params"][name] for name in guide.PARAMS}
    return Entry(entry["desc"]["run_file"], params | entry["params"].get(guide.OTHERS, {}))
