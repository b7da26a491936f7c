"""MLPerf's checker says of the cases what their pages tell: SUCCESS in its open division, what a closed log lacks."""

from __future__ import annotations

import re
from pathlib import Path

import mlperf_pages
import pytest
from mlperf_logging import compliance_checker

# MLPerf's open rules of llama31_8b are a copy of those of cases whose metric is an accuracy: they want a loss below 1.
# The open rules of flux1 name a metric that the closed rules and the reference do not have ("TODO" in their file).
OPEN = {
    "llama3_8b": "broken rules: `eval_accuracy` (`v['value'] < 1.0`)",
    "flux1": "missing: `averaged_validation_loss`",
}


@pytest.mark.parametrize("case", mlperf_pages.CASES)
def test_the_checker_and_the_page_agree(case: str) -> None:
    renew = "renew it: python tests/cases/mlperf_pages.py"
    assert mlperf_pages.renewed(case) == mlperf_pages.page(case).read_text(encoding="utf-8"), renew
    assert mlperf_pages.answer(case, "open") == OPEN.get(case, "SUCCESS")


@pytest.mark.parametrize("case", mlperf_pages.CASES)
def test_a_case_names_the_newest_rules_that_know_its_benchmark(case: str) -> None:
    stated = mlperf_pages.stated(case)
    assert (stated["benchmark"], stated["ruleset"]) == (stated["benchmark"], newest_rules(stated["benchmark"]))


def newest_rules(benchmark: str) -> str:
    """The newest ruleset of the checker that takes the name and has a file for the benchmark."""
    folders = Path(compliance_checker.__file__).parent.glob("training_*.*.[0-9]")
    known = [folder for folder in folders if (folder / f"closed_{benchmark}.yaml").exists()]
    names = [folder.name.removeprefix("training_") for folder in known if benchmark in benchmarks(folder)]
    return max(names, key=lambda name: [int(part) for part in name.split(".")])


def benchmarks(rules: Path) -> list[str]:
    """The names that `submission_benchmark` may have."""
    texts = [path.read_text() for name in ("common", "closed_common") if (path := rules / f"{name}.yaml").exists()]
    found = re.search(r"NAME:\s+submission_benchmark\s+REQ:.*\s+CHECK:.* in \[(.*?)\]", "\n".join(texts))
    return re.findall(r"\w+", found[1]) if found else []
