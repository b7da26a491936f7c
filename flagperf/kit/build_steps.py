"""What the build of an image downloads, read from the lines of its Dockerfile."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from flagperf.config.parts.image import DOCKERFILE, MORE_REQUIREMENTS, REQUIREMENTS, build_context
from flagperf.config.schema.platform import Image

ARGUMENT = re.compile(r"ARG\s+(?P<name>\w+)=(?P<value>\S+)")
FROM = re.compile(r"FROM\s+(?:--\S+\s+)*(?P<image>\S+)")
COPY_FROM = re.compile(r"COPY\s+--from=(?P<image>\S*[/:.]\S*)")
SYSTEM = re.compile(r"\b(?:apt-get|apt|dnf|yum|apk|zypper)\s+(?:-\S+\s+)*(?:install|add)\s+(?P<words>[^&|;]+)")
PIP = re.compile(r"\bpip3?\s+(?:install|download|wheel)\b(?P<words>[^&|;]*)")
INDEX = re.compile(r"--(?:extra-)?index-url[= ](\S+)")
GIT = re.compile(r"\bgit\s+clone\b[^&|;]*?\s(?P<url>\w+://\S+|\S+@\S+:\S+)|(?P<line>git\+\S+)")
FILE = re.compile(r"\b(?:curl|wget|ADD)\b[^&|;]*?(?P<url>https?://\S+)")


@dataclass(frozen=True)
class Download:
    """Something that comes from a network.

    Args:
        kind: image, packages (of the system), pip, git or file.
        names: names of the things.
        where: the place that has them, for a reader.
    """

    kind: str
    names: str
    where: str


def build_downloads(image: Image) -> Iterator[Download]:
    """What the build of an image downloads, in the order of its Dockerfile."""
    assert image.folder is not None
    text = (image.folder / DOCKERFILE).read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    values = {"BASE_IMAGE": image.source.base or ""}
    for step in "\n".join(lines).replace("\\\n", " ").splitlines():
        if match := ARGUMENT.match(step):
            values[match["name"]] = values.get(match["name"]) or match["value"]
        yield from _of_step(step, values, image)


def _of_step(step: str, values: dict[str, str], image: Image) -> Iterator[Download]:
    if match := FROM.match(step) or COPY_FROM.match(step):
        name = re.sub(r"\$\{?(\w+)\}?", lambda name: values.get(name[1], name[0]), match["image"])
        yield Download("image", name, registry(name))
    for match in SYSTEM.finditer(step):
        words = [word for word in match["words"].split() if not word.startswith("-")]
        yield Download("packages", ", ".join(words), "the package index of the base image's system")
    for match in PIP.finditer(step):
        yield Download("pip", ", ".join(_requirements(image)), _index(match["words"], image))
    for match in GIT.finditer(step):
        yield Download("git", match["url"] or match["line"], "its URL")
    for match in FILE.finditer(step):
        yield Download("file", match["url"], "its URL")


def registry(name: str) -> str:
    """The registry of an image's name: docker.io where the name has none."""
    first, slash, _ = name.partition("/")
    return first if slash and (set(first) & {".", ":"} or first == "localhost") else "docker.io"


def _requirements(image: Image) -> list[str]:
    """The lines of both requirements files of a build."""
    assert image.folder is not None
    context = build_context(image.folder, image.source, image.extra)
    contents = (context[name] for name in (REQUIREMENTS, MORE_REQUIREMENTS))
    texts = (part.read_text(encoding="utf-8") if isinstance(part, Path) else part.decode() for part in contents)
    lines = (line.split("#")[0].strip() for text in texts for line in text.splitlines())
    return [line for line in lines if line and not line.startswith("-")]


def _index(words: str, image: Image) -> str:
    named = [image.settings.index] if image.settings.index else ["the base image's own index of pip, else pypi.org"]
    return " and ".join([*named, *INDEX.findall(words)])
