"""Versions of packages, and what a line of a requirements file asks for."""

from __future__ import annotations

import re

ABSENT = "not installed"  # in place of a version


def numbers(version: str) -> tuple[int, ...]:
    """The numbers that a version begins with: 2, 1 and 0 of 2.1.0a0+git."""
    found = re.match(r"\d+(\.\d+)*", version)
    return tuple(map(int, found[0].split("."))) if found else ()


def is_older(version: str, lowest: str) -> bool:
    """Whether a version is older than the lowest that is needed; one that cannot be read is not."""
    found = numbers(version)
    return bool(found) and found < numbers(lowest)


def package_of(requirement: str) -> str:
    """The name of the package that a line of a requirements file asks for; the line where it has none."""
    from packaging.requirements import InvalidRequirement, Requirement  # heavy, and not for every job

    try:
        return Requirement(requirement).name
    except InvalidRequirement:
        return requirement


def satisfies(version: str, requirement: str) -> bool:
    """Whether a version is what a line of a requirements file asks for; one that cannot be read is not."""
    from packaging.requirements import InvalidRequirement, Requirement
    from packaging.version import InvalidVersion

    try:
        wanted = Requirement(requirement)
        return version != ABSENT and wanted.specifier.contains(version, prereleases=True)
    except (InvalidRequirement, InvalidVersion):
        return False
