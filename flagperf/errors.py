"""Every error flagperf raises on purpose.

FlagperfError
├── ConfigError        exit 2   wrong usage or configuration; also a data_dir of the wrong layout
├── HostError          exit 3   a host or its docker cannot be used
├── ResultsError       exit 3   the result folder cannot be written any more
├── NoValidCaseError   exit 4   nothing is left to run
├── TrainingError      exit 5   a training process failed, hung or was lost; a writer of data crashed
├── InterruptedRunError exit 130 Ctrl-C or SIGTERM
└── SeveralErrors      that of the first: several hosts cannot be used

The exit codes are those of docs/results.md. These codes are results and not errors: 6 (a missed target with
require_target=true), 7 and 8 (a decision of `flagperf compare`), 9 (an answer of `flagperf verify`).
Below the CLI nothing calls sys.exit.
"""

from __future__ import annotations

import copyreg
import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

from flagperf.plain import plain
from flagperf.secret import quoted

THIS_MACHINE = "this machine, before any host is reached"  # the place of an error that is no fault of a host
SHORTEST = 3  # least letters of a name whose longer forms count as meant


class FlagperfError(Exception):
    """Base of all errors that are reported without a traceback."""

    exit_code: ClassVar[int] = 1

    def __str__(self) -> str:
        return plain(super().__str__())

    def __reduce__(self) -> tuple[object, ...]:
        """Errors travel between processes whole: pickle would call __init__ with the finished message."""
        return copyreg.__newobj__, (type(self), *self.args), self.__dict__  # type: ignore[attr-defined]


class ConfigError(FlagperfError):
    """Something the user wrote cannot be used.

    Args:
        problem: one sentence about the error.
        where: the file, or "command line".
        key: the configuration key, dotted.
        given: the value found, with *** for its secrets.
        allowed: what would have been accepted.
        advice: what to do next.
    """

    exit_code = 2
    also: tuple[ConfigError, ...] = ()  # what else is wrong at the same place, each on its own

    def __init__(
        self,
        problem: str,
        *,
        where: str = "command line",
        key: str | None = None,
        given: object = None,
        allowed: str | None = None,
        advice: str | None = None,
    ) -> None:
        given = quoted(given, key or "")
        self.problem, self.where, self.key = problem, where, key
        self.given, self.allowed, self.advice = given, allowed, advice
        rows = {"where": where, "key": key, "given": given, "allowed": allowed, "do": advice}
        self.details = {name: str(value) for name, value in rows.items() if value is not None}
        super().__init__(with_details(problem, self.details))

    def within(self, context: str) -> ConfigError:
        """The same error, saying where it came up: in which job of a sweep."""
        problem = f"{context}: {self.problem}"
        return ConfigError(
            problem, where=self.where, key=self.key, given=self.given, allowed=self.allowed, advice=self.advice
        )


class HostError(FlagperfError):
    """A host, its sshd or its docker daemon cannot be used."""

    exit_code = 3
    lost: ClassVar[str] = "host"  # the part that a run loses by this error; "": nothing, the host answers

    def __init__(self, host: str, problem: str, *, advice: str | None = None) -> None:
        self.host, self.problem, self.advice = host, problem, advice
        self.details = {"do": advice} if advice else {}
        super().__init__(with_details(f"{host}: {problem}", self.details))


class JumpError(HostError):
    """The jump host on the way to a host cannot be used. Nothing is known about the host itself."""

    def __init__(self, host: str, problem: str, jump: str, *, advice: str | None = None) -> None:
        super().__init__(host, problem, advice=advice)
        self.jump = jump  # its address


class ResultsError(FlagperfError):
    """The result folder cannot be written any more."""

    exit_code = 3

    def __init__(self, where: str, why: str) -> None:
        advice = "solve this problem, or give the command again with another result_dir"
        problem = "results cannot be written any more; files that were written before stay"
        super().__init__(with_details(problem, {"where": where, "given": why, "do": advice}))


class NoValidCaseError(FlagperfError):
    """Nothing is left to run."""

    exit_code = 4


class TrainingError(FlagperfError):
    """A training process failed; the message names host, rank, cause and its last lines."""

    exit_code = 5


class InterruptedRunError(FlagperfError):
    """The user or the system asked flagperf to stop."""

    exit_code = 130
    word: ClassVar[str] = "interrupted"  # with which every message begins

    def __init__(self, rest: str = "") -> None:
        super().__init__(f"{self.word}{rest}")


class SeveralErrors(FlagperfError):
    """Errors of several hosts in one phase, each with its advice."""

    def __init__(self, problem: str, errors: Sequence[FlagperfError]) -> None:
        self.problem, self.errors = problem, tuple(errors)
        super().__init__("\n".join([f"{problem}:", *map(str, self.errors)]))

    @property
    def exit_code(self) -> int:  # type: ignore[override]  # depends on the errors that this error holds
        """The exit code of the first error."""
        return self.errors[0].exit_code


def with_details(problem: str, details: Mapping[str, str]) -> str:
    """A problem, and below it a line for each detail."""
    return "\n".join([problem, *(f"  {name + ':':9}{text}" for name, text in details.items())])


def near(given: object, known: Iterable[str]) -> list[str]:
    """The known names that were probably meant, at most three, whether in capitals or not.

    The same name, else a name with two neighbouring letters exchanged, else names that end in the given one
    (batch_size, train_batch_size), else the most similar.
    """
    text, names = str(given).lower(), sorted(known, key=lambda name: (name.count("."), name))
    if same := [name for name in names if name.lower() == text]:
        return same[:1]
    if exchanged := [name for name in names if name.lower() in _exchanged(text)]:
        return exchanged[:1]
    if longer := [name for name in names if len(text) >= SHORTEST and name.lower().endswith((f"_{text}", f".{text}"))]:
        return [name for name in longer if name.count(".") == longer[0].count(".")][:3]
    by_lower = {name.lower(): name for name in reversed(names)}
    return [by_lower[name] for name in difflib.get_close_matches(text, sorted(by_lower), n=1)]


def _exchanged(text: str) -> set[str]:
    """The text with each two neighbouring letters exchanged: "lsit" → "list" and others."""
    return {f"{text[:at]}{text[at + 1]}{text[at]}{text[at + 2 :]}" for at in range(len(text) - 1)}


def meant(given: object, known: Iterable[str]) -> str | None:
    """A question after the known names that are near, where one is: "did you mean 'glm'?"."""
    close = near(given, known)
    return f"did you mean {' or '.join(repr(name) for name in close)}?" if close else None


def nearest(given: str, options: Iterable[str]) -> str:
    """Say which option was probably meant, or list them all."""
    known = sorted(set(options))
    return meant(given, known) or f"one of: {', '.join(known)}"
