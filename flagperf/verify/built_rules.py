"""Compares the networks, optimizers and schedules of the ranks with the case. docs/results.md has the rules."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from flagperf.verify.logs import Rank, Round
from flagperf.verify.values import is_number, same

PREPARES = ("environment_script", "requirements")  # parts of a vendor's own code that run before the ranks
IN_FP32, ROUNDED = {"loss": 0.01, "gradients": 0.1}, {"loss": 0.05, "gradients": 0.5}  # largest relative differences
NETWORK = ("parameters", "tensors", "classes", "modules")
GROUP = ("tensors", "parameters", "names")  # fields of a parameter group; its other fields are hyper-parameters


def built_findings(round_: Round) -> Iterator[tuple[str, str]]:
    """Verdict and reason of each difference. A case without a fingerprint gives differences of code only."""
    config, stated = round_.config, round_.config.get("fingerprint")
    finished = [rank for rank in round_.ranks if rank.all("FINISHED")]
    for rank in round_.ranks:
        built = rank.all("BUILT")
        for name in _other_code(built[-1].value if built else {}, config):
            yield "INVALID", f"rank {rank.number}: {name} is not the launcher's"
    if finished:
        yield from _other_in_a_step(finished[0].finished, config)
    if not stated:
        return
    extension = config.get("extension") or {}
    if extension.get("has_code") and not extension.get("proof"):
        yield "INVALID", "the vendor's own code has no proof"
    for rank in finished:
        if not rank.all("BUILT"):
            yield "INVALID", f"rank {rank.number} did not log what it built"
        elif parts := [*_other_parts(rank, stated, config)]:
            yield "INVALID", f"rank {rank.number} has another {', '.join(parts)} than the case"
    counted, forward = finished[0].finished, stated["forward"]
    if "example_flops" in counted and counted["example_flops"] is None:
        yield "SUSPECT", "the operations of the network were not counted"
    elif forward is not None and not _near(counted.get("example_flops", forward["operations"]), forward):
        yield "INVALID", "another number of operations than the case"


def _other_in_a_step(figures: Mapping[str, Any], config: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Differences between the vendor's own network and the case's, as measured at random steps."""
    limits = IN_FP32 if config.get("precision") == "fp32" else ROUNDED
    for name, limit in limits.items():
        difference: Any = figures.get(f"comparison_{name}")
        if is_number(difference) and not difference <= limit:
            yield "INVALID", f"the vendor's own code gives {name} that differ by {100 * difference:.3g} %"


def _near(operations: Any, forward: Mapping[str, Any]) -> bool:
    return math.isclose(operations, forward["operations"], rel_tol=forward["within"])


def _other_code(built: Mapping[str, Any], config: Mapping[str, Any]) -> Iterator[str]:
    """Names of the code whose hash differs from the hash of the code that the launcher sent."""
    software, sent = built.get("software") or {}, config.get("code") or {}
    imported, extension = software.get("code") or {}, software.get("extension") or {}
    yield from (f"the code of {name}" for name in sorted(sent.keys() & imported) if sent[name] != imported[name])
    files = (config.get("extension") or {}).get("files") or {}
    yield from (name for name in files if extension.get(name) != files[name])


def _other_parts(rank: Rank, stated: Mapping[str, Any], config: Mapping[str, Any]) -> Iterator[str]:
    """Names of the parts that differ from the case."""
    built, extension = rank.all("BUILT")[-1].value, config.get("extension") or {}
    proof, replaced = extension.get("proof") or {}, extension.get("replaced") or {}
    if "network" in built:
        proven = proof and not proof["same_modules"] and {"network", "network_hook"} & replaced.keys()
        fields = NETWORK[:2] if proven else NETWORK
        yield from (f"network ({field})" for field in fields if built["network"][field] != stated["network"][field])
        known = {*stated["network"]["classes"], *(proof.get("classes") or ())}
        yield from sorted(built["network"]["classes"].keys() - known) if proven else ()
    if "optimizer" in built:
        proven_optimizer = proof["optimizer"] if proof and "optimizer" in replaced else None
        yield from _other_optimizer(built["optimizer"], stated["optimizer"], config["optimizer"], proven_optimizer)
    if proof and "software" in built:
        yield from _other_packages(built["software"].get("versions") or {}, proof["versions"], replaced)
    if "schedule" in built:
        yield from _other_schedule(rank, built["schedule"], stated["schedule"])


def _other_packages(
    installed: Mapping[str, Any], proven: Mapping[str, Any], replaced: Mapping[str, str]
) -> Iterator[str]:
    """Packages of the vendor's own parts whose version differs from the version of the proof."""
    paths = ", ".join(path for part, path in replaced.items() if part not in PREPARES).split(", ")
    for name in sorted({path.partition(".")[0] for path in paths} - {"torch"}):
        if installed.get(name) != proven.get(name):
            yield f"version of {name}"


def _other_optimizer(
    built: Mapping[str, Any], stated: Mapping[str, Any], arguments: Mapping[str, Any], proven: Mapping[str, Any] | None
) -> Iterator[str]:
    package = stated["class"].rsplit(".", 2)[0]
    is_proven = proven and all(built[key] == proven[key] for key in ("class", "step"))
    if not is_proven and (built["class"] != stated["class"] or not built["step"].startswith(f"{package}.")):
        yield "optimizer"
    if len(built["groups"]) != len(stated["groups"]):
        yield "number of parameter groups"
        return
    for group, stated_group in zip(built["groups"], stated["groups"], strict=True):
        yield from (f"parameter group ({field})" for field in GROUP if group[field] != stated_group[field])
        expected = {**stated["defaults"], **arguments, **stated_group["own"]}
        for key in sorted(group.keys() & expected.keys()):
            if not same(_comparable(group[key]), _comparable(expected[key]), (0.0, 0.0)):
                yield key


def _comparable(value: Any) -> Any:
    """A switch as its number, and a tuple as a list: they count as equal."""
    return int(value) if isinstance(value, bool) else [*value] if isinstance(value, (list, tuple)) else value


def _other_schedule(rank: Rank, built: Mapping[str, Any], stated: Mapping[str, Any]) -> Iterator[str]:
    of_case = built["rates_of_case"]
    if built["scheduler"] != stated["scheduler"]:
        yield "schedule"
    if built["rates"] is None or of_case is None:
        yield "schedule, whose learning rates are unknown,"
        return
    logged = {str(event.value.get("step")): event.value.get("learning_rate") for event in rank.all("STEP_END")}
    for rates in (built["rates"], logged):
        for step in sorted(rates.keys() & of_case):
            rate: Any = rates[step]
            expected: Any = of_case[step]
            if (
                is_number(rate)
                and is_number(expected)
                and not math.isclose(rate, expected, rel_tol=1e-6, abs_tol=1e-12)
            ):
                yield f"learning rate in step {step}"
