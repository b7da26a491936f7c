"""The answer of MLPerf's compliance checker for each case that MLPerf's rules know.

    python tests/cases/mlperf_pages.py             renews the part `mlperf` of the cases' pages
    python tests/cases/mlperf_pages.py --check     changes nothing; fails if a page is out of date

The sink writes each checked log from the events of a full-size training whose first evaluation reaches the target.
"""

from __future__ import annotations

import re
import sys
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
    if re.search(r"^mlperf:(?! {benchmark: null)", path.read_text(encoding="utf-8"), re.MULTILINE)
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
    """The text of a case's page with the checker's current answer."""
    text, count = PART.subn(lambda _: part(case), page(case).read_text(encoding="utf-8"))
    if count != 1:
        raise SystemExit(f"{page(case)}: wants one part between <!-- mlperf --> and <!-- /mlperf -->")
    return text


def part(case: str) -> str:
    """The checker's answers for a case in both divisions, as a sentence and a table."""
    mlperf, manual = stated(case), "../" * (1 + case.count("/")) + "mlperf.md"
    head = f"With [`sinks=[mllog]`]({manual}) the case writes a log of MLPerf's benchmark `{mlperf['benchmark']}`. "
    head += f"MLPerf's checker has these answers (rules {mlperf['ruleset']}):"
    rows = [f"| {division} | {answer(case, division)} |" for division in ("open", "closed")]
    return "\n".join([head, "", "| division | answer |", "|---|---|", *rows]) + "\n"


def answer(case: str, division: str) -> str:
    """The checker's answer, with every missing key and every value that breaks a rule."""
    with TemporaryDirectory() as folder:
        messages = problems(write_log(case, division, Path(folder)), stated(case)["ruleset"])
    missing = [f"`{key}`" for key, message in messages.items() if message.startswith("Required")]
    broken = [f"`{key}` (`{rule}`)" for key, message in messages.items() for rule in broken_rules(message)]
    parts = [f"{word}: {', '.join(keys)}" for word, keys in (("missing", missing), ("broken rules", broken)) if keys]
    return "; ".join(parts) or "SUCCESS"


def broken_rules(message: str) -> list[str]:
    """The broken conditions that a message of the checker names."""
    return [rule.strip() for rule in re.findall(r"(?:failed test: |Failed checks for \w+ : )(.*)", message)]


def stated(case: str) -> Mapping[str, Any]:
    """The key `mlperf` of the case's file."""
    mlperf: Mapping[str, Any] = yaml.safe_load((CONF / "model" / f"{case}.yaml").read_text(encoding="utf-8"))["mlperf"]
    return mlperf


def problems(log: Path, ruleset: str) -> dict[str, str]:
    """The checker's objections to a log: key → message."""
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
