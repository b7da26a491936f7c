"""Compares versions of packages with lines of a requirements file."""

from __future__ import annotations

import re

ABSENT = "not installed"  # in place of a version


def numbers(version: str) -> tuple[int, ...]:
    """The numbers at the begin of a version: 2, 1 and 0 of 2.1.0a0+git."""
    match = re.match(r"\d+(\.\d+)*", version)
    return tuple(map(int, match[0].split("."))) if match else ()


def is_older(version: str, lowest: str) -> bool:
    """Whether a version is older than the lowest allowed one; false for an unreadable version."""
    known_numbers = numbers(version)
    return bool(known_numbers) and known_numbers < numbers(lowest)


def package_of(requirement: str) -> str:
    """The name of the package in a line of a requirements file; an unreadable line itself."""
    from packaging.requirements import InvalidRequirement, Requirement  # heavy; not every job needs the module

    try:
        return Requirement(requirement).name
    except InvalidRequirement:
        return requirement


def satisfies(version: str, requirement: str) -> bool:
    """Whether a version satisfies a line of a requirements file; false where either is unreadable."""
    from packaging.requirements import InvalidRequirement, Requirement
    from packaging.version import InvalidVersion

    try:
        parsed = Requirement(requirement)
        return version != ABSENT and parsed.specifier.contains(version, prereleases=True)
    except (InvalidRequirement, InvalidVersion):
        return False
