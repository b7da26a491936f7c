"""Finds the files of a case: those that exist, and those that are missing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flagperf.config.files.search_path import CASE_PAGES, CONF, family_of, find, is_shipped, with_name
from flagperf.contract.components import targets
from flagperf.contract.sent_code import package_folder

# Group → content of its file of a case.
GROUPS = {
    "size/tiny": "the reduced case",
    "fingerprint": "its stated network and recipe",
    "golden": "losses of trainings in fp32 on a CPU, for flagperf align",
    "convergence": "samples that trainings need to the target",
    "published": "figures of FlagPerf, if FlagPerf publishes any",
}
# Missing files of these groups are named for shipped cases of the main framework.
SHIPPED_ONLY = ("golden", "convergence", "published")
OF_THE_CASE = ("fingerprint", "convergence")  # groups whose file has the name of the case, and not of the model's file


@dataclass(frozen=True)
class CaseFile:
    """A file or code folder of a case."""

    path: Path
    content: str  # for readers
    exists: bool = True


def case_files(choices: Mapping[str, str], case: str, tree: Any, folders: Sequence[Path]) -> Iterator[CaseFile]:
    """All files of a case in the order in which authors write them.

    Args:
        choices: config group → chosen option.
        case: the name of the case.
        tree: the configuration of the case, for the modules in its `_target_` entries.
        folders: the search path.
    """
    model = choices["model"]
    model_file = find(f"model/{model}", folders)
    assert model_file is not None  # the composition has read the file
    shipped = is_shipped(model_file)
    conf = CONF if shipped else next(folder for folder in folders if folder in model_file.parents)
    yield CaseFile(model_file, "settings and components")
    shared = {"dataset": "the data set, shared by cases", "mutable": "keys that a closed run may change"}
    for group, content in shared.items():
        if group in choices and (path := find(f"{group}/{choices[group]}", folders)):
            yield CaseFile(path, content)
    option = {group: with_name(model, case) if group in OF_THE_CASE else model for group in GROUPS}
    option["golden"] = family_of(model, folders)  # cases with one tiny size share the curves
    for group, content in GROUPS.items():
        path = find(f"{group}/{option[group]}", folders)
        if path or group not in SHIPPED_ONLY or (shipped and "/" not in model):
            yield CaseFile(path or conf / f"{group}/{option[group]}.yaml", content, exists=path is not None)
    for module in sorted({target.split(".")[1] for target in targets(tree) if target.startswith("cases.")}):
        path = package_folder("cases") / module
        path = path if path.is_dir() else path.with_suffix(".py")
        yield CaseFile(path, "code", exists=path.exists())
    if shipped:
        page = CASE_PAGES / f"{family_of(model, folders)}.md"
        yield CaseFile(page, "the page for readers", exists=page.is_file())
