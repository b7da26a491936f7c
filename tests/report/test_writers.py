"""The writers of reports: those that are built in, a user's own, and what is refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from example_results import CONFIG, a_result

from flagperf import report
from flagperf.cli.main import run_command
from flagperf.config.compose import compose
from flagperf.config.files.search_path import CONF
from flagperf.contract.records import Summary
from flagperf.report.writers import BUILT_IN
from flagperf.results.summary import summary_of

PAGE = Path(__file__).parents[2] / "docs/adding-a-verb.md"
MINE = {"_target_": "mine.CsvReport", "separator": ";"}
BROKEN = {"_target_": "broken.Broken"}


def a_job(*writers: Any) -> Summary:
    return summary_of("resnet50-pytorch-A100x2x8", [a_result()], {**CONFIG, "reports": writers}, ())


@pytest.fixture
def python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of modules: the writer that docs/adding-a-verb.md shows, and one with a bug."""
    folder = tmp_path / "python"
    folder.mkdir()
    shown = re.search(r"^```python\n(class CsvReport.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    assert shown
    (folder / "mine.py").write_text(shown[1])
    (folder / "broken.py").write_text("class Broken:\n    def write(self, run_dir, summaries):\n        return 1 / 0\n")
    (folder / "mine-1.dist-info").mkdir()
    (folder / "mine-1.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1\n")
    (folder / "mine-1.dist-info/entry_points.txt").write_text(
        "[flagperf.reports]\ncsv = mine:CsvReport\nhtml = mine:CsvReport\n"
    )
    monkeypatch.syspath_prepend(str(folder))
    return folder


def test_the_configuration_lists_the_built_in_writers() -> None:
    assert yaml.safe_load((CONF / "config.yaml").read_text())["reports"] == list(BUILT_IN)


@pytest.mark.usefixtures("python")
def test_a_users_own_writer(tmp_path: Path) -> None:
    assert report.write(tmp_path, [a_job(BUILT_IN[0], MINE)]) == [tmp_path / "report.md", tmp_path / "report.csv"]
    assert (tmp_path / "report.csv").read_text() == "resnet50-pytorch-A100x2x8;12345.6\n"


@pytest.mark.usefixtures("python")
def test_a_writer_by_its_name() -> None:
    """That of another package cannot take the name of ours."""
    config = compose(["reports=[csv,html]"]).config
    page = {"_target_": "flagperf.report.page.HtmlReport"}
    assert (config["reports"], config["own"]["classes"]) == ([{"_target_": "mine.CsvReport"}, page], "mine.CsvReport")


@pytest.mark.usefixtures("python")
def test_a_writer_with_a_bug_costs_only_its_file(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert report.write(tmp_path, [a_job(BROKEN, MINE)]) == [tmp_path / "report.csv"]
    (record,) = caplog.records
    assert (record.levelname, record.getMessage()) == (
        "WARNING",
        "Broken wrote no report: ZeroDivisionError: division by zero",
    )
    assert record.exc_info


ALLOWED = "  allowed: a mapping with the class of a writer of reports as _target_, and its arguments\n"


@pytest.mark.usefixtures("python")
@pytest.mark.parametrize(
    ("writer", "message"),
    [
        pytest.param(
            "{_target_: mine.CvsReport}",
            "no such class or function\n  where:   config.yaml\n  key:     reports[0]._target_\n"
            "  given:   mine.CvsReport\n  do:      python -c 'from mine import CvsReport' says why\n",
            id="no such class",
        ),
        pytest.param(
            "report.csv",
            "no writer of reports has this name\n  where:   command line\n  key:     reports\n  given:   report.csv\n"
            "  allowed: one of csv, html, markdown; or the class of a writer as _target_\n",
            id="a file",
        ),
        pytest.param(
            "markdwon",
            "no writer of reports has this name\n  where:   command line\n  key:     reports\n  given:   markdwon\n"
            "  allowed: did you mean 'markdown'?\n",
            id="no such name",
        ),
        pytest.param(
            "5",
            "this names no writer of reports\n  where:   config.yaml\n  key:     reports[0]\n  given:   5\n" + ALLOWED,
            id="a number",
        ),
        pytest.param(
            "{_target_: mine.CsvReport, seperator: x}",
            "the writer of reports cannot be made\n  where:   config.yaml\n  key:     reports[0]\n"
            f"  given:   {{'_target_': 'mine.CsvReport', 'seperator': 'x'}}\n{ALLOWED}"
            "  do:      TypeError: CsvReport.__init__() got an unexpected keyword argument 'seperator'\n",
            id="no such argument",
        ),
        pytest.param(
            "{_target_: builtins.dict}",
            "this is no writer of reports\n  where:   config.yaml\n  key:     reports[0]\n"
            f"  given:   {{'_target_': 'builtins.dict'}}\n{ALLOWED}"
            "  do:      docs/adding-a-verb.md says what a writer of reports is\n",
            id="another class",
        ),
    ],
)
def test_a_wrong_writer_is_refused_before_anything_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], writer: str, message: str
) -> None:
    assert run_command([f"reports=[{writer}]", f"result_dir={tmp_path}/result"]) == 2
    assert capsys.readouterr().err == f"flagperf: {message}"
    assert not (tmp_path / "result").exists()
