"""The user of this process on this machine: name, home folder, and the folders in which flagperf keeps files.

A user ID may have no entry in passwd, as in a container that runs as any number. The ID is then the name. HOME may be
missing or empty. XDG's variables name other folders; only an absolute path counts, as its specification says.
"""

from __future__ import annotations

import os
import pwd
from pathlib import Path

from flagperf.errors import ConfigError

NAMES = ("LOGNAME", "USER", "LNAME", "USERNAME")  # variables in which Python's getpass looks before passwd


def name_of(uid: int) -> str:
    """The name of a user; the ID where passwd has no entry."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def name() -> str:
    """The name of this process's user."""
    return next((os.environ[key] for key in NAMES if os.environ.get(key)), name_of(os.getuid()))


def set_for_libraries() -> None:
    """Set the variables without which libraries would find no user: getpass of Python, asyncssh, compilers of torch."""
    if not os.environ.get("HOME"):
        os.environ.pop("HOME", None)  # an empty one would mean the root folder
    os.environ.setdefault("LOGNAME", name())


def home() -> Path:
    """The home folder. Raises ConfigError where neither HOME nor passwd names one."""
    try:
        return Path(os.environ.get("HOME") or pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:
        problem = f"HOME is not set, and user {os.getuid()} has no entry in passwd"
        raise ConfigError(problem, where="the environment", advice="set HOME to a folder of yours") from None


def cache_folder() -> Path:
    """Files that flagperf can make again: sample data, traces. Raises ConfigError without a home folder."""
    return _xdg("XDG_CACHE_HOME", ".cache")


def state_folder() -> Path:
    """Notes that flagperf keeps from command to command. Raises ConfigError without a home folder."""
    return _xdg("XDG_STATE_HOME", ".local/state")


def _xdg(variable: str, usual: str) -> Path:
    given = os.environ.get(variable, "")
    return (Path(given) if given.startswith("/") else home() / usual) / "flagperf"


def user_path(path: str | Path, **details: str) -> Path:
    """The path with ~ and ~name replaced. Raises ConfigError, with these details, where such a home is unknown."""
    first, *rest = Path(path).parts or (".",)
    if not first.startswith("~"):
        return Path(path)
    if first == "~":
        return home().joinpath(*rest)
    try:
        return Path(pwd.getpwnam(first[1:]).pw_dir, *rest)
    except KeyError:
        advice = f"a file of this name is ./{path}"
        raise ConfigError("no such user", given=path, advice=advice, **details) from None
