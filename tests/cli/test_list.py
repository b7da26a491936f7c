"""`flagperf list`: names and titles, from shipped files and the user's own."""

from __future__ import annotations

from pathlib import Path

import pytest
from user_folder import TOY, write

from flagperf.cli.list import KINDS, rows


@pytest.mark.parametrize("kind", KINDS)
def test_shipped_choices_have_titles(kind: str) -> None:
    found = rows(kind)
    assert found == sorted(found)
    assert found
    assert [name for name, title in found if not title] == []


@pytest.mark.parametrize(
    ("kind", "file", "text", "row"),
    [
        pytest.param("cases", "model/toy", TOY, ("toy", "a case of the user's own"), id="title"),
        pytest.param(
            "vendors",
            "vendor/acme",
            '# @package _global_\n# flagperf vendor=acme\nvendor:\n  title: "Acme\'s chips"  # all of them\n',
            ("acme", "Acme's chips"),
            id="title below its group",
        ),
        pytest.param(
            "experiments",
            "experiment/night",
            "# @package _global_\n# flagperf +experiment=night\n#\n# What runs at night.\n# Every night.\nrepeat: 3\n",
            ("night", "What runs at night."),
            id="first comment",
        ),
        pytest.param("clusters", "cluster/bad", "nodes: [\n", ("bad", ""), id="not YAML"),
    ],
)
def test_the_users_own(tmp_path: Path, kind: str, file: str, text: str, row: tuple[str, str]) -> None:
    assert row in rows(kind, [write(tmp_path, {file: text})])


def test_a_users_file_replaces_the_shipped_one(tmp_path: Path) -> None:
    mine = write(tmp_path, {"cluster/local": "title: my machine\nnodes: [{address: 127.0.0.1, local: true}]\n"})
    assert ("local", "my machine") in rows("clusters", [mine])
