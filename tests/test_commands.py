"""Each run that a document or the head of a shipped file shows is one that flagperf accepts."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from flagperf.cli.help import verbs
from flagperf.config.compose import compose_each, compose_jobs
from flagperf.config.schema.keys import PROBES

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("vendors/**/*.md")]
SHIPPED = [*ROOT.glob("conf/**/*.yaml"), *ROOT.glob("vendors/**/Dockerfile")]
BLOCK = re.compile(r"^```\w*\n(.*?)^```", re.MULTILINE | re.DOTALL)
CLUSTERS = ("lab", "two_nodes")  # names that stand for a cluster of the reader's own
OF_READERS = (
    "--config-dir",
    "…",
    "<TAB>",
    "NAME",
    "result/",
    ".venv",
    "~/",
)  # folders and files that a command would need
WITHOUT_DATA = {f"probe={name}" for name in PROBES}
OF_DOCTOR = ("fabric=true", "offline=true")  # words that doctor takes out


def runs() -> dict[tuple[str, ...], str]:
    """The words of each command that starts a run, or looks at what would be run → the first file that shows it."""
    found: dict[tuple[str, ...], str] = {}
    for path in sorted(PAGES + SHIPPED):
        for line in _lines(path):
            words = shlex.split(re.split(r"\s{3,}|\s#", line)[0])[1:]
            if words[:1] == ["doctor"] or WITHOUT_DATA & set(words):  # which take the words of a run, and need no data
                words = [*(word for word in words[1:] if word not in OF_DOCTOR), "data_dir=/data"]
            if not any(part in line for part in OF_READERS) and (not words or words[0] not in verbs()):
                found.setdefault(tuple(words), str(path.relative_to(ROOT)))
    return found


def _lines(path: Path) -> Iterator[str]:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        text = re.sub(r"\\\n *", " ", "".join(BLOCK.findall(text)))
        yield from (line for line in text.splitlines() if re.match(r"flagperf( |$)", line))
        return
    head = (line for line in text.splitlines()[:3] if line.startswith("# flagperf"))
    yield from (line[2:] for line in list(head)[:1])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A configuration folder with the clusters that the documents speak of."""
    nodes = "\n".join(f"  - {{address: node{index}}}" for index in range(64))
    for name in CLUSTERS:
        (tmp_path / "cluster").mkdir(exist_ok=True)
        (tmp_path / f"cluster/{name}.yaml").write_text(f"title: the reader's\nnodes:\n{nodes}\n")
    return tmp_path


def _refused(commands: dict[tuple[str, ...], str], folder: Path) -> dict[str, str]:
    single = [words for words in commands if "-m" not in words and not any("experiment=" in word for word in words)]
    composed = dict(zip(single, compose_each(single, [folder]), strict=True))
    refused = {words: str(job) for words, job in composed.items() if isinstance(job, Exception)}
    return {f"{commands[words]}: flagperf {shlex.join(words)}": problem for words, problem in refused.items()}


def test_of_the_pages(folder: Path) -> None:
    commands = {words: file for words, file in runs().items() if file.endswith(".md")}
    assert len(commands) > 40
    assert _refused(commands, folder) == {}


@pytest.mark.slow
def test_of_the_heads_of_shipped_files(folder: Path) -> None:
    commands = {words: file for words, file in runs().items() if not file.endswith(".md")}
    assert len(commands) > 300
    assert _refused(commands, folder) == {}


def test_of_several_jobs(folder: Path) -> None:
    """Those of an experiment are composed in tests/config/test_conf_files.py."""
    several = [words for words in runs() if "-m" in words and not any("experiment=" in word for word in words)]
    jobs = [
        compose_jobs([word for word in words if word != "-m"], multirun=True, config_dirs=[folder]) for words in several
    ]
    assert several
    assert [words for words, made in zip(several, jobs, strict=True) if len(made) < 2] == []
