"""The request of a command to a scheduler. A dry run prints the request, a run executes it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from typing_extensions import override

from flagperf.config.schema.values import JobConfig
from flagperf.hosts.source import Say

if TYPE_CHECKING:  # a dry run needs no such module
    from flagperf.run.command_file import Command

    Launch = Callable[[Sequence[JobConfig], Command], int]  # runs jobs from this launcher; gives the exit code


class Request(Protocol):
    """A request with its text."""

    def text(self) -> str:
        """The text of a dry run."""
        ...

    def execute(self, launch: Launch, say: Say) -> int:
        """Execute the request. Returns the exit code.

        Args:
            launch: runs jobs on hosts that this launcher reaches.
            say: prints a line about each completed step, where this launcher runs no jobs.
        """
        ...


@dataclass(frozen=True)
class Launched(Request):
    """Jobs that this launcher runs. The text is the plan of each job."""

    jobs: Sequence[JobConfig]
    command: Callable[[], Command]  # gives the typed command

    @override
    def text(self) -> str:
        from flagperf.plan.dry_run import dry_run_text

        return "\n".join(dry_run_text(job) for job in self.jobs)

    @override
    def execute(self, launch: Launch, say: Say) -> int:
        from flagperf.config.parts.platform import check_hosts

        for job in self.jobs:
            check_hosts(job)
        return launch(self.jobs, self.command())
