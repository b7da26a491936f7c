"""All cases at full size in one table: parameters, operations, learning rates at ten points, mutable keys.

    python tests/cases/case_table.py > docs/case-table.md

Parameters and operations are those of conf/fingerprint/; the rates are those of the case's own classes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import yaml

from flagperf.config.compose import compose
from flagperf.config.files.search_path import CONF
from flagperf.contract.components import component
from flagperf.report.cells import ABSENT, number
from flagperf.report.markdown import table
from flagperf.trainer.pytorch.recipe import rates, stand_in

CASES = sorted(path.stem for path in (CONF / "model").glob("*.yaml"))
DEVICES = 8  # of one node: the reference's usual scale
SHARES = (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9)  # of the schedule, between its first two steps and its last
HEADS = ("1st", "2nd", *(f"{share:.0%}" for share in SHARES), "last")
PAGE = """\
# The cases in one table

The table shows every case at full size, on {devices} devices, without a tuning. The [page of a case](cases) lists the
differences from FlagPerf. `python tests/cases/case_table.py > docs/case-table.md` writes this page. A test compares the
page with the cases.

| column | meaning |
|---|---|
| revision | revision of the case. Results of different revisions are not comparable |
| parameters | number of parameters of the network |
| forward | operations of a forward pass of one sample of nominal size; a multiply-add counts as two operations |
| schedule | number of schedule steps in a whole training: one per optimizer step, or one per epoch |
| 1st to last | learning rate in the first and second step, at 1 % to 90 % of all steps, and in the last step |
| mutable | keys that a closed run may change beside the common keys; `not KEY`: a common key that may not change |

{table}

Common keys: {common}.
"""


def main() -> None:
    print(page(), end="")


def page() -> str:
    """The text of docs/case-table.md."""
    common = ", ".join(f"`{key}`" for key in common_keys())
    return PAGE.format(devices=DEVICES, table=table([row(case) for case in CASES]), common=common)


def row(case: str) -> dict[str, str]:
    """One case: column → text."""
    config = compose([f"model={case}", "size=full", f"nproc={DEVICES}", "dry_run=true"]).config
    stated = config["fingerprint"]
    added, fixed = mutable_keys(config["mutable"])
    length, operations = schedule_length(config), (stated["forward"] or {}).get("operations")
    return {
        "case": case,
        "revision": str(config["revision"]),
        "parameters": f"{stated['network']['parameters']:,}",
        "forward [GFLOP]": ABSENT if operations is None else number(operations / 1e9),
        "schedule": f"{length:,} {config['lr_interval']}s",
        **learning_rates(config, length),
        "mutable": ", ".join([*added, *(f"not {key}" for key in fixed)]) or ABSENT,
    }


def schedule_length(config: Mapping[str, Any]) -> int:
    """How often the schedule steps in a whole training."""
    schedule, epochs = config.get("lr_scheduler") or {}, config["max_epochs"]
    if config["lr_interval"] == "epoch":
        return int(epochs)
    if "epoch_samples" in schedule:
        return int(epochs) * (schedule["epoch_samples"] // math.prod(schedule["step_samples"]))
    if config["max_steps"] is not None:
        return int(config["max_steps"])
    # Their schedules have no end of their own: glm stays where it is, transformer falls for ever, waveglow is constant.
    return int(config.get("lr_decay_iters") or 10 * config.get("warmup_updates", 1000))


def learning_rates(config: Mapping[str, Any], length: int) -> dict[str, str]:
    """The rate before ten of the schedule's steps."""
    optimizer = stand_in([{}], config["lr"])
    points = (0, 1, *(round(share * length) for share in SHARES), length - 1)
    scheduler = component(config, "lr_scheduler", optimizer)
    found = [*rates(scheduler, optimizer, dict(enumerate(points))).values()]
    return {head: f"{rate:.4g}" for head, rate in zip(HEADS, found, strict=True)}


def common_keys() -> list[str]:
    """The keys that a closed run of each case may change."""
    return list(yaml.safe_load((CONF / "mutable/common.yaml").read_text(encoding="utf-8")))


def mutable_keys(mutable: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """The keys that a case's list adds to the common keys, and the common keys that the list removes."""
    common = common_keys()
    return (
        [f"`{key}`" for key in mutable if key not in common],
        [f"`{key}`" for key in common if key not in mutable],
    )


if __name__ == "__main__":
    main()
