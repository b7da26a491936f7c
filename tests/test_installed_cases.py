"""Which `cases` is imported: that of an installed flagperf, before a package of others with this name."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from flagperf import installed_cases


@pytest.mark.parametrize(
    ("path", "imported"),
    [
        pytest.param(["site"], "site/flagperf/cases", id="not that of others in site-packages"),
        pytest.param(["other", "site"], "other/cases", id="code_dir lies before flagperf"),
        pytest.param(["empty", "site", "other"], "site/flagperf/cases", id="not one behind flagperf"),
    ],
)
def test_the_cases_of_an_installation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: list[str], imported: str
) -> None:
    for folder in ("site/flagperf/cases", "site/cases", "other/cases"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "__init__.py").touch()
    (tmp_path / "empty/cases").mkdir(parents=True)  # a folder without code, such as one of the user's
    monkeypatch.setattr(installed_cases, "PACKAGE", tmp_path / "site/flagperf")
    monkeypatch.setattr(sys, "path", [str(tmp_path / folder) for folder in path])
    spec = installed_cases.InstalledCases.find_spec("cases")
    assert spec is not None
    assert spec.origin == str(tmp_path / imported / "__init__.py")
    assert installed_cases.InstalledCases.find_spec("casework") is None
