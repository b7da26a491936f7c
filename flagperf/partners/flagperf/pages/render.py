"""Fills a template, and writes the page. Only an earlier page of flagperf is ever replaced."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from flagperf import __version__
from flagperf.config.schema.platform import ImageSource
from flagperf.errors import ConfigError
from flagperf.plain import plain
from flagperf.report.markdown import table

TEMPLATES = Path(__file__).parent / "templates"
CHINESE = {"the CPU of any machine": "任意机器的 CPU", "any CPU": "任意 CPU", "none": "无"}  # titles that are no names
BOUNDS = {"at least": "至少", "at most": "至多"}  # of a target
MARK = "<!-- made by flagperf"  # the beginning of every page


def render(template: str, *, folder: Path = TEMPLATES, **values: Any) -> str:
    """A page in Markdown, from a template of a folder. It may include the templates of this package."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader([folder, TEMPLATES]),
        autoescape=False,  # Markdown is no HTML
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"table": table, "chinese": chinese}
    text = environment.get_template(template).render(mark=f"{MARK} {__version__}", **values)
    return plain(text)


def chinese(text: str) -> str:
    """The title of a vendor or a product, or a target, for a Chinese page. Names are not translated."""
    if text in CHINESE:
        return CHINESE[text]
    for english, word in BOUNDS.items():
        text = text.replace(f" {english} ", f" {word} ")
    return text


def image_text(source: ImageSource, folder: str) -> str:
    """An image as text: its name, its base image, or its Dockerfile."""
    return source.name or (f"在 {source.base} 上构建" if source.base else f"`{folder}/Dockerfile`")


def write(path: Path, text: str) -> None:
    """Write a page and its folders.

    Raises:
        ConfigError: a file exists there that flagperf did not write, or the page cannot be written.
    """
    try:
        if path.exists() and not path.read_text(encoding="utf-8", errors="replace").startswith(MARK):
            advice = "choose another folder with into=, or move the file away"
            raise ConfigError("a file exists there that flagperf did not write", key="into", given=path, advice=advice)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"the page cannot be written: {error.strerror}", key="into", given=path) from None
