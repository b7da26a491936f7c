"""Shared by all tests: which skips are allowed, and a clean environment."""

from __future__ import annotations

import os

import pytest

ALLOWED_SKIPS = ("needs a GPU",)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """In CI a test that should run there must not be skipped."""
    if not os.environ.get("FLAGPERF_CI"):
        return
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    reasons = [report.longrepr[2] for report in reporter.stats.get("skipped", [])]
    forbidden = [reason for reason in reasons if not any(allowed in reason for allowed in ALLOWED_SKIPS)]
    if forbidden:
        reporter.write_line(f"skipped although CI must run them: {sorted(set(forbidden))}", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
