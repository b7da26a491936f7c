"""Checks the classes in a configuration. Each `_target_` is code that a rank or the launcher will run."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from flagperf.config.rules.own_code import SHIPPED, STANDARD
from flagperf.config.rules.settable import CaseRules
from flagperf.config.schema.keys import OPEN, is_under
from flagperf.config.schema.platform import Framework
from flagperf.contract.build import Where
from flagperf.contract.leaves import Leaves
from flagperf.contract.mesh import STRATEGIES
from flagperf.errors import ConfigError
from flagperf.user import user_path

OF_DATA = ("data.sample", "data.prepare")  # components of a case, beside the parts of its framework
WRITERS = ("sinks", "reports")  # components that write results; any package may have them
OF_VENDOR = ("vendor.extension.replace",)  # a vendor's own parts; rules/extension.py checks them
STRATEGY = "parallel"  # the vendor's choice among flagperf's strategies
CLASS_PATHS = ("checkpoint_modules", "compile_modules", "float8_modules")  # settings with paths of classes
HARMLESS = tuple(
    f"builtins.{name}" for name in ("complex", "dict", "frozenset", "list", "range", "set", "slice", "tuple")
)
LOOKUPS = tuple(f"hydra.utils.get_{kind}" for kind in ("class", "method", "object"))  # they return the object at `path`
OWN_PACKAGES = ("cases", "flagperf.trainer")
REFERENCE = re.compile(r"\$\{([\w.]+)")


def check_places(tree: Mapping[str, Any], written: Leaves, case: Leaves, rules: CaseRules, where: Where) -> None:
    """Refuse a class where no component is allowed, in either division.

    Args:
        tree: the resolved configuration.
        written: its leaves before ${…} was resolved.
        case: the leaves of the case itself, before ${…} was resolved.
        rules: have the mutable keys, which are values and no code.

    Raises:
        ConfigError: the first such class, or text that a second resolution would turn into a class.
    """
    stated = {text for key, value in case.items() for text in _texts(key, value)}
    below_parts = "framework.parts."
    parts = (*(key.removeprefix(below_parts) for key in case if key.startswith(below_parts)), *OF_DATA)
    referred = set(REFERENCE.findall(" ".join([*written, *map(str, written.values())])))
    for key, value in _texts("", tree):
        parent, _, name = key.rpartition(".")
        if name == "_target_":
            free = parent in (*WRITERS, STRATEGY) or is_under(parent, OF_VENDOR) or (key, value) in stated
            below = is_under(parent, rules.mutable) and not free
            if below or not is_under(parent, (*parts, *WRITERS, *OF_VENDOR, *referred)):
                problem = "no class may stand below a mutable key" if below else "no component stands here"
                places = f"a class in {', '.join((*parts, *WRITERS, *OF_VENDOR))}, or in what ${{…}} there refers to"
                allowed = f"a plain value; {rules.file} lists the mutable keys" if below else places
                raise ConfigError(problem, where=where(key), key=key, given=value, allowed=allowed)
        elif "${" in value and is_under(key, (*parts, *WRITERS, *OF_VENDOR)):
            problem, advice = "after resolution, a text may not contain ${…}", r"write ${…} without \ before it"
            raise ConfigError(problem, where=where(key), key=key, given=value, advice=advice)


def other_libraries(config: Mapping[str, Any], framework: Framework, where: Where) -> Iterator[ConfigError]:
    """Errors for components that are neither from the framework's libraries nor from the case's own code."""
    strategy = config[STRATEGY]["_target_"]
    if strategy is not None and not is_under(strategy, (STRATEGIES,)):
        problem, allowed = "this strategy is not one of flagperf's", f"null, or a class of {STRATEGIES}"
        key = f"{STRATEGY}._target_"
        yield ConfigError(problem, where=where(key), key=key, given=strategy, allowed=allowed, advice=OPEN)
    libraries = (*OWN_PACKAGES, *framework.libraries)
    allowed_paths = (*libraries, *_own_modules(config["code_dir"]), *HARMLESS, *LOOKUPS)
    for key, path in _class_paths("", config):
        if is_under(key, (*framework.parts, *OF_DATA, *CLASS_PATHS)) and not is_under(path, allowed_paths):
            problem = "this class is neither of the case's libraries nor of its own code"
            allowed = f"a class of {', '.join(libraries)}, or of code_dir, PYTHONPATH or the working folder"
            yield ConfigError(problem, where=where(key), key=key, given=path, allowed=allowed, advice=OPEN)


def _own_modules(code_dir: str | None) -> set[str]:
    """Module names in the user's folders of code."""
    code_folders = [folder for folder in (code_dir, *os.environ.get("PYTHONPATH", "").split(os.pathsep)) if folder]
    folders = [Path.cwd(), *(user_path(folder) for folder in code_folders)]
    paths = (
        path
        for folder in folders
        if os.access(folder, os.R_OK | os.X_OK) and folder.is_dir()
        for path in folder.iterdir()
    )
    names = {path.name.split(".")[0] for path in paths if path.is_dir() or path.suffix in (".py", ".so")}
    return names - {*SHIPPED, *STANDARD}


def _class_paths(key: str, value: Any) -> Iterator[tuple[str, str]]:
    """Key and path of each class in a value."""
    if isinstance(value, Mapping):
        lookup = value.get("_target_") in LOOKUPS
        for name, item in value.items():
            below = f"{key}.{name}" if key else str(name)
            if name == "_target_" or below in CLASS_PATHS or (lookup and name in ("path", "_args_")):
                yield from _texts(below, item)
            else:
                yield from _class_paths(below, item)
    for item in value if isinstance(value, list) else ():
        yield from _class_paths(key, item)


def _texts(key: str, value: Any) -> Iterator[tuple[str, str]]:
    """All texts in a value, with dotted keys without list positions: sinks._target_."""
    if isinstance(value, str):
        yield key, value
    for item in value if isinstance(value, list) else ():
        yield from _texts(key, item)
    for name, item in value.items() if isinstance(value, Mapping) else ():
        yield from _texts(f"{key}.{name}" if key else str(name), item)
