"""Finds configuration files: in a checkout, in an installed wheel, and in the folders of --config-dir."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from flagperf.errors import ConfigError
from flagperf.user import user_path

PACKAGE = Path(__file__).resolve().parents[2]
_INSTALLED = PACKAGE / "conf"
CONF = _INSTALLED if _INSTALLED.is_dir() else PACKAGE.parent / "conf"
VENDORS = PACKAGE / "vendors" if _INSTALLED.is_dir() else PACKAGE.parent / "vendors"
_PAGES = (PACKAGE if _INSTALLED.is_dir() else PACKAGE.parent) / "docs"
CASE_PAGES, CHINESE_CASE_PAGES = _PAGES / "cases", _PAGES / "zh" / "cases"

_GROUPS = ("model", "dataset", "mutable", "fingerprint", "convergence", "size", "size/*", "framework")
_GROUPS_OF_FRAMEWORKS = ("model/*", "mutable/*", "fingerprint/*", "size/*/*")
BEFORE = re.compile(r"^defaults: \[([\w/]+)(?:, _self_)?\]$", re.MULTILINE)  # the file that a file changes
PROTECTED = ("config", "training", *(f"{group}/*" for group in (*_GROUPS, *_GROUPS_OF_FRAMEWORKS)))


def search_path(config_dirs: Sequence[Path]) -> tuple[Path, ...]:
    """The folders of configuration files: the user's folders first, the shipped folder last.

    A user's file may replace a shipped vendor, hardware, cluster, tuning or experiment of the same name. It may not
    replace a case, data set, mutable list, fingerprint, file of reference points, size or framework, because results
    could not be compared.
    """
    folders = tuple(user_path(folder).absolute() for folder in config_dirs)
    for folder in folders:
        if not folder.is_dir():
            raise ConfigError("no such configuration folder", key="--config-dir", given=folder)
        for pattern in PROTECTED:
            for path in folder.glob(f"{pattern}.yaml"):
                if (CONF / path.relative_to(folder)).exists():
                    raise ConfigError(
                        "this file would replace a shipped one, and results could no longer be compared",
                        where=str(path),
                        advice="give it another name",
                    )
    return (*folders, CONF)


def options(group: str, folders: Sequence[Path]) -> list[str]:
    """The options of a group, sorted."""
    return sorted({path.stem for folder in folders for path in (folder / group).glob("*.yaml")})


def cases(folders: Sequence[Path]) -> list[str]:
    """All cases by their files, cases for other frameworks last: "bert", …, "paddle/bert"."""
    with_framework = (
        f"{name}/{case}" for name in options("framework", folders) for case in options(f"model/{name}", folders)
    )
    return [*options("model", folders), *with_framework]


def find(name: str, folders: Sequence[Path]) -> Path | None:
    """The first file with a name such as "vendor/nvidia"; None: no such file."""
    return next((path for folder in folders if (path := folder / f"{name}.yaml").is_file()), None)


def chain(name: str, folders: Sequence[Path]) -> list[str]:
    """A file such as "model/llama2_70b", and the files that it begins with: its `defaults: [llama2_7b, _self_]`."""
    path = find(name, folders)
    before = BEFORE.search(path.read_text(encoding="utf-8")) if path else None
    return [name, *(chain(f"{name.partition('/')[0]}/{before[1]}", folders) if before else [])]


def family_of(case: str, folders: Sequence[Path]) -> str:
    """The case whose tiny size a case shares: sizes of one model share this, the page and the tests that train."""
    return chain(f"size/tiny/{case}", folders)[-1].partition("/tiny/")[2]


def with_name(option: str, case: str) -> str:
    """An option with another case: "paddle/bert" and "albert" make "paddle/albert"."""
    return "".join(option.rpartition("/")[:2]) + case


def is_shipped(path: Path) -> bool:
    """Whether a file is one of flagperf's own."""
    return CONF in path.parents
