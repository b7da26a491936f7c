"""What contributors expect of a repository: templates, hooks and citation, which agree with the project."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from pathlib import Path

import yaml

from flagperf import __version__
from flagperf.cli.check_vendor import SCALES

ROOT = Path(__file__).parents[1]
MAKEFILE = (ROOT / "Makefile").read_text()


def test_no_two_files_of_tests_have_one_name() -> None:
    """pytest collects each folder as a place of modules, so two of one name end the collection of all tests."""
    names = Counter(path.name for path in (ROOT / "tests").rglob("test_*.py"))
    assert {name for name, count in names.items() if count > 1} == set()


def test_make_help_names_the_targets() -> None:
    printed = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    named = {word.strip(",") for line in printed.splitlines() for word in re.split(r"\s{3,}", line)[0].split()[1:]}
    internal = {"bare", "clean", "packages", "environments", "help"}
    targets = re.search(r"^\.PHONY: ([^$]*)", MAKEFILE, re.MULTILINE)
    assert targets is not None
    assert set(targets[1].split()) - internal <= named


def test_hooks_run_commands_of_make_check() -> None:
    (local,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    commands = {hook["entry"].replace(".venv/", "$(VENV)/") for hook in local["hooks"]}
    assert {command for command in commands if f"\t{command}" not in MAKEFILE} == set()


def test_the_citation_names_this_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert (citation["version"], citation["license"]) == (__version__, "Apache-2.0")


def test_the_workflow_runs_all_of_ci() -> None:
    (job,) = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())["jobs"].values()
    assert [step["run"] for step in job["steps"] if "run" in step] == ["bash .ci/run"]


def test_a_changed_case_comes_with_flagperfs_evidence() -> None:
    """Logs at three scales, the effect on adapted vendors, and the week of a case, asked for in both languages."""
    template = (ROOT / ".github/pull_request_template.md").read_text()
    scales = re.findall(r"^  \| (\dx\d) \|", template, re.MULTILINE)
    assert [tuple(map(int, scale.split("x"))) for scale in scales] == list(SCALES)
    asked = [line for line in template.splitlines() if line.startswith("- [ ] ")]
    assert [line for line in asked if not re.search(r"[\u4e00-\u9fff]", line)] == []
    assert all(command in template for command in ("`flagperf check model=CASE`", "`flagperf list CASE`"))
