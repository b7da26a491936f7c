"""What the ranks built, held against what the case states: the rules of a closed run in docs/results.md, once more."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from flagperf.verify.logs import Rank, Round
from flagperf.verify.values import is_number, same

PREPARES = ("environment_script", "requirements")  # what of a vendor's own code prepares the ranks alone
IN_FP32, ROUNDED = {"loss": 0.01, "gradients": 0.1}, {"loss": 0.05, "gradients": 0.5}  # largest shares of difference
NETWORK = ("parameters", "tensors", "classes", "modules")
GROUP = ("tensors", "parameters", "names")  # of a group of the optimizer; its other fields are hyper-parameters


def other_than_the_case(round_: Round) -> Iterator[tuple[str, str]]:
    """Verdict, and why; nothing where the case states no fingerprint."""
    config, stated = round_.config, round_.config.get("fingerprint")
    finished = [rank for rank in round_.ranks if rank.all("FINISHED")]
    for rank in round_.ranks:
        built = rank.all("BUILT")
        for what in _other_code(built[-1].value if built else {}, config):
            yield "INVALID", f"rank {rank.number}: {what} is not the launcher's"
    if finished:
        yield from _other_in_a_step(finished[0].finished, config)
    if not stated:
        return
    own = config.get("extension") or {}
    if own.get("has_code") and not own.get("proof"):
        yield "INVALID", "no proof of the vendor's own code"
    for rank in finished:
        if not rank.all("BUILT"):
            yield "INVALID", f"rank {rank.number} did not log what it built"
        elif other := [*_other(rank, stated, config)]:
            yield "INVALID", f"rank {rank.number} has another {', '.join(other)} than the case"
    counted, wanted = finished[0].finished, stated["forward"]
    if "example_flops" in counted and counted["example_flops"] is None:
        yield "SUSPECT", "the operations of the network were not counted"
    elif wanted is not None and not _near(counted.get("example_flops", wanted["operations"]), wanted):
        yield "INVALID", "another number of operations than the case"


def _other_in_a_step(figures: Mapping[str, Any], config: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The vendor's own network, compared with the case's at random steps."""
    limits = IN_FP32 if config.get("precision") == "fp32" else ROUNDED
    for name, limit in limits.items():
        found: Any = figures.get(f"comparison_{name}")
        if is_number(found) and not found <= limit:
            yield "INVALID", f"the vendor's own code gives {name} that differ by {100 * found:.3g} %"


def _near(operations: Any, wanted: Mapping[str, Any]) -> bool:
    return math.isclose(operations, wanted["operations"], rel_tol=wanted["within"])


def _other_code(built: Mapping[str, Any], config: Mapping[str, Any]) -> Iterator[str]:
    software, sent = built.get("software") or {}, config.get("code") or {}
    there, own = software.get("code") or {}, software.get("extension") or {}
    yield from (f"the code of {name}" for name in sorted(sent.keys() & there) if sent[name] != there[name])
    files = (config.get("extension") or {}).get("files") or {}
    yield from (name for name in files if own.get(name) != files[name])


def _other(rank: Rank, stated: Mapping[str, Any], config: Mapping[str, Any]) -> Iterator[str]:
    """Names of what differs."""
    built, own = rank.all("BUILT")[-1].value, config.get("extension") or {}
    proof, replaced = own.get("proof") or {}, own.get("replaced") or {}
    if "network" in built:
        proven = proof and not proof["same_modules"] and {"network", "network_hook"} & replaced.keys()
        fields = NETWORK[:2] if proven else NETWORK
        yield from (f"network ({field})" for field in fields if built["network"][field] != stated["network"][field])
        seen = {*stated["network"]["classes"], *(proof.get("classes") or ())}
        yield from sorted(built["network"]["classes"].keys() - seen) if proven else ()
    if "optimizer" in built:
        shown = proof["optimizer"] if proof and "optimizer" in replaced else None
        yield from _other_optimizer(built["optimizer"], stated["optimizer"], config["optimizer"], shown)
    if proof and "software" in built:
        yield from _other_packages(built["software"].get("versions") or {}, proof["versions"], replaced)
    if "schedule" in built:
        yield from _other_schedule(rank, built["schedule"], stated["schedule"])


def _other_packages(here: Mapping[str, Any], proven: Mapping[str, Any], replaced: Mapping[str, str]) -> Iterator[str]:
    """Packages that the vendor's own parts are of, and that the proof saw in another version."""
    paths = ", ".join(by for what, by in replaced.items() if what not in PREPARES).split(", ")
    for name in sorted({path.partition(".")[0] for path in paths} - {"torch"}):
        if here.get(name) != proven.get(name):
            yield f"version of {name}"


def _other_optimizer(
    built: Mapping[str, Any], stated: Mapping[str, Any], arguments: Mapping[str, Any], shown: Mapping[str, Any] | None
) -> Iterator[str]:
    package = stated["class"].rsplit(".", 2)[0]
    is_shown = shown and all(built[key] == shown[key] for key in ("class", "step"))
    if not is_shown and (built["class"] != stated["class"] or not built["step"].startswith(f"{package}.")):
        yield "optimizer"
    if len(built["groups"]) != len(stated["groups"]):
        yield "number of parameter groups"
        return
    for group, wanted in zip(built["groups"], stated["groups"], strict=True):
        yield from (f"parameter group ({field})" for field in GROUP if group[field] != wanted[field])
        expected = {**stated["defaults"], **arguments, **wanted["own"]}
        for key in sorted(group.keys() & expected.keys()):
            if not same(_listed(group[key]), _listed(expected[key]), (0.0, 0.0)):
                yield key


def _listed(value: Any) -> Any:
    """A switch as its number: both count as the same."""
    return int(value) if isinstance(value, bool) else [*value] if isinstance(value, (list, tuple)) else value


def _other_schedule(rank: Rank, built: Mapping[str, Any], stated: Mapping[str, Any]) -> Iterator[str]:
    wanted = built["rates_of_case"]
    if built["scheduler"] != stated["scheduler"]:
        yield "schedule"
    if built["rates"] is None or wanted is None:
        yield "schedule, whose learning rates are not known,"
        return
    logged = {str(event.value.get("step")): event.value.get("learning_rate") for event in rank.all("STEP_END")}
    for rates in (built["rates"], logged):
        for step in sorted(rates.keys() & wanted):
            here: Any = rates[step]
            there: Any = wanted[step]
            if is_number(here) and is_number(there) and not math.isclose(here, there, rel_tol=1e-6, abs_tol=1e-12):
                yield f"learning rate in step {step}"
