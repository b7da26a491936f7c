"""What the notes say of code in the ranks that no package brought."""

from __future__ import annotations

from typing import Any

import pytest

from flagperf.contract.perflog import Event
from flagperf.results.evidence import Evidence
from flagperf.results.rank_log import RankLog
from flagperf.results.took_part import took_part


def evidence(*modules: str, path: tuple[str, ...] = ()) -> Evidence:
    told = {f"/x/{name.replace('.', '/')}.py": {"module": name, "sha256": "0"} for name in modules}
    software: dict[str, Any] = {"modules": told, "python": {"path_of_script": list(path)}}
    config = {"vendor": {"plugin": "torch_acme"}, "extension": {"files": {"acme_kernels/network.py": "0"}}}
    logs = [RankLog(0, "here", 0, (Event("BUILT", {"software": software}),))]
    return Evidence("finished", 1, logs, config=config)


@pytest.mark.parametrize(
    ("given", "notes"),
    [
        pytest.param(evidence("torch_acme", "acme_kernels.network"), [], id="the vendor's own, told elsewhere"),
        pytest.param(
            evidence("sitecustomize", "mine.a", "mine.b"),
            ["code of no installed package in the ranks: sitecustomize, mine"],
            id="foreign",
        ),
        pytest.param(
            evidence(*"abcdefg"),
            ["code of no installed package in the ranks: a, b, c, d, e and 2 more"],
            id="many",
        ),
        pytest.param(
            evidence(path=("/opt/acme",)), ["the environment script lets Python look in /opt/acme"], id="a script"
        ),
    ],
)
def test_notes(given: Evidence, notes: list[str]) -> None:
    assert list(took_part(given)) == notes
