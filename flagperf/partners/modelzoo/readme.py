"""Faults of a model folder's README: the sections that the guide asks for, in Chinese or English."""

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
    """A heading, and the text below it until the next heading of its level."""

    level: int
    title: str
    body: str


@dataclass(frozen=True)
class RequiredSection:
    """A section that the guide asks for."""

    topic: str
    title: str  # pattern
    holds: str = r"\S"  # pattern that its body must match
    in_words: str = "content"  # this pattern in words
    advice: str = "add it"


ABOUT = r"模型|简介|概述|介绍|overview|introduction|about|model"
IN_TABLE = r"(?m)^\s*\|(?!\s*[-:])(.*\|)?\s*[^|]*\d[^|]*\|"
REQUIRED = (
    RequiredSection("the model and its source", ABOUT, r"https?://", "link to the source"),
    RequiredSection("the data set (how to get and to prepare it)", r"数据|data"),
    RequiredSection(
        "the environment (image, build, start)", r"docker|环境|镜像|environment", r"docker|容器|镜像", "docker image"
    ),
    RequiredSection(
        "how to train", r"启动|训练|运行|train|run|start", r"\bpython3?\s+\S+\.py\b", "command of a run script"
    ),
    RequiredSection(
        "the results of training", r"结果|性能|result|performance", IN_TABLE, "table with a number", "measure them"
    ),
)


def readme_faults(folder: Path) -> Iterator[Fault]:
    """Faults: sections that are missing or incomplete."""
    path = folder / guide.README
    if not path.is_file():
        return  # a fault of the layout
    present = sections(path.read_text(encoding="utf-8-sig", errors="replace"))
    for required in REQUIRED:
        matching = [section for section in present if re.search(required.title, section.title, re.IGNORECASE)]
        if not matching:
            titles = ", ".join(section.title for section in present) or "no heading"
            yield Fault(guide.README, f"no section about {required.topic}: {titles}", required.topic, "add the section")
        elif not any(re.search(required.holds, section.body, re.IGNORECASE) for section in matching):
            below = " or ".join(repr(section.title) for section in matching)
            yield Fault(
                guide.README,
                f"no {required.in_words} below {below}",
                f"{required.topic}: a {required.in_words}",
                required.advice,
            )


def sections(text: str) -> list[Section]:
    """All sections of a Markdown text, except the section of its title."""
    lines, headings, fenced = text.splitlines(), [], False
    for number, line in enumerate(lines):
        fenced ^= bool(FENCE.match(line))
        if not fenced and (heading := HEADING.match(line)):
            headings.append((number, len(heading[1]), heading[2]))
    result = []
    for index, (number, level, title) in enumerate(headings):
        end = next((other for other, deep, _ in headings[index + 1 :] if deep <= level), len(lines))
        result.append(Section(level, title, "\n".join(lines[number + 1 : end])))
    is_title = result and [section.level for section in result].count(result[0].level) == 1
    return result[1:] if is_title else result
