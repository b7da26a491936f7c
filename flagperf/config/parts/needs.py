"""What the environment of a job's ranks must hold: lowest versions that the framework's file tells, and the plug-in."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from flagperf.config.parts.image import entry_of
from flagperf.config.parts.versions import ABSENT, is_older, numbers, package_of, satisfies
from flagperf.config.schema.platform import Framework
from flagperf.config.schema.values import JobConfig
from flagperf.contract.components import targets
from flagperf.contract.sent_code import package_folder


@dataclass(frozen=True)
class Needs:
    """What the ranks of one job need where they run."""

    case: str
    modules: tuple[str, ...] = ()  # that must be there, such as the vendor's plug-in
    packages: tuple[str, ...] = ()  # whose versions are told
    lowest: Mapping[str, str] = field(default_factory=dict)  # package, or "python" → lowest version
    version: str | None = None  # of the framework, which was asked for
    requirements: Mapping[str, str] = field(default_factory=dict)  # line of a requirements file → key that asks for it

    @property
    def asked(self) -> tuple[str, ...]:
        """All packages whose versions there are to be told."""
        lowest = (name for name in self.lowest if name != "python")
        return tuple(dict.fromkeys((*self.packages, *lowest, *map(package_of, self.requirements))))

    def unmet(self, missing: Sequence[str], versions: Mapping[str, str]) -> list[str]:
        """What is not there, or too old, each in words that follow "has".

        Args:
            missing: modules that are not there.
            versions: package, or "python" → what is there.
        """
        found = [f"no module {name}" for name in missing]
        if missing and missing[0] == self.modules[0]:  # without the framework the environment is another one altogether
            return found
        for name, lowest in self.lowest.items():
            there = versions.get(name, ABSENT)
            if there == ABSENT:
                found.append(f"no {name}, of which {self.case} needs {lowest} or newer")
            elif is_older(there, lowest):
                found.append(f"{name} {there}, of which {self.case} needs {lowest} or newer")
        for wanted, key in self.requirements.items():
            name = package_of(wanted)
            there = versions.get(name, ABSENT)
            if not satisfies(there, wanted):
                found.append(f"{f'no {name}' if there == ABSENT else f'{name} {there}'}, where {key} asks for {wanted}")
        own = next((name for name in self.packages if versions.get(name, ABSENT) != ABSENT), None)
        if self.version and own and numbers(versions[own])[: len(numbers(self.version))] != numbers(self.version):
            found.append(f"{own} {versions[own]}, where framework.version={self.version} was asked for")
        return found


def needs_of(job: JobConfig) -> Needs:
    """What the ranks of a job need."""
    framework = job.framework
    used = set(_packages(job.config, framework))
    lowest = {name: version for name, version in framework.case_needs.items() if name.replace("-", "_") in used}
    return Needs(
        case=job.case,
        modules=(framework.module, *_plugin(job)),
        packages=framework.packages,
        lowest={**framework.needs, **lowest},
        version=framework.version,
        requirements=_requirements(job),
    )


def _requirements(job: JobConfig) -> dict[str, str]:
    """The vendor's packages, where nobody installs them: an image that is built gets them. Options of pip are none."""
    if job.image is not None and job.image.policy == "build":
        return {}
    entry = entry_of(job.vendor, job.framework)[0]
    source = job.vendor.image.get(entry)
    asked = dict.fromkeys(job.vendor.extension.requirements, "vendor.extension.requirements")
    if source and job.image is None:  # a ready image refuses them
        asked |= dict.fromkeys(source.requirements, f"vendor.image.{entry}.requirements")
    return {line: key for line, key in asked.items() if not line.startswith("-")}


def _plugin(job: JobConfig) -> list[str]:
    """The vendor's plug-in, unless the user's own code brings it: that is sent later."""
    name = job.vendor.plugin
    own = name is not None and any(any(folder.glob(f"{name.partition('.')[0]}*")) for folder in job.code_dirs)
    return [] if name is None or own else [name]


def _packages(config: Mapping[str, Any], framework: Framework) -> Iterator[str]:
    """The packages that a case's parts are of, and those that its own code for them imports."""
    for target in targets([config.get(part) for part in framework.parts]):
        yield target.partition(".")[0]
        if target.startswith("cases."):
            yield from _libraries(target)


@cache
def _libraries(target: str) -> tuple[str, ...]:
    """The packages that a class or function of cases imports; read once for all hosts."""
    return tuple(_imported(target, set()))


def _imported(target: str, seen: set[str]) -> Iterator[str]:
    """The packages that a class or function of cases imports, itself or in the code of cases that it uses.

    Other ones of its module are left out: whoever uses one of them need not have what the others import.
    """
    module, _, own = target.rpartition(".")
    path = Path(package_folder("cases").parent, *module.split(".")).with_suffix(".py")
    if target in seen or not path.is_file():
        return
    seen.add(target)
    for node in _used(ast.parse(path.read_text(encoding="utf-8")).body, own):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.partition(".")[0]
            if node.module.startswith("cases."):
                for alias in node.names:
                    yield from _imported(f"{node.module}.{alias.name}", seen)


def _used(body: Sequence[ast.stmt], own: str) -> list[ast.AST]:
    """The nodes of a module's own statements, and of its class or function `own` with those that it uses."""
    named = {part.name: part for part in body if isinstance(part, (ast.FunctionDef, ast.ClassDef))}
    nodes: list[ast.AST] = [part for part in body if part not in named.values()]
    nodes += [named.pop(own)] if own in named else []
    for node in nodes:  # which grows
        nodes += ast.iter_child_nodes(node)
        if isinstance(node, ast.Name) and node.id in named:
            nodes.append(named.pop(node.id))
    return nodes
