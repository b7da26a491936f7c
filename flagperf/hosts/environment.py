"""Whether the ranks find what they need where they run: asked of an interpreter, here, on a host or in a container."""

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


def question(python: str, needs: Needs) -> tuple[str, ...]:
    """The argv with which an interpreter tells what it has: one process, which imports no framework."""
    source = Path(versions.__file__).read_text(encoding="utf-8")
    return (python, "-c", source, ",".join(needs.modules), *needs.asked)


async def ask(
    transport: Transport, python: str, needs: Needs, advice: str, wrapper: tuple[str, ...] = ()
) -> dict[str, str]:
    """Versions of Python and of the framework's packages in an environment of a host.

    Args:
        python: its interpreter.
        advice: what to do where the environment lacks something.
        wrapper: the command before it that leads into a container.

    Raises:
        HostError: the interpreter is not there, or it lacks something that the ranks need; with all that it lacks.
    """
    if transport.local and python == sys.executable and not wrapper:  # it need not be started to know
        return checked(transport.host, python, needs, versions.missing(needs.modules), own_versions(needs), advice)
    done = await transport.run(Command((*wrapper, *question(python, needs))), timeout=LOOK_TIMEOUT)
    return answered(transport.host, python, needs, done.exit_status, done.stdout + done.stderr, advice)


def own_versions(needs: Needs) -> dict[str, str]:
    """What this process's own environment holds."""
    return versions.versions(needs.asked)


def answered(host: str, what: str, needs: Needs, status: int | None, output: str, advice: str) -> dict[str, str]:
    """The versions that an interpreter told. `what`: the interpreter or image that was asked, for the message.

    Raises:
        HostError: it did not start, or lacks something.
    """
    lines = output.strip().splitlines() or ["no output"]
    answer = next((line for line in lines if line.startswith("{'missing'")), None)
    if status != 0 or answer is None:
        raise HostError(host, f"{what}: Python does not start there: {lines[-1]}", advice=advice)
    told = ast.literal_eval(answer)
    return checked(host, what, needs, told["missing"], told["versions"], advice)


def checked(
    host: str, what: str, needs: Needs, missing: Sequence[str], found: Mapping[str, str], advice: str
) -> dict[str, str]:
    """The versions of Python and the framework's packages, where nothing is lacking.

    Raises:
        HostError: something is.
    """
    if unmet := needs.unmet(missing, found):
        raise HostError(host, f"{what} has {'; '.join(unmet)}", advice=advice)
    return {name: found[name] for name in ("python", *needs.packages)}
