"""Verbs of another package: found by an entry point, called and helped as ours; they never take the place of ours."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ENTRIES = """\
[flagperf.verbs]
greet = partner.greet
list = partner.greet
torn = partner.torn
gone = partner.gone
"""
GREET = '''"""flagperf greet: greet a run

usage: flagperf greet RUN_DIR [loud=true]

examples:
  flagperf greet result/run1

exit codes: 0, 42
"""


def main(options):
    print("hello", *options.arguments)
    return 42
'''


@pytest.fixture
def partner(tmp_path: Path) -> Path:
    """A folder with an installed package that has verbs."""
    (tmp_path / "partner-1.dist-info").mkdir()
    (tmp_path / "partner-1.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: partner\nVersion: 1\n")
    (tmp_path / "partner-1.dist-info/entry_points.txt").write_text(ENTRIES)
    (tmp_path / "partner").mkdir()
    (tmp_path / "partner/greet.py").write_text(GREET)
    (tmp_path / "partner/torn.py").write_text("def main(:\n")
    return tmp_path


def flagperf(*words: str, partner: Path) -> tuple[int, str, str]:
    program = "import sys; sys.path.insert(0, sys.argv.pop(1)); from flagperf.cli.main import main; main()"
    command = [sys.executable, "-c", program, str(partner), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def test_it_is_listed_beside_ours(partner: Path) -> None:
    code, shown, errors = flagperf("--help", partner=partner)
    verbs = shown.partition("verbs (")[2].partition("\n\n")[0].splitlines()[1:]
    assert [(code, errors), *(line for line in verbs if line.split()[0] in ("gone", "greet", "list", "torn"))] == [
        (0, ""),
        "  gone      partner.gone has no docstring",
        "  greet     greet a run",
        "  list      show the choices of a kind, a choice, the settings of a case, or the runs of a folder",
        "  torn      partner.torn has no docstring",
    ]


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        pytest.param(["greet", "result"], (42, "hello result\n", ""), id="called"),
        pytest.param(
            ["greet", "--help"],
            (0, GREET.split('"""')[1].replace("exit codes: 0, 42", "exit codes:\n  0   done\n  42  "), ""),
            id="help",
        ),
        pytest.param(["-sc", "query=bash"], (0, "greet gone\n", ""), id="completion"),
    ],
)
def test_it_answers(
    words: list[str], answer: tuple[int, str, str], partner: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COMP_LINE", "flagperf g")
    code, shown, errors = flagperf(*words, partner=partner)
    offered = " ".join(sorted({*shown.split()} & {"greet", "gone"}, reverse=True)) + "\n"
    assert (code, offered if "query=bash" in words else shown, errors) == answer
