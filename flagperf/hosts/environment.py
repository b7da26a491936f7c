"""Asks a Python interpreter whether the ranks have all packages that they need: here, on a host or in a container."""

from __future__ import annotations

import ast
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from flagperf.config.parts.needs import Needs
from flagperf.contract.command import Command
from flagperf.errors import HostError
from flagperf.hosts import versions
from flagperf.hosts.transport import Transport

LOOK_TIMEOUT = 30.0  # seconds, for starting an interpreter once


def query_argv(python: str, needs: Needs) -> tuple[str, ...]:
    """The argv that makes an interpreter print its packages: one process, which imports no framework."""
    source = Path(versions.__file__).read_text(encoding="utf-8")
    return (python, "-c", source, ",".join(needs.modules), *needs.package_names)


async def ask(
    transport: Transport, python: str, needs: Needs, advice: str, wrapper: tuple[str, ...] = ()
) -> dict[str, str]:
    """Versions of Python and of the framework's packages in an environment of a host.

    Args:
        python: the interpreter of the environment.
        advice: the advice in the error message.
        wrapper: a command in front of the interpreter that enters a container.

    Raises:
        HostError: the interpreter is missing, or packages are missing; the message lists all of them.
    """
    if transport.local and python == sys.executable and not wrapper:  # this process knows the answer
        missing = versions.missing(needs.modules)
        return require(transport.host, python, needs, missing, own_versions(needs), advice)
    completed = await transport.run(Command((*wrapper, *query_argv(python, needs))), timeout=LOOK_TIMEOUT)
    output = completed.stdout + completed.stderr
    return parse_answer(transport.host, python, needs, completed.exit_status, output, advice)


def own_versions(needs: Needs) -> dict[str, str]:
    """Versions of the packages in the environment of this process."""
    return versions.versions(needs.package_names)


def parse_answer(host: str, source: str, needs: Needs, status: int | None, output: str, advice: str) -> dict[str, str]:
    """The versions in the output of `query_argv`. `source`: the interpreter or image, for the message.

    Raises:
        HostError: the interpreter did not start, or packages are missing.
    """
    lines = output.strip().splitlines() or ["no output"]
    answer = next((line for line in lines if line.startswith("{'missing'")), None)
    if status != 0 or answer is None:
        raise HostError(host, f"{source}: Python does not start there: {lines[-1]}", advice=advice)
    parsed = ast.literal_eval(answer)
    return require(host, source, needs, parsed["missing"], parsed["versions"], advice)


def require(
    host: str, source: str, needs: Needs, missing: Sequence[str], installed: Mapping[str, str], advice: str
) -> dict[str, str]:
    """The versions of Python and of the framework's packages.

    Raises:
        HostError: modules are missing, or packages are too old.
    """
    if unmet := needs.unmet(missing, installed):
        raise HostError(host, f"{source} has {'; '.join(unmet)}", advice=advice)
    return {name: installed[name] for name in ("python", *needs.packages)}
