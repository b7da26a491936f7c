"""Keeps the command of a run in the run's folder, with the user's configuration files, so that it can be repeated."""

from __future__ import annotations

import dataclasses
import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from flagperf import __version__
from flagperf.config.files.search_path import CONF
from flagperf.contract import made_here
from flagperf.contract.build import build
from flagperf.contract.outcome import Moment
from flagperf.contract.regular import parse_json, read_text
from flagperf.contract.sent_code import identities
from flagperf.errors import ConfigError
from flagperf.secret import Mask, quoted, without_values

FILE = "command.json"
NEW = ("run_name", "render")  # overrides that are not repeated
CONFIG_DIRS = "config_dirs"  # folder with copies of the user's configuration folders: 0, 1 …


@dataclass(frozen=True)
class Command:
    """A command: its words, folder and time, and the code that ran it."""

    overrides: tuple[str, ...]
    multirun: bool
    config_dirs: tuple[str, ...]  # as typed; CONFIG_DIRS has copies of their files
    folder: str  # current folder of the command
    began: Moment
    version: str = __version__
    code: Mapping[str, str] = dataclasses.field(default_factory=identities)

    def line(self) -> str:
        """The command as a line of shell."""
        dirs = (word for folder in self.config_dirs for word in ("--config-dir", folder))
        return shlex.join(("flagperf", *(["-m"] if self.multirun else []), *dirs, *self.overrides))


def keep(command: Command, run: Path, masks: Iterable[Mask] = ()) -> None:
    """Write the command into a run's folder, and beside it the files of the user's configuration folders.

    Args:
        masks: of the jobs' secrets. Neither secrets nor texts that look like secrets are kept.
    """
    masks = list(masks)
    command = dataclasses.replace(command, overrides=tuple(quoted(override) for override in command.overrides))
    text = _masked(json.dumps(dataclasses.asdict(command), indent=2, ensure_ascii=False), masks)
    made_here.write(run, run / FILE, f"{text}\n".encode())
    for number, config_dir in enumerate(command.config_dirs):
        for path in _configuration(Path(config_dir)):
            copy = run / CONFIG_DIRS / str(number) / path.relative_to(config_dir)
            copy.parent.mkdir(parents=True, exist_ok=True)
            text = path.read_bytes().decode("utf-8", "surrogateescape")
            made_here.write(run, copy, _masked(without_values(text), masks).encode("utf-8", "surrogateescape"))


def _masked(text: str, masks: Iterable[Mask]) -> str:
    for mask in masks:
        text = mask.text(text)
    return text


def _configuration(folder: Path) -> list[Path]:
    """The files of a configuration folder, of all config groups."""
    groups = sorted(group.name for group in CONF.iterdir() if group.is_dir())
    return [path for group in groups for path in sorted((folder / group).rglob("*.yaml")) if path.is_file()]


def kept_folders(command: Command, run: Path) -> list[Path]:
    """The copies of the user's configuration folders. A folder without files has no copy."""
    copies = [run / CONFIG_DIRS / str(number) for number in range(len(command.config_dirs))]
    return [copy for copy in copies if copy.is_dir()]


def files(run: Path) -> list[Path]:
    """The files of a run's folder that have the command: FILE, and the copies of configuration files."""
    return [run / FILE, *sorted(path for path in (run / CONFIG_DIRS).rglob("*") if not path.is_dir())]


def read(run: Path) -> Command:
    """The command of a run.

    Raises:
        ConfigError: the file is missing or damaged.
    """
    path = run / FILE
    try:
        record = parse_json(read_text(path))
        return build(Command, record, "", lambda _: str(path))
    except FileNotFoundError:
        advice = "give a folder such as result/run20260101-120000; a run of an older flagperf kept no command"
        raise ConfigError("no command is kept there", given=run, advice=advice) from None
    except (OSError, ValueError) as error:
        raise ConfigError("the command of this run cannot be read", where=str(path), given=str(error)) from None


def merged_overrides(overrides: Sequence[str], changes: Sequence[str]) -> list[str]:
    """The overrides of a kept command, with changes. A change replaces all overrides of its key."""
    replaced = {*map(key_of, changes), *NEW}
    return [*(override for override in overrides if key_of(override) not in replaced), *changes]


def key_of(override: str) -> str:
    """The key of an override: of `+submit=true` and `++submit=true` that of `submit=true`."""
    return override.partition("=")[0].strip().lstrip("+~")
