"""Shell completion: the possible words at the cursor. Hydra writes the shells' scripts, which call this module."""

from __future__ import annotations

import itertools
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from flagperf.cli.help import DEFAULT, OPTIONS, verbs, words_of
from flagperf.config.files.search_path import CONF, cases, find, options, search_path
from flagperf.config.parts import batch_size
from flagperf.config.schema.keys import GROUPS, KEYS, PARTS, SCALE
from flagperf.contract.regular import read_yaml
from flagperf.run.folder import RESULTS, RUN_LOG
from flagperf.user import user_path

OF_JOBS = ("compare", "docs")  # verbs that take several folders of runs or jobs
FOLDERS = ("code_dir", "data_dir", "into", "render", "result_dir", "resume", "sample_dir", "source")  # keys of folders
QUERY = re.compile(r"query=(\w+)")


def main(argv: Sequence[str]) -> NoReturn:
    """Install completion, or answer a shell that asks for words."""
    if shell := next((match[1] for word in argv if (match := QUERY.fullmatch(word))), None):
        print(("\n" if shell == "fish" else " ").join(_quietly(os.environ.get("COMP_LINE", ""))))
    else:
        import hydra

        hydra.main(config_path=str(CONF), config_name="config", version_base="1.3")(lambda _: None)()
    sys.exit(0)


def _quietly(line: str) -> list[str]:
    try:
        return complete(line)
    except Exception:  # the prompt is no place for errors in a line or a file
        return []


def complete(line: str) -> list[str]:
    """The possible completions of the last word of a command line."""
    words = line.split()[1:]
    word = words.pop() if words and not line[-1].isspace() else ""
    fitting = {text for text in _choices(words, word) if text.startswith(word)}
    return sorted(fitting, key=lambda text: (text.endswith("="), text))  # verbs and values come before keys


def _choices(words: Sequence[str], word: str) -> Iterator[str]:
    folders = search_path([user_path(folder) for folder in _config_dirs(words)])
    arguments = [other for other in words if not other.startswith("-")]
    verb = arguments[0] if arguments and arguments[0] in verbs() else ""
    called = words_of(verb or DEFAULT)
    if word.startswith("-"):
        yield from re.findall(r"(?<!\S)-[\w-]+", " ".join(name.partition(" install")[0] for name in OPTIONS))
        return
    if not words:
        yield from verbs()
    if verb in OF_JOBS:
        from flagperf.results.summary import FILE

        yield from (*_runs(word, RUN_LOG), *_runs(word, FILE))
    elif "RUN_DIR" in called and len(arguments) == 1:
        yield from _runs(word, RUN_LOG)
    elif verb == "verify" and len(arguments) == 1:
        yield from _bundles(word)
    elif verb == "list":
        yield from cases(folders)
    if word.startswith("runs="):  # of docs and modelzoo
        yield from (f"runs={run}" for run in _runs(word.removeprefix("runs="), RUN_LOG))
    if verb == "list" or (verb and len(arguments) == 1):  # literal words: `data check`, `compare published`
        yield from filter(str.isalpha, filter(str.islower, called[2:]))
    if word or verb not in ("", DEFAULT):
        yield from _keys([name.partition("=")[0] for name in called if "=" in name], words, word, folders)
    if word and "OVERRIDES…" in called:  # without a letter, hundreds of keys would bury the verbs
        keys = (*GROUPS, "framework", SCALE, *KEYS, *_of_case(_chosen(words), folders))
        yield from _keys(keys, words, word, folders)


def _config_dirs(words: Sequence[str]) -> Iterator[str]:
    for before, word in itertools.pairwise(words):
        if before in ("--config-dir", "-cd"):
            yield word


def _runs(word: str, file: str) -> Iterator[str]:
    """Folders that contain this file, below the word so far, or below the default folder of results."""
    for root in {Path(word or RESULTS), Path(word or RESULTS).parent, Path(RESULTS)}:
        yield from (str(path.parent) for path in root.glob(f"*/{file}"))


def _bundles(word: str) -> Iterator[str]:
    """Bundles in the folder of the word so far."""
    from flagperf.bundle.archive import SUFFIX

    folder = Path(word) if word.endswith("/") else Path(word).parent
    yield from (str(path) for path in folder.glob(f"*{SUFFIX}"))


def _folders(written: str) -> Iterator[str]:
    """Folders that complete a path, in the form of the path so far."""
    head, _, name = written.rpartition("/")
    head += "/" if "/" in written else ""
    for path in user_path(head or ".").iterdir():
        if path.is_dir() and path.name.startswith(name) and (name or not path.name.startswith(".")):
            yield f"{head}{path.name}/"


def _keys(keys: Iterable[str], words: Sequence[str], word: str, folders: Sequence[Path]) -> Iterator[str]:
    """`key=` for a word without an equals sign, else the values of the key."""
    plus = word[: len(word) - len(word.lstrip("+"))]
    key, equals, written = word.removeprefix(plus).partition("=")
    if equals and key in FOLDERS and key in keys:
        yield from (f"{plus}{key}={folder}" for folder in _folders(written))
    elif equals:
        yield from (f"{plus}{key}={value}" for value in _values(key, _chosen(words), folders) if key in keys)
    else:
        yield from (f"{plus}{name}=" for name in keys)


def _chosen(words: Iterable[str]) -> dict[str, str]:
    return dict(word.split("=", 1) for word in words if "=" in word)


def _values(key: str, chosen: Mapping[str, str], folders: Sequence[Path]) -> Iterable[str]:
    """The options of a group or of a key; empty where any text or number is allowed."""
    if key == "hardware" and (vendor := chosen.get("vendor")):
        return [name for name in options(key, folders) if _read(f"hardware/{name}", folders).get("vendor") == vendor]
    if key == "model":
        return cases(folders)
    if key in (*GROUPS, "framework"):
        return options(key, folders)
    if key == batch_size.KEY:
        return (batch_size.AUTO,)
    field = KEYS.get(key)
    if field is None:
        return ()
    return ("true", "false") if field.type is bool else field.options


def _of_case(chosen: Mapping[str, str], folders: Sequence[Path]) -> Iterator[str]:
    """The settings in the file of the chosen case."""
    for key, value in _read(f"model/{chosen.get('model', 'resnet50')}", folders).items():
        if not isinstance(value, (dict, list)) and key not in PARTS:
            yield key


def _read(name: str, folders: Sequence[Path]) -> dict[str, object]:
    path = find(name, folders)
    content = read_yaml(path, aliases=True) if path else None
    return content if isinstance(content, dict) else {}
