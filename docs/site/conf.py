"""Settings of Sphinx for the documentation site; `make docs` builds the site in English and in Chinese.

The pages are plain CommonMark files of the repository, so that GitHub shows them, too. Sphinx reads the files in place:
the source folder is the repository. The tag `zh` selects the Chinese pages, which lie in docs/zh/.
"""

from __future__ import annotations

import logging
import re
import sys
from pathlib import Path

import jieba
import yaml
from sphinx.application import Sphinx

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]
sys.path.insert(0, str(FOLDER))
from translations import contents  # noqa: E402

jieba.setLogLevel(logging.WARNING)  # it tells of its dictionary at each start

chinese = tags.has("zh")  # type: ignore[name-defined]  # noqa: F821  # Sphinx defines `tags`
_toc = yaml.safe_load((FOLDER / "toc.yml").read_text(encoding="utf-8"))

project = "flagperf"
language = "zh_CN" if chinese else "en"
locale_dirs = ["docs/site/locale"]
extensions = ["myst_parser", "sphinx_external_toc"]
exclude_patterns = ["**/.*", "**/build", "**/result", "tests", "flagperf", "benchmarks"]
include_patterns = ["README.zh.md", "docs/zh/**.md"] if chinese else ["*.md", "docs/**.md", "vendors/**.md"]
if not chinese:
    exclude_patterns += ["docs/zh", "README.zh.md"]
myst_heading_anchors = 4  # links name headings as GitHub does
suppress_warnings = [
    "myst.xref_missing"
]  # links between the languages, and to folders; tests/test_docs.py checks links

external_toc_path = str(ROOT / "build/docs" / f"toc-{language}.yml")
Path(external_toc_path).parent.mkdir(parents=True, exist_ok=True)
Path(external_toc_path).write_text(
    yaml.safe_dump(contents(_toc, chinese=chinese), allow_unicode=True), encoding="utf-8"
)

highlight_language = "text"  # of blocks that name no language: output of a terminal
html_theme = "furo"
html_title = "flagperf"
html_search_language = "zh" if chinese else "en"
html_search_scorer = str(FOLDER / "scorer.js")
html_show_sphinx = False
html_show_copyright = False
html_copy_source = False
html_use_index = False  # no page has entries of an index
html_show_search_summary = False  # a page that is opened as a file may not fetch other files
html_static_path = ["static"]
html_css_files = ["pages.css"]
html_js_files = ["search.js"] if chinese else []
templates_path = ["templates"]
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "language.html",
        "sidebar/search.html",
        "sidebar/scroll-start.html",
        "sidebar/navigation.html",
        "sidebar/scroll-end.html",
    ]
}
html_context = {"chinese": chinese}

CHINESE = "[\u3000-\u9fff\uff00-\uffef]"
LINE_END = re.compile(f"(?<={CHINESE})\n *(?={CHINESE})")  # a browser shows it as a space, which Chinese does not have
OTHER_LANGUAGE = re.compile(r"^\[(中文|English)\]\(\S+\)\n", re.MULTILINE)  # each page of the site has this link


def setup(app: Sphinx) -> None:
    """Leave out what only GitHub needs: a link to the other language, and line ends in Chinese paragraphs."""
    app.connect("source-read", _as_of_site)


def _as_of_site(_app: Sphinx, _page: str, source: list[str]) -> None:
    source[0] = LINE_END.sub("", OTHER_LANGUAGE.sub("", source[0]))
