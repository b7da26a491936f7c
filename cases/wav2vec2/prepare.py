"""From unpacked LibriSpeech to a data folder: the FLAC files, and the manifests of the two splits."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import soundfile

from cases.conversion import reported
from flagperf.errors import ConfigError

log = logging.getLogger(__name__)


def librispeech(
    source: str | Path,
    folder: str | Path,
    train_subsets: Sequence[str],
    eval_subset: str,
    train_path: str,
    eval_path: str,
) -> None:
    """Link the FLAC files of `source` into `folder`, or copy them where that is another file system, and list them.

    Args:
        source: the folder LibriSpeech/ with its subsets.
        train_subsets, eval_subset: folders below it.
        train_path, eval_path: the manifests to write, below `folder`.
    """
    source, folder = Path(source), Path(folder)
    for path, subsets in ((train_path, train_subsets), (eval_path, [eval_subset])):
        files = [file for subset in subsets for file in flac_files(source, subset)]
        for file in _reported(files, path):
            _link(source / file, folder / file)
        write_manifest(folder, path, files)


def flac_files(source: Path, subset: str) -> list[Path]:
    """Paths of a subset's FLAC files below `source`, in order."""
    files = sorted(path.relative_to(source) for path in Path(source, subset).rglob("*.flac"))
    if not files:
        raise ConfigError(
            "no FLAC files of a subset",
            key="source",
            given=str(source / subset),
            allowed="the folder LibriSpeech/ with the subset's folder below it",
            advice=f"unpack {subset}.tar.gz of openslr.org/12",
        )
    return files


def write_manifest(folder: Path, path: str, files: Iterable[Path]) -> None:
    """List FLAC files below `folder` with their lengths in `folder/path`, which stays right when the folder moves."""
    lines = ["."]
    for file in _reported(list(files), f"{path}: lengths"):
        try:
            lines.append(f"{file.as_posix()}\t{soundfile.info(folder / file).frames}")
        except soundfile.LibsndfileError as error:
            raise ConfigError("cannot read the audio file", where=str(file), key="source", given=error) from None
    Path(folder, path).write_text("\n".join(lines) + "\n", encoding="utf-8")


def _link(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, target)
    except OSError:  # another file system, or one without links
        shutil.copyfile(source, target)


def _reported(files: Sequence[Path], name: str) -> Iterator[Path]:
    """The files, with lines in the log of how many are done."""
    yield from reported(files, log, f"%s: %d of {len(files)} files", name)
    log.info("%s: %d files", name, len(files))
