"""The files of checkpoints: step<N>.pt, and beside it step<N>.pt.sha256 as sha256sum writes it.

Where each rank writes a part, a folder step<N>.dcp replaces the file. A checkpoint with its final name is complete,
wherever its writer or its host died. Its SHA-256 reveals later corruption.
"""

from __future__ import annotations

import hashlib
import io
import os
import pickle
import shutil
import socket
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from flagperf.contract.checkpoint import FORMS, hash_file, hashes
from flagperf.contract.digest import sha256_of
from flagperf.errors import ConfigError
from flagperf.trainer.ranks import Ranks

CHECKPOINTS = 2  # checkpoints in a folder: where the newest is damaged, the one before it is used
UNCHECKED = "it has no hash beside it, only the checksums in the file were compared"


class IntactCheckpoint(NamedTuple):
    """The newest intact checkpoint, with notes about this checkpoint and about newer ones."""

    path: Path
    notes: tuple[str, ...] = ()


class _Inspection(NamedTuple):
    """The result of a node's inspection of a checkpoint. `damage`: why the checkpoint is useless; empty: intact."""

    damage: str = ""
    note: str = ""


class _Hashed(io.BufferedWriter):
    """A new file that hashes its content as it is written."""

    def __init__(self, path: Path) -> None:
        super().__init__(io.FileIO(path, "w"))
        self.hash = hashlib.sha256()

    def write(self, data: Any) -> int:
        """Hash the data, and write it."""
        self.hash.update(data)
        return super().write(data)


class SingleRank(Ranks):
    """A single rank, before it has joined the other ranks."""

    def gather(self, value: Any) -> list[Any]:
        """The value of this rank."""
        return [value]


def checkpoint_folder() -> Path:
    """The folder of this training's checkpoints: one a round, beside the log folders of its nodes."""
    if "FLAGPERF_CHECKPOINT_DIR" in os.environ:
        return Path(os.environ["FLAGPERF_CHECKPOINT_DIR"])
    return Path(os.environ.get("FLAGPERF_LOG_DIR", "log")).parent / "checkpoint"


def save(folder: Path, step: int, write: Callable[[Any], object]) -> Path:
    """Write `step<step>.pt` and its hash, completely or not at all; then remove all checkpoints but the newest two.

    Args:
        write: fills the open file from its beginning to its end, in the framework's own format.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"step{step:09d}.pt"
    partial, partial_hash = path.with_suffix(".partial"), path.with_suffix(".sha256.partial")
    with _Hashed(partial) as file:
        write(file)
        _to_disk(file)
    with partial_hash.open("wb") as beside:
        beside.write(f"{file.hash.hexdigest()}  {path.name}\n".encode())
        _to_disk(beside)
    _rename(partial, partial_hash, path)
    return path


def save_folder(folder: Path, step: int, ranks: Ranks, write: Callable[[Path], object]) -> None:
    """Write the folder `step<step>.dcp` and the hashes of its files, like `save`; called on every rank.

    Nodes without a shared file system get the files of their own ranks, and the hashes of all files. The checkpoint is
    complete when the launcher has collected the files of all nodes.

    Args:
        write: puts the files of a rank into the folder and onto the disk.
    """
    path = folder / f"step{step:09d}.dcp"
    partial, partial_hash = path.with_suffix(".partial"), path.with_suffix(".sha256.partial")
    if ranks.local_rank == 0:
        shutil.rmtree(partial, ignore_errors=True)  # left by ranks that were killed
    ranks.wait()
    if ranks.rank == 0:
        partial.mkdir(parents=True)
    ranks.wait()
    leads = ranks.rank == 0 or (ranks.local_rank == 0 and not partial.is_dir())  # the first rank of a file system
    if leads:
        partial.mkdir(parents=True, exist_ok=True)
    ranks.wait()
    write(partial)
    ranks.wait()
    local = {file.name: sha256_of(file) for file in partial.iterdir()} if leads else {}
    digests = {name: digest for part in ranks.gather(local) for name, digest in part.items()}
    if leads:
        with partial_hash.open("wb") as beside:
            beside.write("".join(f"{digests[name]}  {path.name}/{name}\n" for name in sorted(digests)).encode())
            _to_disk(beside)
        _rename(partial, partial_hash, path)
    ranks.wait()


def _rename(partial: Path, partial_hash: Path, path: Path) -> None:
    """Give a complete checkpoint its name; then remove all others but the one before it."""
    folder = path.parent
    partial_hash.rename(hash_file(path))  # first: a checkpoint always has its hash
    if path.is_dir():
        shutil.rmtree(path)  # a damaged one: the training went on from the one before
    partial.rename(path)
    _sync_folder(folder)
    kept = {path, *_checkpoints(folder)[-CHECKPOINTS:]}
    for other in sorted(set(folder.glob("step*")) - kept - set(map(hash_file, kept))):
        shutil.rmtree(other) if other.is_dir() else other.unlink()


def newest_intact(folder: Path, world: Ranks) -> IntactCheckpoint:
    """The newest checkpoint that is intact on every node, the same on all ranks.

    The first rank of each node inspects the files.

    Raises:
        ConfigError: no checkpoint is intact.
    """
    inspects = world.local_rank == 0
    names_by_rank = world.gather([path.name for path in _checkpoints(folder)] if inspects else [])
    notes: list[str] = []
    for name in sorted({name for names in names_by_rank for name in names}, reverse=True):
        inspections = world.gather(_inspect(folder / name, world) if inspects else _Inspection())
        if damage := [inspection.damage for inspection in inspections if inspection.damage]:
            notes += damage
            continue
        used = [f"{name} was used in its place"] if notes else []
        remarks = dict.fromkeys(inspection.note for inspection in inspections if inspection.note)
        return IntactCheckpoint(folder / name, (*notes, *used, *remarks))
    if notes:
        problem, given, advice = "no checkpoint is complete", "; ".join(notes), "start again without resume"
    else:
        problem, given, advice = (
            "no checkpoint to resume from",
            None,
            "set checkpoint_freq in the run that is to be resumed later",
        )
    allowed = "a folder with step<N>.pt files or step<N>.dcp folders, readable on every node"
    raise ConfigError(problem, where=str(folder), key="resume", given=given, allowed=allowed, advice=advice)


def check_agreed(names: Sequence[str]) -> None:
    """Refuse ranks that go on from different checkpoints.

    Args:
        names: of the checkpoint that each rank chose.

    Raises:
        ConfigError: the names differ.
    """
    if len(set(names)) > 1:
        raise ConfigError(
            "the ranks would go on from different checkpoints",
            where="config.yaml",
            key="resume",
            given=", ".join(dict.fromkeys(names)),
            allowed="the same checkpoint, complete on every node",
            advice="copy the folder from the node that has the newest one",
        )


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """A block that reads a checkpoint, which anyone may have written.

    Raises:
        ConfigError: the file is no checkpoint. Readers raise different errors for different contents.
    """
    try:
        yield
    except (
        pickle.UnpicklingError,
        zipfile.BadZipFile,
        RuntimeError,
        EOFError,
        LookupError,
        AttributeError,
        ArithmeticError,
        TypeError,
        ValueError,
    ) as error:
        raise ConfigError(
            "this is no checkpoint of flagperf",
            where=str(path),
            key="resume",
            given=f"a file that holds other objects, or parts of one ({type(error).__name__})",
            allowed="a file of a training: tensors and plain values",
            advice="start again without resume, or ask who wrote the file; nothing in it was executed",
        ) from error


def _inspect(path: Path, world: Ranks) -> _Inspection:
    """Inspect a checkpoint on this node; the result names the host where there are several nodes."""
    try:
        inspection = _inspect_path(path)
    except OSError as error:
        inspection = _Inspection(damage=f"it cannot be read: {error.strerror}")
    name = path.name if world.local_size == world.size else f"{path.name} on {socket.gethostname()}"
    damage = f"{name} is damaged: {inspection.damage}" if inspection.damage else ""
    return _Inspection(damage, f"{name}: {inspection.note}" if inspection.note else "")


def _inspect_path(path: Path) -> _Inspection:
    if path.is_dir():
        return _inspect_folder(path)
    if hash_file(path).exists():
        same = hashes(path).get(path.name) == sha256_of(path)
        return _Inspection() if same else _Inspection(damage="its content is not that of its hash")
    try:  # a checkpoint of an older version; torch.load would not notice another byte
        with zipfile.ZipFile(path) as file:
            part = file.testzip()
    except zipfile.BadZipFile:
        return _Inspection(damage="it was cut off")
    return _Inspection(damage=f"{part} in it has another checksum") if part else _Inspection(note=UNCHECKED)


def _inspect_folder(folder: Path) -> _Inspection:
    """Compare the files of a folder with its hashes."""
    if not hash_file(folder).exists():
        return _Inspection(damage="it has no hashes beside it")
    for name, digest in hashes(folder).items():
        file = folder.parent / name
        if not file.is_file():
            return _Inspection(damage=f"{name} is missing")
        if sha256_of(file) != digest:
            return _Inspection(damage=f"the content of {name} is not that of its hash")
    return _Inspection()


def _to_disk(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    """Write the names of a folder's files to the disk."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _checkpoints(folder: Path) -> list[Path]:
    return sorted(path for form in FORMS for path in folder.glob(form))
