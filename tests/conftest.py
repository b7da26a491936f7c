"""Shared by all tests: which skips are allowed, which tests have a second try, and one thread a process."""

from __future__ import annotations

import gc
import os
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import CHROMIUM, Page, browser

ALLOWED_SKIPS = ("needs a GPU", "no torchao here")  # in no environment of ours: its import warns
REAL_HOSTS = ("cluster", "faults")  # folders of tests whose hosts and deadlines share the machine with other tests
# A collective of PyTorch 2.14.1 crashed in one of ten runs of test_parallel.py; the cause is unknown.
CRASHED = "ended with -11 and no answer"  # toy.fork_ranks: SIGSEGV
SECOND_TRIES = Path(__file__).parents[1] / "build/second-tries"  # names of tests; .ci/run says how many

os.environ.setdefault("OMP_NUM_THREADS", "1")  # tests run side by side; torch would take every core for each of them

# jsonschema compiles 40 grammars for a format that none of our schemas has: a second in each worker.
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]  # its import fails, as jsonschema allows

gc.set_threshold(50_000, 20, 100)  # pytest holds many objects, which Python would go through again and again

_STATE = tempfile.TemporaryDirectory(prefix="flagperf-tests-")
os.environ["XDG_STATE_HOME"] = _STATE.name  # what flagperf notes of the folders that it wrote: not in the user's own

# A shell's background job ignores Ctrl-C, nohup ignores SIGHUP, and all that tests start would do so too.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """A tab of a browser, for the tests of a file."""
    if CHROMIUM is None:
        pytest.skip("needs chromium")
    with browser(tmp_path_factory.mktemp("profile")) as page:
        yield page


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that may take longest begin first, so that no worker has one left at the end while the others wait.

    In CI a test of real hosts that fails is run once more, and so is a test with a crashed rank; the summary names it
    with RERUN.
    """
    items.sort(key=time_limit, reverse=True)
    if os.environ.get("FLAGPERF_CI"):
        for item in items:
            real_hosts = item.path.parent.name in REAL_HOSTS
            item.add_marker(pytest.mark.flaky(reruns=1, **({} if real_hosts else {"only_rerun": CRASHED})))


def pytest_collection_finish() -> None:
    """Where a test file forks ranks: fork the process that they come from, before the first test computes."""
    if toy := sys.modules.get("toy"):
        toy.start_fork_server()


def time_limit(item: pytest.Item) -> float:
    """Seconds of a test's own limit; 0 where it has that of all tests."""
    marker = item.get_closest_marker("timeout")
    return float(marker.args[0]) if marker else 0.0


def skipped(reporter: pytest.TerminalReporter) -> Counter[str]:
    """Reason → how many tests were skipped for it."""
    return Counter(report.longrepr[2] for report in reporter.stats.get("skipped", []))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """One line for each reason of skips; in CI the tests that needed a second try go to a file, for its last line."""
    for reason, count in skipped(terminalreporter).most_common():
        terminalreporter.write_line(f"{count} skipped: {reason.removeprefix('Skipped: ')}")
    again = {report.nodeid for report in terminalreporter.stats.get("rerun", [])}
    if again and os.environ.get("FLAGPERF_CI"):
        SECOND_TRIES.parent.mkdir(exist_ok=True)
        with SECOND_TRIES.open("a") as file:
            file.writelines(f"{name}\n" for name in sorted(again))


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """In CI a test that should run there must not be skipped."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if not os.environ.get("FLAGPERF_CI") or reporter is None:  # a worker of xdist has none; its reports go to the first
        return
    forbidden = [reason for reason in skipped(reporter) if not any(allowed in reason for allowed in ALLOWED_SKIPS)]
    if forbidden:
        reporter.write_line(f"skipped although CI must run them: {sorted(forbidden)}", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
