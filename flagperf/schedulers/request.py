"""What a command asks of a scheduler: a dry run prints it, a run executes it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from flagperf.config.schema.values import JobConfig
from flagperf.hosts.source import Say

if TYPE_CHECKING:  # a dry run needs no such module
    from flagperf.run.command_file import Command

    Launch = Callable[[Sequence[JobConfig], Command], int]  # runs jobs from this launcher; gives the exit code


class Request(Protocol):
    """What would be done, and how to do it."""

    def text(self) -> str:
        """What a dry run prints."""
        ...

    def execute(self, launch: Launch, say: Say) -> int:
        """Do it; the exit code.

        Args:
            launch: runs jobs whose hosts this launcher reaches.
            say: prints a line; called for each step that was done, where nothing is launched.
        """
        ...


@dataclass(frozen=True)
class Launched:
    """Jobs that this launcher runs itself, on hosts that it reaches. The text is the plan of each."""

    jobs: Sequence[JobConfig]
    command: Callable[[], Command]  # gives what was typed

    def text(self) -> str:
        from flagperf.plan.dry_run import dry_run_text

        return "\n".join(dry_run_text(job) for job in self.jobs)

    def execute(self, launch: Launch, _: Say) -> int:
        from flagperf.config.parts.platform import check_hosts

        for job in self.jobs:
            check_hosts(job)
        return launch(self.jobs, self.command())
