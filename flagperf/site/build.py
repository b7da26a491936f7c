"""Writes the folder of the site."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from flagperf import report
from flagperf.bundle.apart import Refused, examine
from flagperf.bundle.approval import approval_file
from flagperf.bundle.archive import SUFFIX
from flagperf.bundle.keyring import Keyring
from flagperf.contract.regular import beside
from flagperf.errors import ConfigError
from flagperf.site.bundles import Bundle, Refusal, read_bundle
from flagperf.site.pages import FOLDERS, GENERATOR, PLOTS, Pages
from flagperf.site.published import published_entries

HERE = Path(__file__).parent
REPORT = Path(report.__file__).parent


@dataclass(frozen=True)
class Built:
    """What became of the bundles."""

    bundles: Sequence[Bundle]
    refusals: Sequence[Refusal]
    pages: int  # 0: the site was not written


def build(paths: Sequence[Path], target: Path, keyring: Keyring, *, without_refused: bool = False) -> Built:
    """Verify bundles, and write the site of all of them.

    Args:
        paths: bundles, or folders with bundles.
        target: the folder; an older site there is replaced.
        without_refused: write the site of the other bundles where some are refused; otherwise nothing is written.

    Raises:
        ConfigError: there are no bundles, or there is something else at `target`.
    """
    _check_target(target)
    read = list(_read(_bundle_files(paths), keyring))
    refusals = [item for item in read if isinstance(item, Refusal)]
    bundles = list({item.id: item for item in read if isinstance(item, Bundle)}.values())
    if not bundles or (refusals and not without_refused):
        return Built(bundles, refusals, 0)
    with beside(target) as new:
        pages = _write(new, bundles)
        _replace(new, target)
    return Built(bundles, refusals, pages)


def _replace(new: Path, target: Path) -> None:
    """Give a folder the name of the older one, which is removed. Another process may do so at the same time."""
    while True:
        with beside(target) as old, suppress(FileNotFoundError):
            target.rename(old)
        try:
            new.rename(target)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
        else:
            return


def _bundle_files(paths: Sequence[Path]) -> list[Path]:
    files = [file for path in paths for file in _files(path)]
    if not files:
        given = " ".join(map(str, paths)) or '""'
        raise ConfigError("no bundles", given=given, allowed=f"files {SUFFIX}, or folders with such files")
    return list(dict.fromkeys(file.resolve() for file in files))


def _files(path: Path) -> Iterator[Path]:
    if path.is_dir():
        yield from sorted(path.glob(f"*{SUFFIX}"))
    else:
        yield path


def _check_target(target: Path) -> None:
    """Refuse to replace anything but a site or an empty folder."""
    if not target.exists() and target.resolve().parent.is_dir():
        return
    if not target.is_dir():
        raise ConfigError("no such folder", key="into", given=target.parent, advice="make the folder first")
    index = target / "index.html"
    is_site = index.is_file() and f'content="{GENERATOR}"' in index.read_text(encoding="utf-8", errors="replace")[:2000]
    if not is_site and any(target.iterdir()):
        advice = "remove it, or choose another folder"
        raise ConfigError("this folder holds something else than a site", key="into", given=target, advice=advice)


def _read(files: Sequence[Path], keyring: Keyring) -> Iterator[Bundle | Refusal]:
    """Read bundles in several processes, in the order of the files."""
    for answer in examine(partial(read_bundle, keyring=keyring), files, min(len(files), os.cpu_count() or 1)):
        yield Refusal(answer.path, (answer.reason,)) if isinstance(answer, Refused) else answer


def _write(folder: Path, bundles: Sequence[Bundle]) -> int:
    """Write pages, scripts and bundles; returns the number of pages."""
    (folder / "bundles").mkdir(parents=True)
    (folder / "assets").mkdir()
    for source in (*(REPORT / name for name in ("page.css", *PLOTS)), *sorted((HERE / "assets").iterdir())):
        shutil.copyfile(source, folder / "assets" / source.name)
    for bundle in bundles:
        copy = folder / "bundles" / bundle.file
        shutil.copyfile(bundle.path, copy)
        if bundle.approval is not None:
            shutil.copyfile(approval_file(bundle.path), approval_file(copy))
    count, published = 0, published_entries()
    for language, prefix in FOLDERS.items():
        for path, text in Pages(language, bundles, published).all():
            page = folder / prefix / path
            page.parent.mkdir(parents=True, exist_ok=True)
            page.write_text(text, encoding="utf-8")
            count += 1
    return count
