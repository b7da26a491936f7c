"""Finds the packages that the ranks of a job need: lowest versions of the framework's file, the vendor's plug-in."""

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
from flagperf.contract.sample_data import is_sample_folder
from flagperf.contract.sent_code import package_folder

DISTRIBUTIONS = {"PIL": "pillow", "sklearn": "scikit-learn"}  # name in an import → name of the package


@dataclass(frozen=True)
class Needs:
    """Packages that the ranks of one job need."""

    case: str
    modules: tuple[str, ...] = ()  # required modules, such as the vendor's plug-in
    packages: tuple[str, ...] = ()  # packages whose versions are reported
    lowest: Mapping[str, str] = field(default_factory=dict)  # package, or "python" → lowest version
    version: str | None = None  # requested version of the framework
    requirements: Mapping[str, str] = field(default_factory=dict)  # line of a requirements file → key with this line

    @property
    def package_names(self) -> tuple[str, ...]:
        """All packages whose versions are needed."""
        lowest = (name for name in self.lowest if name != "python")
        return tuple(dict.fromkeys((*self.packages, *lowest, *map(package_of, self.requirements))))

    def unmet(self, missing: Sequence[str], versions: Mapping[str, str]) -> list[str]:
        """Missing or too old packages, each as words that follow "has".

        Args:
            missing: missing modules.
            versions: package, or "python" → installed version.
        """
        problems = [f"no module {name}" for name in missing]
        if missing and missing[0] == self.modules[0]:  # without the framework, the environment is a wrong one
            return problems
        for name, lowest in self.lowest.items():
            version = versions.get(name, ABSENT)
            if version == ABSENT:
                problems.append(f"no {name} ({self.case} needs {lowest} or newer)")
            elif is_older(version, lowest):
                problems.append(f"{name} {version} ({self.case} needs {lowest} or newer)")
        for requirement, key in self.requirements.items():
            name = package_of(requirement)
            version = versions.get(name, ABSENT)
            if not satisfies(version, requirement):
                installed = f"no {name}" if version == ABSENT else f"{name} {version}"
                problems.append(f"{installed}, where {key} asks for {requirement}")
        package = next((name for name in self.packages if versions.get(name, ABSENT) != ABSENT), None)
        if self.version and package:
            wanted = numbers(self.version)
            if numbers(versions[package])[: len(wanted)] != wanted:
                problems.append(f"{package} {versions[package]}, where framework.version={self.version} was asked for")
        return problems


def needs_of(job: JobConfig, *, sample: bool | None = None) -> Needs:
    """The packages that the ranks of a job need. `sample`: whether they write sample data; None: as the job says."""
    framework = job.framework
    writes = is_sample_folder(job.config) if sample is None else sample
    used = {DISTRIBUTIONS.get(name, name).replace("-", "_") for name in _packages(job.config, framework, sample=writes)}
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
    """The vendor's packages, unless a build installs them: line → key. Options of pip are left out."""
    if job.image is not None and job.image.policy == "build":
        return {}
    entry = entry_of(job.vendor, job.framework)[0]
    source = job.vendor.image.get(entry)
    requirements = dict.fromkeys(job.vendor.extension.requirements, "vendor.extension.requirements")
    if source and job.image is None:  # a ready image is refused with requirements
        requirements |= dict.fromkeys(source.requirements, f"vendor.image.{entry}.requirements")
    return {line: key for line, key in requirements.items() if not line.startswith("-")}


def _plugin(job: JobConfig) -> list[str]:
    """The vendor's plug-in, unless the user's own code has it, which is sent later."""
    name = job.vendor.plugin
    is_own_code = name is not None and any(any(folder.glob(f"{name.partition('.')[0]}*")) for folder in job.code_dirs)
    return [] if name is None or is_own_code else [name]


def _packages(config: Mapping[str, Any], framework: Framework, *, sample: bool) -> Iterator[str]:
    """The packages of a case's parts, and the packages that the case's own code imports."""
    parts = [config.get(part) for part in framework.parts]
    for target in targets([*parts, *([(config.get("data") or {}).get("sample")] if sample else [])]):
        yield target.partition(".")[0]
        if target.startswith("cases."):
            yield from _libraries(target)


@cache
def _libraries(target: str) -> tuple[str, ...]:
    """The packages that a class or function of `cases` imports. Cached for all hosts."""
    return tuple(_imported(target, set()))


def _imported(target: str, visited: set[str]) -> Iterator[str]:
    """The packages that a class or function of `cases` imports, also in the code of `cases` that it uses.

    Other classes and functions of its module are left out.
    """
    module, _, name = target.rpartition(".")
    path = Path(package_folder("cases").parent, *module.split(".")).with_suffix(".py")
    if target in visited or not path.is_file():
        return
    visited.add(target)
    for node in _used(ast.parse(path.read_text(encoding="utf-8")).body, name):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.partition(".")[0]
            if node.module.startswith("cases."):
                for alias in node.names:
                    yield from _imported(f"{node.module}.{alias.name}", visited)


def _used(body: Sequence[ast.stmt], name: str) -> list[ast.AST]:
    """The nodes of a module's statements, of its class or function `name`, and of those that it uses."""
    definitions = {part.name: part for part in body if isinstance(part, (ast.FunctionDef, ast.ClassDef))}
    nodes: list[ast.AST] = [part for part in body if part not in definitions.values()]
    nodes += [definitions.pop(name)] if name in definitions else []
    for node in nodes:  # the list grows
        nodes += ast.iter_child_nodes(node)
        if isinstance(node, ast.Name) and node.id in definitions:
            nodes.append(definitions.pop(node.id))
    return nodes
