"""What the ranks built against what the case states: one round that agrees, and every way in which it may differ."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from second_verdict import judge

from flagperf.contract.perflog import Event
from flagperf.results.closed import MFU_CAUSES, notes, objections
from flagperf.results.evidence import Evidence
from flagperf.results.rank_log import RankLog

CONV, NORM = "torch.nn.modules.conv.Conv2d", "torch.nn.modules.batchnorm.BatchNorm"
NETWORK = {"parameters": 4641994, "tensors": "aa", "modules": "bb", "classes": {CONV: 17, NORM: 17}}
GROUP = {"tensors": 53, "parameters": 4641994, "names": "cc"}
STATED: dict[str, Any] = {
    "network": NETWORK,
    "forward": {"operations": 35004416, "within": 0.001},
    "optimizer": {
        "class": "torch.optim.sgd.SGD",
        "defaults": {"nesterov": False, "of another version": 1},
        "groups": [{**GROUP, "own": {"weight_decay": 0.0}}],
    },
    "schedule": {
        "made_by": "torch.optim.lr_scheduler.StepLR",
        "scheduler": "torch.optim.lr_scheduler.StepLR",
    },
}
BUILT: dict[str, Any] = {
    "device_name": "Acme A1",
    "network": {**NETWORK},
    "optimizer": {
        "class": "torch.optim.sgd.SGD",
        "step": "torch.optim.sgd",
        "groups": [{**GROUP, "weight_decay": 0.0, "momentum": 0.9, "nesterov": False}],
    },
    "schedule": {
        "scheduler": "torch.optim.lr_scheduler.StepLR",
        "interval": "epoch",
        "rates": {"1": 0.1, "100": 0.1, "9000": None},
        "rates_of_case": {"1": 0.1, "100": 0.1, "9000": 0.001},
    },
    "software": {"code": {"flagperf": "f1", "cases": "c1"}},
}
CONFIG: dict[str, Any] = {
    "division": "closed",
    "fingerprint": STATED,
    "optimizer": {"_target_": "torch.optim.SGD", "lr": 0.1, "momentum": 0.9, "weight_decay": 1e-4, "fused": True},
    "hardware": {"name": "A1", "device_names": ["Acme A1(-\\d+GB)?"]},
    "code": {"flagperf": "f1", "cases": "c1"},
}
FINISHED: dict[str, Any] = {"global_steps": 100, "example_flops": 35004416.0, "final_loss": 1.0}
Given = dict[str, dict[str, Any]]


def evidence(change: Callable[[Given], object] = lambda _: None) -> Evidence:
    """Two ranks that agree with their case, but for a change of one of: config, finished, built, other (of rank 1)."""
    given = copy.deepcopy({"config": CONFIG, "finished": FINISHED, "built": BUILT, "other": {}, "step": {}})
    change(given)
    return Evidence("finished", 2, tuple(log(rank, given) for rank in range(2)), config=given["config"])


def log(rank: int, given: Given) -> RankLog:
    built = {**given["built"], **(given["other"] if rank else {})}
    events = [
        Event("BUILT", built, time_ms=0, rank=rank),
        Event("STEP_END", {"step": 1, "loss": 2.0, "learning_rate": 0.1, **given["step"]}, time_ms=1, rank=rank),
        Event("FINISHED", given["finished"], time_ms=2, rank=rank),
    ]
    return RankLog(rank, "node", 0, tuple(event for event in events if event.value))


def test_what_is_objected_to_as_soon_as_a_rank_has_built() -> None:
    other = {**BUILT, "network": {**BUILT["network"], "parameters": 7}}
    advice = "stop it; if the case is right, python -m cases.fingerprint mine writes the fingerprint again"
    differing = "another network than the case's: 7 parameters, the case has 4,641,994"
    closed = {**CONFIG, "case": "mine"}
    assert objections(BUILT, closed) == []
    assert objections(other, closed) == [f"{differing}; {advice}"]
    assert objections(other, {**closed, "division": "open"}) == []


DIFFERENT: dict[str, tuple[Callable[[Given], object], str]] = {
    "fewer parameters and modules": (
        lambda given: given["built"]["network"].update(
            parameters=3100000, classes={CONV: 12, NORM: 17, "mine.Fast": 5}
        ),
        "another network than the case's: 3,100,000 parameters, the case has 4,641,994; "
        f"12 {CONV}, the case has 17; 5 mine.Fast, the case has 0",
    ),
    "other shapes": (
        lambda given: given["built"]["network"].update(tensors="ff"),
        "another network than the case's: other names, shapes or types of parameters or buffers",
    ),
    "other order of modules": (
        lambda given: given["built"]["network"].update(modules="ff"),
        "another network than the case's: other names of modules",
    ),
    "only one rank": (
        lambda given: given["other"].update(network={**NETWORK, "modules": "ff"}),
        "rank 1: another network than the case's: other names of modules",
    ),
    "fewer operations": (
        lambda given: given["finished"].update(example_flops=9e6),
        "another network than the case's: 9e+06 operations of the example in a forward pass, the case has 3.5e+07",
    ),
    "another optimizer": (
        lambda given: given["built"]["optimizer"].update({"class": "mine.SGD"}),
        "optimizer mine.SGD, the case has torch.optim.sgd.SGD",
    ),
    "another step": (
        lambda given: given["built"]["optimizer"].update(step="torch.optimum.mine"),
        "optimizer torch.optim.sgd.SGD with another step, from torch.optimum.mine",
    ),
    "a further group": (
        lambda given: given["built"]["optimizer"]["groups"].append(GROUP),
        "2 parameter groups, the case has 1",
    ),
    "other parameters in a group": (
        lambda given: given["built"]["optimizer"]["groups"][0].update(names="ff"),
        "parameter group 1 of other parameters than the case's",
    ),
    "fewer parameters in a group": (
        lambda given: given["built"]["optimizer"]["groups"][0].update(tensors=52),
        "parameter group 1 of 52 tensors and 4,641,994 parameters, the case has 53 and 4,641,994",
    ),
    "weight decay where there is none": (
        lambda given: given["built"]["optimizer"]["groups"][0].update(weight_decay=1e-4),
        "weight_decay of parameter group 1 is 0.0001, the configuration says 0.0",
    ),
    "another momentum": (
        lambda given: given["built"]["optimizer"]["groups"][0].update(momentum=0.5),
        "momentum of parameter group 1 is 0.5, the configuration says 0.9",
    ),
    "another default": (
        lambda given: given["built"]["optimizer"]["groups"][0].update(nesterov=True),
        "nesterov of parameter group 1 is True, the configuration says False",
    ),
    "a log that somebody forged badly": (
        lambda given: given["built"]["network"].update(classes=[CONV]),
        "its BUILT cannot be read",
    ),
    "no schedule": (
        lambda given: given["built"]["schedule"].update(scheduler=None),
        "schedule None, the case has torch.optim.lr_scheduler.StepLR",
    ),
    "rates that nobody knows": (
        lambda given: given["built"]["schedule"].update(rates=None),
        "a schedule whose learning rates are not known",
    ),
    "another rate": (
        lambda given: given["built"]["schedule"]["rates"].update({"100": 0.2}),
        "learning rate 0.2 in step 100, the case's own schedule gives 0.1",
    ),
    "trained with another rate": (
        lambda given: given["step"].update(learning_rate=0.3),
        "rank 0 trained with learning rate 0.3 in step 1, the case's own schedule gives 0.1",
    ),
    "other code": (
        lambda given: given["other"].update(software={"code": {"flagperf": "f1", "cases": "c2"}}),
        "rank 1: the code of cases is not the launcher's",
    ),
}


@pytest.mark.parametrize(("change", "reason"), DIFFERENT.values(), ids=DIFFERENT.keys())
def test_what_differs_is_invalid_in_closed_and_a_note_in_open(change: Callable[[Given], object], reason: str) -> None:
    closed = evidence(change)
    opened = evidence(lambda given: (change(given), given["config"].update(division="open")))
    assert (judge(closed), notes(closed)) == (("INVALID", (reason,)), ())
    assert (judge(opened), notes(opened)) == (("VALID", ()), (reason,))


OTHERS: dict[str, tuple[Callable[[Given], object], Any, tuple[str, ...]]] = {
    "as stated": (lambda _: None, ("VALID", ()), ()),
    "operations within what is allowed": (
        lambda given: given["finished"].update(example_flops=35004417.0),
        ("VALID", ()),
        (),
    ),
    "operations that nobody counted": (
        lambda given: given["finished"].update(example_flops=None, example_note="too large"),
        ("SUSPECT", ("the network's operations are not compared: too large",)),
        (),
    ),
    "a case that states nothing": (
        lambda given: (given["config"].update(fingerprint=None), given["built"]["network"].update(tensors="ff")),
        ("VALID", ()),
        ("network and recipe are not compared: the case states no fingerprint",),
    ),
    "a run from before there were fingerprints": (
        lambda given: (given["config"].pop("fingerprint"), given["config"].pop("code")),
        ("VALID", ()),
        (),
    ),
    "a log from before there was BUILT": (
        lambda given: (given["config"].clear(), given["built"].clear()),
        ("VALID", ()),
        (),
    ),
    "a rank that hides what it built": (
        lambda given: given["built"].clear(),
        ("INVALID", ("no BUILT from rank 0: what it built is not known",)),
        (),
    ),
    "another device": (
        lambda given: given["other"].update(device_name="Acme A2"),
        ("INVALID", ("hardware=A1, found Acme A2",)),
        (),
    ),
    "another device in open": (
        lambda given: (given["built"].update(device_name="Acme A2"), given["config"].update(division="open")),
        ("INVALID", ("hardware=A1, found Acme A2",)),
        (),
    ),
    "hardware whose devices have no known name": (
        lambda given: (given["built"].update(device_name="any"), given["config"].update(hardware={"name": "cpu"})),
        ("VALID", ()),
        (),
    ),
    "MFU over 1": (
        lambda given: given["finished"].update(mfu=1.2),
        ("SUSPECT", (f"MFU is 1.20: more FLOP/s than the hardware's peak. Possible causes: {MFU_CAUSES}",)),
        (),
    ),
}


@pytest.mark.parametrize(("change", "verdict", "said"), OTHERS.values(), ids=OTHERS.keys())
def test_verdict_and_notes(change: Callable[[Given], object], verdict: Any, said: tuple[str, ...]) -> None:
    found = evidence(change)
    assert (judge(found), notes(found)) == (verdict, said)


# ---------------------------------------------------------------- a vendor's own code

PROOF = {
    "differences": {"batches": 0.0, "loss": 1e-7, "weights": 1e-7, "optimizer": 0.0},
    "optimizer": {"class": "mine.FusedSGD", "step": "mine"},
    "same_modules": False,
    "classes": [CONV, "mine.FastNorm"],
    "versions": {"mine": "1.2", "torch": "2.5"},
}
EXTENSION: dict[str, Any] = {
    "replaced": {"optimizer": "mine.FusedSGD", "network_hook": "mine.accelerate"},
    "files": {"mine.py": "s1"},
    "has_code": True,
    "proof": PROOF,
    "no_proof": "",
}


def accelerated(given: Given) -> None:
    """What the ranks built of the code that EXTENSION shows to do the same."""
    given["config"]["extension"] = copy.deepcopy(EXTENSION)
    given["built"]["network"].update(modules="ff", classes={CONV: 17, "mine.FastNorm": 17})
    given["built"]["optimizer"].update({"class": "mine.FusedSGD", "step": "mine"})
    given["built"]["software"].update(extension={"mine.py": "s1"}, versions={"mine": "1.2", "torch": "2.6"})


WITH_OWN_CODE: dict[str, tuple[Callable[[Given], object], str]] = {
    "fewer parameters": (
        lambda given: given["built"]["network"].update(parameters=3100000, tensors="ff"),
        "another network than the case's: 3,100,000 parameters, the case has 4,641,994",
    ),
    "other shapes": (
        lambda given: given["built"]["network"].update(tensors="ff"),
        "another network than the case's: other names, shapes or types of parameters or buffers",
    ),
    "fewer operations": (
        lambda given: given["finished"].update(example_flops=9e6),
        "another network than the case's: 9e+06 operations of the example in a forward pass, the case has 3.5e+07",
    ),
    "modules that the proof has not seen": (
        lambda given: given["built"]["network"]["classes"].update({"mine.Cached": 1}),
        "another network than the case's: modules that the proof has not seen: mine.Cached",
    ),
    "other modules, of which the proof has the case's": (
        lambda given: given["config"]["extension"]["proof"].update(same_modules=True),
        f"another network than the case's: 0 {NORM}, the case has 17; 17 mine.FastNorm, the case has 0",
    ),
    "other modules, where the network is not replaced": (
        lambda given: given["config"]["extension"]["replaced"].pop("network_hook"),
        f"another network than the case's: 0 {NORM}, the case has 17; 17 mine.FastNorm, the case has 0",
    ),
    "another optimizer than that of the proof": (
        lambda given: given["built"]["optimizer"].update({"class": "mine.HastySGD"}),
        "optimizer mine.HastySGD, the case has torch.optim.sgd.SGD",
    ),
    "another version of an installed package": (
        lambda given: given["built"]["software"].update(versions={"mine": "1.3"}),
        "mine 1.3 in the place of the case's parts, the proof is of 1.2",
    ),
    "another file on a host": (
        lambda given: given["built"]["software"].update(extension={"mine.py": "s2"}),
        "rank 0: mine.py of the vendor's own code is not the launcher's",
    ),
    "a file that no rank found": (
        lambda given: given["built"]["software"].pop("extension"),
        "rank 0: mine.py of the vendor's own code is not the launcher's",
    ),
}


def test_own_code_that_was_shown_to_do_the_same() -> None:
    assert judge(evidence(accelerated)) == ("VALID", ())


@pytest.mark.parametrize(("change", "reason"), WITH_OWN_CODE.values(), ids=WITH_OWN_CODE)
def test_own_code_that_does_more_than_was_shown(change: Callable[[Given], object], reason: str) -> None:
    assert judge(evidence(lambda given: (accelerated(given), change(given)))) == ("INVALID", (reason,))


def test_a_closed_run_of_own_code_without_a_proof() -> None:
    """The tuning that tries to change the network: each thing that differs is said."""

    def unshown(given: Given) -> None:
        accelerated(given)
        given["config"]["extension"].update(proof=None, no_proof="there is none")

    reasons = (
        "nothing shows that the vendor's own code does what the case does; a proof: there is none",
        f"another network than the case's: 0 {NORM}, the case has 17; 17 mine.FastNorm, the case has 0",
        "optimizer mine.FusedSGD, the case has torch.optim.sgd.SGD",
    )
    assert judge(evidence(unshown)) == ("INVALID", reasons)
    opened = evidence(lambda given: (unshown(given), given["config"].update(division="open")))
    assert (judge(opened), notes(opened)) == (("VALID", ()), reasons[1:])
