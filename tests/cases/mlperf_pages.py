"""What MLPerf's own compliance checker says of the cases that its rules know.

    python tests/cases/mlperf_pages.py             renews the part `mlperf` of their pages
    python tests/cases/mlperf_pages.py --check     changes nothing; fails when a page is out of date

A log here is what the sink makes of a full-size training's events: its first evaluation reaches the target.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml
from mlperf_logging.compliance_checker import mlp_compliance

from flagperf.config.compose import compose
from flagperf.config.files.search_path import CONF
from flagperf.contract.perflog import Event
from flagperf.trainer.sinks.mllog import MLLog

PAGES = Path(__file__).parents[2] / "docs" / "cases"
PART = re.compile(r"(?<=<!-- mlperf -->\n).*?(?=<!-- /mlperf -->)", re.DOTALL)
TOLD = ["mlperf.org=Example", "mlperf.status=research"]  # what only the user knows
CASES = sorted(
    str(path.relative_to(CONF / "model").with_suffix(""))
    for path in (CONF / "model").glob("**/*.yaml")
    if "\nmlperf:" in path.read_text(encoding="utf-8")
)


def main(words: list[str]) -> int:
    old = {case: page(case).read_text(encoding="utf-8") for case in CASES}
    changed = {case: text for case in CASES if (text := renewed(case)) != old[case]}
    for case, text in changed.items():
        print(f"{'out of date' if '--check' in words else 'renewed'}: {page(case)}")
        if "--check" not in words:
            page(case).write_text(text, encoding="utf-8")
    return 1 if changed and "--check" in words else 0


def page(case: str) -> Path:
    return PAGES / f"{case}.md"


def renewed(case: str) -> str:
    """The text of a case's page with what the checker says now."""
    text, count = PART.subn(lambda _: part(case), page(case).read_text(encoding="utf-8"))
    if count != 1:
        raise SystemExit(f"{page(case)}: wants one part between <!-- mlperf --> and <!-- /mlperf -->")
    return text


def part(case: str) -> str:
    """What the checker says of a case in both divisions."""
    mlperf, manual = stated(case), "../" * (1 + case.count("/")) + "mlperf.md"
    said = f"[With `sinks=[mllog]`]({manual}) it writes a log of MLPerf's `{mlperf['benchmark']}`, "
    said += f"rules {mlperf['ruleset']}. Open division: {told(case, 'open')}. Closed division: {told(case, 'closed')}."
    return textwrap.fill(said, 140, break_on_hyphens=False, break_long_words=False) + "\n"


def told(case: str, division: str) -> str:
    """The checker's answer in words, with every key that a log lacks and every value that breaks a rule."""
    with TemporaryDirectory() as folder:
        found = problems(write_log(case, division, Path(folder)), stated(case)["ruleset"])
    missing = [f"`{key}`" for key, message in found.items() if message.startswith("Required")]
    broken = [f"`{key}` (`{rule}`)" for key, message in found.items() for rule in broken_rules(message)]
    parts = [f"{word} {', '.join(keys)}" for word, keys in (("lacks", missing), ("breaks the rule of", broken)) if keys]
    return "; ".join(parts) or "SUCCESS"


def broken_rules(message: str) -> list[str]:
    """The conditions that a message of the checker says were not met."""
    return [rule.strip() for rule in re.findall(r"(?:failed test: |Failed checks for \w+ : )(.*)", message)]


def stated(case: str) -> Mapping[str, Any]:
    """What the case's file says of MLPerf."""
    found: Mapping[str, Any] = yaml.safe_load((CONF / "model" / f"{case}.yaml").read_text(encoding="utf-8"))["mlperf"]
    return found


def problems(log: Path, ruleset: str) -> dict[str, str]:
    """What the checker has against a log: key → message."""
    checker = mlp_compliance.make_checker("training", ruleset, quiet=False, werror=False)
    checker.check_file(str(log), f"training_{ruleset}/common.yaml")
    others = {re.split(r"[ :]", text.removeprefix("Failed checks for "))[0]: text for text in checker.not_overwritable}
    return {**checker.overwritable, **others}


def write_log(case: str, division: str, folder: Path) -> Path:
    """The log of a training of one epoch that reaches the case's target."""
    config = compose(
        [f"model={case}", "size=full", "data_dir=/data", "dry_run=true", f"mlperf.division={division}", *TOLD]
    ).config
    sink = MLLog(folder)
    for number, (name, value) in enumerate(events(case, config)):
        sink.write(Event(name, value, "a.py", number, 1_000 * number))
    return folder / "mllog.log"


def events(case: str, config: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    goal = config["target"]
    fingerprint = yaml.safe_load((CONF / "fingerprint" / f"{case}.yaml").read_text(encoding="utf-8"))["full"]
    built = {"data": config["data"]["extent"], **{name: fingerprint[name] for name in ("network", "optimizer")}}
    reached = {goal["metric"]: goal["value"], **goal.get("also", {})}
    step = {"step": 1, "epoch": 1, "throughput": 9.0, "loss": 1.0, "learning_rate": config["lr"]}
    return [
        ("SUBMIT_INFO", {"vendor": "cpu", "case": case, "config": config}),
        ("INIT_START", {}),
        ("BUILT", built),
        ("INIT_END", {}),
        ("TRAIN_START", {}),
        ("EPOCH_BEGIN", {"epoch": 1}),
        ("STEP_BEGIN", {"step": 1}),
        ("STEP_END", step),
        ("EVALUATE", {"step": 1, "samples": 9, "time": 0.5, **reached}),
        ("EPOCH_END", {"epoch": 1}),
        ("TRAIN_END", {}),
        ("FINISHED", {"converged": True}),
    ]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
