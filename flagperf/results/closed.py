"""Compares BUILT of the ranks with the case's fingerprint and the hardware's file. Pure.

A network, an optimizer or a schedule other than the case's is INVALID in the closed division. In the open division the
difference is a note beside the number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from flagperf.contract.hardware import is_device_of
from flagperf.contract.records import Finding
from flagperf.results.compared import as_compared
from flagperf.results.evidence import Evidence

Section = Mapping[str, Any]

SAME_RATE = 1e-6  # relative difference of two learning rates that are computed in the same way
PREPARES = ("environment_script", "requirements")  # parts of a vendor's own code that only prepare the ranks
MOST = 5  # a reason names so many classes of modules
UNREADABLE = (AttributeError, IndexError, KeyError, TypeError, ValueError)  # nobody vouches for a rank's log
MFU_CAUSES = (
    "another device or a higher clock than the hardware's file describes, a lower precision than the one named, "
    "sparsity, or work that was left out"
)


def differences(evidence: Evidence) -> list[str]:
    """The differences between BUILT of the ranks and the case's fingerprint; empty without fingerprint."""
    stated = evidence.config.get("fingerprint")
    if not stated:
        return []
    ranks_of_text: dict[str, list[int]] = {}
    for rank, built in evidence.built.items():
        try:
            texts = list(_differences(built, stated, evidence.config))
        except UNREADABLE:
            texts = ["its BUILT cannot be read"]
        for text in texts:
            ranks_of_text.setdefault(text, []).append(rank)
    all_ranks = list(evidence.built)
    of_ranks = [text if ranks == all_ranks else f"rank {ranks[0]}: {text}" for text, ranks in ranks_of_text.items()]
    return [*of_ranks, *_other_operations(evidence, stated), *_other_logged_rates(evidence)]


def objections(built: Section, config: Section) -> list[str]:
    """Reasons why a closed round will be INVALID, from the BUILT of one rank, each with advice."""
    stated = config.get("fingerprint")
    if config.get("division") != "closed" or not stated:
        return []
    advice = f"stop it; if the case is right, python -m cases.fingerprint {config['case']} writes the fingerprint again"
    try:
        return [f"{text}; {advice}" for text in _differences(built, stated, config)]
    except UNREADABLE:  # the verdict says so
        return []


def notes(evidence: Evidence) -> tuple[str, ...]:
    """Notes beside the number: the differences in the open division, and a missing fingerprint."""
    if not evidence.built or "fingerprint" not in evidence.config:
        return ()
    beside = [*differences(evidence), *_other_code(evidence)] if evidence.config["division"] == "open" else []
    if evidence.config["fingerprint"] is None:
        beside.append("network and recipe are not compared: the case states no fingerprint")
    return tuple(beside)


# ---------------------------------------------------------------- the case


def _as_stated(evidence: Evidence) -> Iterator[Finding]:
    if evidence.config.get("division") != "closed" or not evidence.config.get("fingerprint"):
        return
    if unshown := not_shown(evidence.config):
        yield "INVALID", unshown
    silent = [log.rank for log in evidence.logs if log.finished is not None and log.rank not in evidence.built]
    if silent:
        yield "INVALID", f"no BUILT from rank {silent[0]}: what it built is not known"
    for text in differences(evidence):
        yield "INVALID", text
    if "example_flops" in evidence.finished and evidence.finished["example_flops"] is None:
        yield "SUSPECT", f"the network's operations are not compared: {evidence.finished.get('example_note')}"


def not_shown(config: Section) -> str:
    """Why a vendor's own code has no proof; "" where it has one, and where the vendor has no code."""
    extension = config.get("extension") or {}
    if not extension.get("has_code") or extension["proof"]:
        return ""
    return f"nothing shows that the vendor's own code does what the case does; a proof: {extension['no_proof']}"


def _differences(built: Section, stated: Section, config: Section) -> Iterator[str]:
    extension = config.get("extension") or {}
    proof, replaced = extension.get("proof") or {}, extension.get("replaced") or {}
    if "network" in built:
        proven = proof and not proof["same_modules"] and {"network", "network_hook"} & replaced.keys()
        yield from _other_network(built["network"], stated["network"], proof["classes"] if proven else None)
    if "optimizer" in built:
        shown = proof["optimizer"] if proof and "optimizer" in replaced else None
        yield from _other_optimizer(built["optimizer"], stated["optimizer"], config["optimizer"], shown)
    if proof and "software" in built:
        yield from _other_packages(built["software"].get("versions") or {}, proof["versions"], replaced)
    if "schedule" in built:
        yield from _other_schedule(built["schedule"], stated["schedule"])


def _other_network(built: Section, stated: Section, proven: Sequence[str] | None) -> Iterator[str]:
    """Compares two networks.

    Args:
        proven: classes of modules that the proof of a vendor's own network has seen. Their counts are those of the
            reduced case, so they are not compared. None: the modules are the case's.
    """
    differences = []
    if built["parameters"] != stated["parameters"]:
        differences.append(f"{built['parameters']:,} parameters, the case has {stated['parameters']:,}")
    if proven is not None:
        if unseen := sorted(built["classes"].keys() - {*stated["classes"], *proven}):
            differences.append(f"modules that the proof has not seen: {', '.join(unseen[:MOST])}")
        stated, built = {**stated, "classes": {}, "modules": ""}, {**built, "classes": {}, "modules": ""}
    counts = {name: (built["classes"].get(name, 0), stated["classes"].get(name, 0)) for name in stated["classes"]}
    counts |= {name: (count, 0) for name, count in built["classes"].items() if name not in counts}
    differing = [f"{here} {name}, the case has {there}" for name, (here, there) in counts.items() if here != there]
    differences += differing[:MOST]
    if not differences and built["tensors"] != stated["tensors"]:
        differences.append("other names, shapes or types of parameters or buffers")
    if not differences and built["modules"] != stated["modules"]:
        differences.append("other names of modules")
    if differences:
        yield f"another network than the case's: {'; '.join(differences)}"


def _other_packages(installed: Section, proven: Section, replaced: Section) -> Iterator[str]:
    """Compares the versions of the installed packages that hold a vendor's own code. Files are compared by content."""
    paths = ", ".join(class_path for part, class_path in replaced.items() if part not in PREPARES).split(", ")
    for name in dict.fromkeys(path.partition(".")[0] for path in paths):
        if name != "torch" and installed.get(name) != proven.get(name):
            yield f"{name} {installed.get(name)} in the place of the case's parts, the proof is of {proven.get(name)}"


def _other_operations(evidence: Evidence, stated: Section) -> Iterator[str]:
    operations, stated_forward = evidence.number("example_flops"), stated["forward"]
    if operations is None or stated_forward is None:
        return
    if not math.isclose(operations, stated_forward["operations"], rel_tol=stated_forward["within"]):
        yield (
            f"another network than the case's: {operations:.4g} operations of the example in a forward pass, "
            f"the case has {stated_forward['operations']:.4g}"
        )


def _other_optimizer(built: Section, stated: Section, arguments: Section, proven: Section | None) -> Iterator[str]:
    """Compares two optimizers. `proven`: class and step of an optimizer that the proof has compared with the case's."""
    package = stated["class"].rpartition(".")[0].rpartition(".")[0]
    if proven and (built["class"], built["step"]) == (proven["class"], proven["step"]):
        pass
    elif built["class"] != stated["class"]:
        yield f"optimizer {built['class']}, the case has {stated['class']}"
    elif not built["step"].startswith(f"{package}."):
        yield f"optimizer {built['class']} with another step, from {built['step']}"
    if len(built["groups"]) != len(stated["groups"]):
        yield f"{len(built['groups'])} parameter groups, the case has {len(stated['groups'])}"
        return
    for number, (group, stated_group) in enumerate(zip(built["groups"], stated["groups"], strict=True), start=1):
        sizes = [(entry["tensors"], entry["parameters"]) for entry in (group, stated_group)]
        if sizes[0] != sizes[1]:
            (tensors, parameters), (stated_tensors, stated_parameters) = sizes
            yield (
                f"parameter group {number} of {tensors} tensors and {parameters:,} parameters, "
                f"the case has {stated_tensors} and {stated_parameters:,}"
            )
        elif group["names"] != stated_group["names"]:
            yield f"parameter group {number} of other parameters than the case's"
        expected = {**stated["defaults"], **arguments, **stated_group["own"]}
        for key in sorted(group.keys() & expected.keys()):
            if _plain(group[key]) != _plain(expected[key]):
                yield f"{key} of parameter group {number} is {group[key]}, the configuration says {expected[key]}"


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, (list, tuple)) else value


def _other_schedule(built: Section, stated: Section) -> Iterator[str]:
    if built["scheduler"] != stated["scheduler"]:
        yield f"schedule {built['scheduler']}, the case has {stated['scheduler']}"
    if built["rates"] is None or built["rates_of_case"] is None:
        yield "a schedule whose learning rates are not known"
    else:
        yield from _other_rates(built["rates"], built["rates_of_case"], "")


def _other_logged_rates(evidence: Evidence) -> Iterator[str]:
    """Compares the rates that the steps really used."""
    for log in evidence.logs:
        stated_rates = (evidence.built.get(log.rank, {}).get("schedule") or {}).get("rates_of_case")
        if not isinstance(stated_rates, Mapping):  # unknown, or a log that cannot be read
            continue
        steps = [event.value for event in log.all("STEP_END")]
        logged_rates = {str(step.get("step")): step.get("learning_rate") for step in steps}
        differences = list(_other_rates(logged_rates, stated_rates, f"rank {log.rank} trained with "))
        yield from differences
        if differences:
            return


def _other_rates(rates: Section, stated_rates: Section, prefix: str) -> Iterator[str]:
    for step in sorted(rates.keys() & stated_rates.keys(), key=_in_number):
        rate, stated_rate = rates[step], stated_rates[step]
        known = isinstance(rate, (int, float)) and isinstance(stated_rate, (int, float))
        if known and not math.isclose(rate, stated_rate, rel_tol=SAME_RATE, abs_tol=1e-12):
            yield f"{prefix}learning rate {rate:.6g} in step {step}, the case's own schedule gives {stated_rate:.6g}"


def _in_number(step: Any) -> tuple[int, str]:
    """A sort key: texts of step numbers in the order of the numbers."""
    return len(str(step)), str(step)


# ---------------------------------------------------------------- code and device


def _code_as_sent(evidence: Evidence) -> Iterator[Finding]:
    if evidence.config.get("division") == "closed":
        yield from (("INVALID", text) for text in _other_code(evidence))


def _other_code(evidence: Evidence) -> Iterator[str]:
    """Compares flagperf's and the cases' code in each rank with the launcher's; `code_dir` may lay some over it."""
    sent = evidence.config.get("code") or {}
    for rank, built in evidence.built.items():
        rank_code = (built.get("software") or {}).get("code") or {}
        for package in sorted(sent.keys() & rank_code.keys()):
            if rank_code[package] != sent[package]:
                yield f"rank {rank}: the code of {package} is not the launcher's"
                return
        sent_files = (evidence.config.get("extension") or {}).get("files") or {}
        rank_files = (built.get("software") or {}).get("extension") or {}
        if changed_files := [name for name in sent_files if rank_files.get(name) != sent_files[name]]:
            yield f"rank {rank}: {changed_files[0]} of the vendor's own code is not the launcher's"
            return


def _device_of_the_hardware(evidence: Evidence) -> Iterator[Finding]:
    hardware = evidence.config.get("hardware") or {}
    names = {built["device_name"]: None for built in evidence.built.values() if "device_name" in built}
    for name in names:
        if not is_device_of(hardware, name):
            yield "INVALID", f"hardware={hardware['name']}, found {name}"


def _utilisation(evidence: Evidence) -> Iterator[Finding]:
    mfu = evidence.number("mfu")
    if mfu is not None and mfu > 1:
        yield "SUSPECT", f"MFU is {mfu:.2f}: more FLOP/s than the hardware's peak. Possible causes: {MFU_CAUSES}"


BUILT: tuple[Callable[[Evidence], Iterator[Finding]], ...] = (
    _as_stated,
    as_compared,
    _code_as_sent,
    _device_of_the_hardware,
    _utilisation,
)
