"""The documents: links lead somewhere, commands are accepted, both READMEs say the same."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from flagperf.cli.help import verbs
from flagperf.config.compose import compose_jobs
from flagperf.config.files.search_path import CONF, family_of
from flagperf.config.files.search_path import cases as cases_of

ROOT = Path(__file__).parents[1]
SITE = ROOT / "docs/site"
sys.path.insert(0, str(SITE))
from translations import contents, originals, translation  # noqa: E402

PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("vendors/**/*.md")])
LINK = re.compile(r"\]\((?!https?://)([^)#]*)(#[^)]*)?\)")
HEADING = re.compile(r"^#+ (.*)", re.MULTILINE)
COMMAND = re.compile(r"(flagperf|make|python|PATH=|PYTHONPATH=)\b")
BLOCK = re.compile(r"^```\w*\n(.*?)^```", re.MULTILINE | re.DOTALL)


def commands(page: str) -> list[list[str]]:
    """The words after `flagperf` of each command line in a README's code blocks."""
    lines = [line for block in BLOCK.findall((ROOT / page).read_text(encoding="utf-8")) for line in block.splitlines()]
    return [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("flagperf")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files(page: Path) -> None:
    links = {(page.parent / file if file else page, anchor) for file, anchor in LINK.findall(_text(page))}
    assert {f"{file}{anchor}" for file, anchor in links if not file.exists() or anchor not in _anchors(file)} == set()


def _text(page: Path) -> str:
    """The page without its code blocks, whose comments would look like headings."""
    return BLOCK.sub("", page.read_text(encoding="utf-8"))


def _anchors(page: Path) -> set[str]:
    """What a link may have after the page: nothing, or a heading as GitHub writes it there."""
    headings = HEADING.findall(_text(page)) if page.suffix == ".md" else []
    return {"", *("#" + re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-") for heading in headings)}


def test_every_case_has_its_page() -> None:
    cases = {Path(family_of(case, (CONF,))) for case in cases_of((CONF,))}
    pages = {path.relative_to(ROOT / "docs/cases").with_suffix("") for path in (ROOT / "docs/cases").glob("**/*.md")}
    assert pages == cases


@pytest.mark.long
def test_the_pages_of_the_cases_are_up_to_date() -> None:
    done = subprocess.run([sys.executable, ROOT / "docs/cases/fill.py", "--check"], capture_output=True, text=True)
    assert (done.stdout + done.stderr, done.returncode) == ("", 0), "renew them: python docs/cases/fill.py"


def test_translations_show_the_same_commands() -> None:
    pairs = {original: translation(original) for original in originals()}
    shown = {str(page): command_lines(page) for pair in pairs.items() for page in pair if page.exists()}
    assert {
        str(page) for original, page in pairs.items() if page.exists() and shown[str(page)] != shown[str(original)]
    } == set()
    assert len(shown[str(ROOT / "README.zh.md")]) > 5


def command_lines(page: Path) -> list[str]:
    """The command lines of a page's code blocks, without their comments."""
    lines = [line for block in BLOCK.findall(page.read_text(encoding="utf-8")) for line in block.splitlines()]
    return [re.split(r"\s+# ", line)[0] for line in lines if COMMAND.match(line)]


def test_the_site_has_every_page() -> None:
    toc = contents(yaml.safe_load((SITE / "toc.yml").read_text(encoding="utf-8")), chinese=False)
    entries = [entry for subtree in toc["subtrees"] for entry in subtree["entries"]]
    patterns = [*(f"{entry['file']}.md" for entry in entries if "file" in entry), f"{toc['root']}.md"]
    listed = {path for pattern in patterns for path in ROOT.glob(pattern)}
    listed |= {path for entry in entries if "glob" in entry for path in ROOT.glob(f"{entry['glob']}/*.md")}
    assert listed == set(PAGES) - {ROOT / "README.zh.md", *ROOT.glob("docs/zh/**/*.md")}


@pytest.mark.parametrize("words", commands("README.md"), ids=" ".join)
def test_the_commands_of_the_readme_are_accepted(words: list[str]) -> None:
    if words and words[0] in verbs():
        return
    if any(word.startswith("+experiment=") for word in words):
        return  # tests/config/test_conf_files.py composes every experiment by the command in its file
    multirun = "-m" in words
    jobs = compose_jobs([word for word in words if word != "-m"], multirun=multirun, config_dirs=[])
    assert len(jobs) > 1 if multirun else len(jobs) == 1
