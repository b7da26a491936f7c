"""Renews the generated parts of the cases' pages. People write the rest of the pages.

    python docs/cases/fill.py                 from conf/: the data's tree, commands, mutable keys, published results
    python docs/cases/fill.py RUN_FOLDER…     also takes in the results of these runs
    python docs/cases/fill.py --check         changes nothing; fails if a page is out of date

A generated part stands between `<!-- name -->` and `<!-- /name -->`. Only this script writes docs/cases/measured.json,
which keeps the measured figures. A new result replaces the result with the same machine, configuration and
hyper-parameters.
"""

from __future__ import annotations

import json
import re
import sys
import textwrap
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from flagperf.config.compose import compose
from flagperf.config.files.search_path import CONF, family_of, options
from flagperf.contract.records import Summary
from flagperf.report.cells import ABSENT, percent, row
from flagperf.report.files import read_run
from flagperf.report.markdown import table
from flagperf.results.summary import usable, verdict

FOLDER = Path(__file__).parent
MEASURED = FOLDER / "measured.json"
QUESTIONS = FOLDER.parent / "questions.md"
SCALES = {"1x1": "nproc=1", "1x8": "nproc=8", "2x8": "nnodes=2 nproc=8 cluster=lab"}
SAME = ("machine", "size", "config", "precision", "fix_hp", "notes")  # what makes two results one row

CHANGED = {"train_batch_size": "bs", "lr": "lr"}  # settings that published results differ in, and their short names

Row = dict[str, str]


def main(words: list[str]) -> int:
    check, folders = "--check" in words, [Path(word) for word in words if word != "--check"]
    measured: dict[str, list[Row]] = json.loads(MEASURED.read_text(encoding="utf-8"))
    for summary in (summary for folder in folders for summary in read_run(folder)):
        take_in(measured.setdefault(summary.config["case"], []), summary)
    texts = {MEASURED: json.dumps(dict(sorted(measured.items())), indent=1, ensure_ascii=False) + "\n"}
    texts |= {page: filled(page, measured.get(page.stem, [])) for page in sorted(FOLDER.glob("*.md"))}
    texts[QUESTIONS] = with_part(QUESTIONS, QUESTIONS.read_text(encoding="utf-8"), "full_runs", full_runs())
    changed = [path for path, text in texts.items() if path.read_text(encoding="utf-8") != text]
    for path in changed:
        print(f"{'out of date' if check else 'renewed'}: {path}")
        if not check:
            path.write_text(texts[path], encoding="utf-8")
    return 1 if check and changed else 0


def take_in(rows: list[Row], summary: Summary) -> None:
    """Add a job's row and remove the older row of the same kind. Only VALID jobs count."""
    if verdict(summary) != "VALID":
        print(f"left out: {summary.name} is {verdict(summary)}")
        return
    new = measured_row(summary)
    rows[:] = [old for old in rows if any(old[name] != new[name] for name in SAME)] + [new]
    rows.sort(key=lambda one: [one[name] for name in SAME])


def measured_row(summary: Summary) -> Row:
    """The row of the report, with the machine, the day and the share of the time that waited for data."""
    rounds = usable(summary.results)
    shown, values = row(summary), rounds[0].values
    waits = [one.values["data_wait"] / one.values["raw_train_time"] for one in rounds]
    hardware = summary.config["hardware"]
    device = values["device_name"] if hardware["name"] == "cpu" else hardware["title"]
    kept = ("config", "precision", "fix_hp", "target", "e2e_time [s]", "p_whole", "p_train", "p_core", "accuracy")
    return {
        "day": time.strftime("%Y-%m-%d", time.gmtime(rounds[0].started)) if rounds[0].started else ABSENT,
        "revision": str(rounds[0].identity.revision),
        "machine": f"{device}, torch {values['versions']['torch']}",
        "size": summary.config["size"],
        **{name: shown[name] for name in (*kept, "mem [GiB]", "MFU")},
        "data wait": percent(sum(waits) / len(waits)),
        "notes": "; ".join(filter(None, [limit(summary), shown["notes"].replace(ABSENT, "")])) or ABSENT,
    }


def limit(summary: Summary) -> str:
    """The steps of a run that was cut short."""
    steps = summary.config["max_steps"]
    return f"{steps} steps" if steps and any(change.key == "max_steps" for change in summary.changes) else ""


def filled(page: Path, measured: Iterable[Row]) -> str:
    """The page with its parts renewed."""
    text = page.read_text(encoding="utf-8")
    for name, part in parts(page.stem, list(measured)).items():
        if name != "tree" or f"<!-- {name} -->" in text:  # a page may refer to the data of another
            text = with_part(page, text, name, part)
    return text


def with_part(page: Path, text: str, name: str, part: str) -> str:
    """The text of a page with one part renewed."""
    text, count = re.subn(
        rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)",
        lambda match: f"{match[1]}{part}\n{match[2]}",
        text,
        flags=re.DOTALL,
    )
    if count != 1:
        raise SystemExit(f"{page}: wants one part between <!-- {name} --> and <!-- /{name} -->")
    return text


def full_runs() -> str:
    """For each case the fastest full run on eight devices that FlagPerf publishes."""
    rows = []
    for path in sorted((CONF / "published").glob("*.yaml")):
        results = yaml.safe_load(path.read_text(encoding="utf-8"))["results"]
        complete = [row for row in results if row["config"].endswith("1x8") and "e2e_time" in row]
        if complete:
            best = min(complete, key=lambda row: row["e2e_time"])
            rows.append({"case": path.stem, "precision": best["precision"], "hours": f"{best['e2e_time'] / 3600:.1f}"})
    return table(rows, [f"cases/{row['case']}.md" for row in rows])


def parts(case: str, measured: list[Row]) -> Mapping[str, str]:
    config = compose([f"model={case}", "size=full", "dry_run=true"]).config
    published = CONF / "published" / f"{case}.yaml"
    return {
        **(
            {"published": published_part(yaml.safe_load(published.read_text(encoding="utf-8")))}
            if published.exists()
            else {}
        ),
        "tree": f"```\n{config['data']['tree'].rstrip()}\n```",
        "run": "```\n" + "\n".join(line for member in members(case) for line in commands(member)) + "\n```",
        "mutable": textwrap.fill(mutable_part(config["mutable"]), 140, break_on_hyphens=False),
        "measured": measured_part(config, measured),
    }


def members(case: str) -> list[str]:
    """The case of a page, and the cases that share its tiny size and its page."""
    return [case, *(name for name in options("model", (CONF,)) if name != case and family_of(name, (CONF,)) == case)]


def mutable_part(mutable: Iterable[str]) -> str:
    """The keys that the case's own list adds to the common list, and the keys that it removes."""
    common = yaml.safe_load((CONF / "mutable/common.yaml").read_text(encoding="utf-8"))
    added, fixed = (
        ", ".join(f"`{name}`" for name in names if name not in others)
        for names, others in ((mutable, common), (common, set(mutable)))
    )
    start = "The common keys (`conf/mutable/common.yaml`)"
    return start + (f" except {fixed}," if fixed else "") + (f" and {added}" if added else " and no other") + "."


def published_part(known: Mapping[str, Any]) -> str:
    """One row for each result, and the figures that compare. Column `changed`: differences from the case's values."""
    of_table = ("config", "precision", *CHANGED, "memory")
    figures = dict.fromkeys(name for row in known["results"] for name in row if name not in of_table)
    rows = [
        {
            "config": row["config"],
            "precision": row["precision"],
            "changed": ", ".join(f"{short} {row[key]}" for key, short in CHANGED.items() if key in row) or ABSENT,
            **{name: str(row.get(name, ABSENT)) for name in figures},
            "memory GiB": str(row["memory"]),
        }
        for row in known["results"]
    ]
    compares = ", ".join(known["compares"])
    return f"{table(rows)}\n\n`flagperf compare published RUN` compares a run with these results in: {compares}."


def commands(case: str) -> list[str]:
    """The commands that run the case: full size at each scale with a tuning, and tiny size."""
    text = (CONF / "model" / f"{case}.yaml").read_text(encoding="utf-8")
    command = re.search(r"hardware=(?P<hardware>\S+) .*(?P<data_dir>data_dir=\S+)", text)
    if command is None:
        raise SystemExit(f"conf/model/{case}.yaml: its command names no hardware, or no data_dir")
    hardware, data_dir = command["hardware"], command["data_dir"]
    tunings = {path.stem for path in (CONF / "vendor/nvidia" / case).glob(f"{hardware}x*.yaml")}
    start = f"flagperf model={case}"
    full = [
        f"{start} vendor=nvidia hardware={hardware} {words} {data_dir}"
        for scale, words in SCALES.items()
        if f"{hardware}x{scale}" in tunings
    ]
    first = text.partition("\n# ")[2].partition("\n")[0]  # the command in the head of the case's file
    return [*(full or [first]), f"{start + ' nproc=2':66} # tiny: on the CPU, with sample data"]


def measured_part(config: Mapping[str, Any], measured: list[Row]) -> str:
    if not measured:
        return "No result yet."
    unit, revision = config["throughput_unit"], config["revision"]
    text = f"Throughput is in {unit}. Time is in seconds. `docs/cases/fill.py` reads the figures from result folders."
    if any(int(row["revision"]) < revision for row in measured):
        text += f"\nThe case has revision {revision}. Rows with an earlier revision are not comparable with new runs."
    return f"{text}\n\n{table(measured)}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
