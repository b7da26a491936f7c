"""Does the README of a model folder have the sections that the guide asks for? In Chinese or English."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from flagperf.partners.modelzoo import guide
from flagperf.partners.modelzoo.fault import Fault

HEADING = re.compile(r"^(#{1,6})\s+(.+?)\s*#*$")
FENCE = re.compile(r"^\s*(```|~~~)")


@dataclass(frozen=True)
class Section:
    """A heading with all below it, down to the next one of its level."""

    level: int
    title: str
    body: str


@dataclass(frozen=True)
class Asked:
    """A section that the guide asks for."""

    what: str
    title: str  # pattern
    holds: str = r"\S"  # pattern of what its body must have …
    in_words: str = "content"  # … said in words
    advice: str = "add it"


ABOUT = r"模型|简介|概述|介绍|overview|introduction|about|model"
IN_TABLE = r"(?m)^\s*\|(?!\s*[-:])(.*\|)?\s*[^|]*\d[^|]*\|"
ASKED = (
    Asked("the model and its source", ABOUT, r"https?://", "link to the source"),
    Asked("the data set (how to get and to prepare it)", r"数据|data"),
    Asked(
        "the environment (image, build, start)", r"docker|环境|镜像|environment", r"docker|容器|镜像", "docker image"
    ),
    Asked("how to train", r"启动|训练|运行|train|run|start", r"\bpython3?\s+\S+\.py\b", "command of a run script"),
    Asked("the results of training", r"结果|性能|result|performance", IN_TABLE, "table with a number", "measure them"),
)


def readme_faults(folder: Path) -> Iterator[Fault]:
    """Sections that are missing, or that lack what belongs there."""
    path = folder / guide.README
    if not path.is_file():
        return  # told as a part of the layout
    known = sections(path.read_text(encoding="utf-8-sig", errors="replace"))
    for asked in ASKED:
        mine = [section for section in known if re.search(asked.title, section.title, re.IGNORECASE)]
        if not mine:
            titles = ", ".join(section.title for section in known) or "no heading"
            yield Fault(guide.README, f"no section about {asked.what}: {titles}", asked.what, "add the section")
        elif not any(re.search(asked.holds, section.body, re.IGNORECASE) for section in mine):
            below = " or ".join(repr(section.title) for section in mine)
            yield Fault(
                guide.README, f"no {asked.in_words} below {below}", f"{asked.what}: a {asked.in_words}", asked.advice
            )


def sections(text: str) -> list[Section]:
    """All sections of a Markdown text but that of its title."""
    lines, heads, fenced = text.splitlines(), [], False
    for number, line in enumerate(lines):
        fenced ^= bool(FENCE.match(line))
        if not fenced and (head := HEADING.match(line)):
            heads.append((number, len(head[1]), head[2]))
    found = []
    for place, (number, level, title) in enumerate(heads):
        end = next((other for other, deep, _ in heads[place + 1 :] if deep <= level), len(lines))
        found.append(Section(level, title, "\n".join(lines[number + 1 : end])))
    is_title = found and [section.level for section in found].count(found[0].level) == 1
    return found[1:] if is_title else found
