"""A resumed training goes on exactly as one that was not interrupted; a checkpoint is whole or not there."""

from __future__ import annotations

import dataclasses
import itertools
import json
import multiprocessing
import os
import random
import socket
import struct
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import toy

from flagperf.config.compose import compose
from flagperf.contract import checkpoint
from flagperf.contract.settings import Settings
from flagperf.errors import ConfigError
from flagperf.trainer.checkpoints import files as checkpoints
from flagperf.trainer.checkpoints.files import IntactCheckpoint
from flagperf.trainer.pytorch.ranks import World

ADAM = {"_target_": "torch.optim.AdamW", "lr": 0.01}
COSINE = {"_target_": "torch.optim.lr_scheduler.CosineAnnealingLR", "T_max": 20}
RANDOM = {
    "network": toy.node("network", dropout=0.3),
    "train_data": toy.node("Points", count=64, noise=0.5),
    "optimizer": ADAM,
    "lr_scheduler": COSINE,
}
# 8 steps an epoch; what is uninterrupted has 20 steps.
INTERRUPTED = {
    "in the middle of an epoch": ({}, 5),
    "at the end of an epoch": ({}, 8),
    "in the second epoch": ({}, 13),
    "with processes loading": ({"num_workers": 2}, 5),
    "in the middle of a log interval": ({"log_freq": 3, "num_workers": 1}, 10),
    "accumulating": ({"gradient_accumulation_steps": 2}, 6),
    "schedule by epoch": ({"lr_interval": "epoch"}, 8),
    "evaluating by steps": ({"eval_interval_steps": 5}, 5),
    "averaging the weights": ({"ema": {"decay": 0.8, "every": 2}, "eval_interval_steps": 3}, 5),
    "fp16": ({"precision": "amp_fp16", "max_steps": 12}, 5),
}


@pytest.mark.parametrize(("settings", "at"), INTERRUPTED.values(), ids=INTERRUPTED.keys())
def test_resumed_equals_uninterrupted(
    settings: dict[str, Any], at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLAGPERF_CHECKPOINT_DIR", str(tmp_path / "checkpoint"))
    settings = {"max_epochs": None, "max_steps": 20, **RANDOM, **settings}
    whole = toy.train(toy.config(**settings), tmp_path)
    toy.train(toy.config(**settings | {"max_steps": at}, checkpoint_freq=at), tmp_path)
    resumed = toy.train(toy.config(**settings, resume=str(tmp_path / "checkpoint")), tmp_path)

    def after(name: str) -> list[dict[str, Any]]:
        """What was logged later than the interruption, without times and metrics of evaluations before."""
        timed = ("throughput", "step_time", "data_wait", "communication_wait", "own_time", "time", "eval_accuracy")
        later = (value for value in toy.values(whole, name) if value["step"] > at)
        return [{key: number for key, number in value.items() if key not in timed} for value in later]

    for name in ("STEP_END", "EVALUATE"):
        given, wanted = toy.values(resumed, name), after(name)
        assert [{key: value[key] for key in wanted[0]} for value in given] == wanted
    ended, finished = whole[-1].value, resumed[-1].value
    for key in ("global_steps", "global_samples", "epochs", "stop_reason", "final_loss", "final_accuracy"):
        assert finished[key] == ended[key], key
    assert finished["resumed_from_step"] == at
    assert finished["num_trained_samples"] == ended["num_trained_samples"] // settings["max_steps"] * (
        settings["max_steps"] - at
    )
    assert finished["ranks"][0]["parameters_checksum"] == ended["ranks"][0]["parameters_checksum"]


def test_nothing_left_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLAGPERF_CHECKPOINT_DIR", str(tmp_path / "checkpoint"))
    settings = {"max_epochs": None, "max_steps": 4, "checkpoint_freq": 4}
    toy.train(toy.config(**settings), tmp_path)
    finished = toy.train(toy.config(**settings, resume=str(tmp_path / "checkpoint")), tmp_path)[-1].value
    assert (finished["global_steps"], finished["num_trained_samples"], finished["p_whole"]) == (4, 0, None)


def test_two_are_kept_beside_the_log_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FLAGPERF_CHECKPOINT_DIR")
    monkeypatch.setenv("FLAGPERF_LOG_DIR", str(tmp_path / "round1" / "host_noderank0"))
    events = toy.train(toy.config(checkpoint_freq=2, max_steps=7, max_epochs=None), tmp_path)
    folder = tmp_path / "round1" / "checkpoint"
    assert sorted(path.name for path in folder.iterdir()) == [
        "step000000004.pt",
        "step000000004.pt.sha256",
        "step000000006.pt",
        "step000000006.pt.sha256",
    ]
    assert events[-1].value["checkpoint_time"] > 0


def test_not_after_a_loss_that_is_no_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLAGPERF_CHECKPOINT_DIR", str(tmp_path / "checkpoint"))
    data = toy.node("Points", count=64, nan_at=0)
    toy.train(toy.config(train_data=data, checkpoint_freq=8, log_freq=100), tmp_path)
    assert not list(tmp_path.glob("checkpoint/*.pt"))


# ---------------------------------------------------------------- whole or not there

ALONE = World()


def save(folder: Path, step: int, state: Any) -> Path:
    return checkpoints.save(folder, step, lambda file: torch.save(state, file))


def save_for_ever(folder: Path, first: int, saved: Any) -> None:
    for step in itertools.count(first):
        save(folder, step, {"weights": torch.full((300_000,), float(step))})
        saved.value = step


def killed_at_random_moments(folder: Path) -> None:
    """The newest checkpoint is always whole and has its hash, and no checkpoint is lost whose writing has ended."""
    fork, moments = multiprocessing.get_context("fork"), random.Random(11)
    saved = fork.Value("q", 0)
    for _ in range(15):
        before = saved.value
        writer = fork.Process(target=save_for_ever, args=(folder, before + 1, saved))
        writer.start()
        while saved.value == before and writer.is_alive():
            time.sleep(0.001)
        time.sleep(moments.uniform(0, 0.06))  # any moment will do
        writer.kill()
        writer.join()
        found = checkpoints.newest_intact(folder, ALONE)
        step = int(found.path.stem.removeprefix("step"))
        assert (found.notes, step >= saved.value > before) == ((), True)
        assert torch.load(found.path)["weights"].unique().tolist() == [step]
    save(folder, saved.value + 10, {})
    assert not list(folder.glob("*.partial"))


def test_killed_at_random_moments(tmp_path: Path) -> None:
    toy.fork_ranks(killed_at_random_moments, tmp_path, ranks=1)


def test_a_damaged_folder_is_replaced(tmp_path: Path) -> None:
    """A training that went on from the checkpoint before comes to the same step again."""

    def save_part() -> None:
        checkpoints.save_folder(tmp_path, 4, ALONE, lambda path: (path / "part").write_bytes(b"weights"))

    save_part()
    path = tmp_path / "step000000004.dcp"
    cut(path / "part")
    save_part()
    assert checkpoints.newest_intact(tmp_path, ALONE) == (path, ())


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def empty(path: Path) -> None:
    os.truncate(path, 0)


def flip(path: Path) -> None:
    """Another byte among the weights."""
    content = bytearray(path.read_bytes())
    content[content.index(MARK)] ^= 1
    path.write_bytes(content)


def without_hash(path: Path) -> None:
    hash_of(path).unlink()


def other_hash(path: Path) -> None:
    hash_of(path).write_text(hash_of(path.with_name("step000000002.pt")).read_text())


def torn_hash(path: Path) -> None:
    hash_of(path).write_bytes(b"")


def old_and(damage: Callable[[Path], None]) -> Callable[[Path], None]:
    """The same of a file that an older version wrote."""

    def both(path: Path) -> None:
        without_hash(path)
        damage(path)

    return both


hash_of = checkpoint.hash_file
MARK = struct.pack("<d", 1234.5)
DAMAGE: dict[str, tuple[Callable[[Path], None], str]] = {
    "cut off": (cut, "its content is not that of its hash"),
    "empty": (empty, "its content is not that of its hash"),
    "another byte": (flip, "its content is not that of its hash"),
    "another one's hash": (other_hash, "its content is not that of its hash"),
    "an empty hash": (torn_hash, "its content is not that of its hash"),
    "old, cut off": (old_and(cut), "it was cut off"),
    "old, another byte": (old_and(flip), "archive/data/0 in it has another checksum"),
}


@pytest.mark.parametrize(("damage", "said"), DAMAGE.values(), ids=DAMAGE.keys())
def test_of_a_damaged_one_the_older_is_used(damage: Callable[[Path], None], said: str, tmp_path: Path) -> None:
    for step in (2, 4):
        state = {"step": step, "weights": torch.full((100,), 1234.5, dtype=torch.float64)}
        save(tmp_path, step, state)
    damage(tmp_path / "step000000004.pt")
    assert checkpoints.newest_intact(tmp_path, ALONE) == (
        tmp_path / "step000000002.pt",
        (f"step000000004.pt is damaged: {said}", "step000000002.pt was used in its place"),
    )


def test_an_old_one_without_a_hash_is_used(tmp_path: Path) -> None:
    path = save(tmp_path, 2, {"weights": torch.ones(100)})
    without_hash(path)
    note = "step000000002.pt: it has no hash beside it, only the checksums in the file were compared"
    assert checkpoints.newest_intact(tmp_path, ALONE) == (path, (note,))


def test_the_hash_is_that_of_sha256sum(tmp_path: Path) -> None:
    path = save(tmp_path, 2, {"weights": torch.ones(100_000)})
    done = subprocess.run(["sha256sum", "-c", hash_of(path).name], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "step000000002.pt: OK\n")


def test_no_whole_one(tmp_path: Path) -> None:
    for step in (2, 4):
        cut(save(tmp_path, step, {"weights": torch.ones(100)}))
    with pytest.raises(ConfigError) as refused:
        checkpoints.newest_intact(tmp_path, ALONE)
    assert str(refused.value) == (
        "no checkpoint is complete\n"
        f"  where:   {tmp_path}\n"
        "  key:     resume\n"
        "  given:   step000000004.pt is damaged: its content is not that of its hash; "
        "step000000002.pt is damaged: its content is not that of its hash\n"
        "  allowed: a folder with step<N>.pt files or step<N>.dcp folders, readable on every node\n"
        "  do:      start again without resume"
    )


def look_as_a_node(folder: Path) -> IntactCheckpoint:
    """What a rank that is alone on its node finds in its own copy of the checkpoints."""
    world = replace(World.of(), local_rank=0, local_size=1)
    world.connect(torch.device("cpu"), "gloo", 60)
    return checkpoints.newest_intact(folder, world)


def test_ranks_that_looked_for_themselves_must_agree() -> None:
    checkpoints.check_agreed(["step000000004.pt", "step000000004.pt"])
    with pytest.raises(ConfigError) as caught:
        checkpoints.check_agreed(["step000000004.pt", "step000000002.pt", "step000000004.pt"])
    assert str(caught.value) == (
        "the ranks would go on from different checkpoints\n  where:   config.yaml\n  key:     resume\n"
        "  given:   step000000004.pt, step000000002.pt\n  allowed: the same checkpoint, complete on every node\n"
        "  do:      copy the folder from the node that has the newest one"
    )


def test_all_nodes_use_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of four checkpoints the second node lacks one and has another damaged, the first has a third damaged."""
    monkeypatch.setattr(checkpoints, "CHECKPOINTS", 4)
    nodes = tmp_path / "rank0", tmp_path / "rank1"
    for folder, step in itertools.product(nodes, (2, 4, 6, 8)):
        save(folder, step, {"weights": torch.ones(100)})
    (nodes[1] / "step000000008.pt").unlink()
    cut(nodes[1] / "step000000006.pt")
    cut(nodes[0] / "step000000004.pt")
    host = socket.gethostname()
    notes = (
        f"step000000008.pt on {host} is damaged: it cannot be read: No such file or directory",
        f"step000000006.pt on {host} is damaged: its content is not that of its hash",
        f"step000000004.pt on {host} is damaged: its content is not that of its hash",
        "step000000002.pt was used in its place",
    )
    assert toy.fork_ranks(look_as_a_node, tmp_path) == [(folder / "step000000002.pt", notes) for folder in nodes]


def test_a_resumed_training_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    monkeypatch.setenv("FLAGPERF_CHECKPOINT_DIR", str(tmp_path / "checkpoint"))
    settings = {"max_epochs": None, "max_steps": 4}
    whole = toy.train(toy.config(**settings, checkpoint_freq=2), tmp_path)
    cut(tmp_path / "checkpoint" / "step000000004.pt")
    resumed = toy.train(toy.config(**settings, resume=str(tmp_path / "checkpoint")), tmp_path)
    notes = [
        "step000000004.pt is damaged: its content is not that of its hash",
        "step000000002.pt was used in its place",
    ]
    assert toy.values(resumed, "INIT_END")[0]["resume_notes"] == notes
    assert [(record.levelname, record.message) for record in caplog.records] == [
        ("WARNING", f"resume: {note}") for note in notes
    ]
    assert resumed[-1].value["resumed_from_step"] == 2
    assert toy.losses(resumed) == toy.losses(whole)[2:]


# ---------------------------------------------------------------- refused


def test_no_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        toy.train(toy.config(resume=str(tmp_path)), tmp_path)
    assert str(refused.value) == (
        "no checkpoint to resume from\n"
        f"  where:   {tmp_path}\n"
        "  key:     resume\n"
        "  allowed: a folder with step<N>.pt files or step<N>.dcp folders, readable on every node\n"
        "  do:      set checkpoint_freq in the run that is to be resumed later"
    )


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("train_batch_size", 4),
        ("seed", 5),
        ("case", "other"),
        ("revision", 2),
        ("precision", "amp_bf16"),
        ("clip_grad", 0.5),
    ],
    ids=lambda item: item if isinstance(item, str) else "",
)
def test_of_another_training(key: str, value: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLAGPERF_CHECKPOINT_DIR", str(tmp_path / "checkpoint"))
    before = toy.config(checkpoint_freq=2, max_steps=2)
    toy.train(before, tmp_path)
    with pytest.raises(ConfigError) as refused:
        toy.train(toy.config(**{key: value}, resume=str(tmp_path / "checkpoint")), tmp_path)
    assert str(refused.value) == (
        "the checkpoint belongs to another training\n"
        f"  where:   {tmp_path}/checkpoint/step000000002.pt\n"
        f"  key:     {key}\n"
        f"  given:   {value}\n"
        f"  allowed: {before[key]!r}"
        + "\n  do:      start again without resume, to train with another recipe"
        * (key == "clip_grad")
    )


def difference(folder: Path, found: dict[str, Any], wanted: dict[str, Any]) -> list[str]:
    """Key, given and allowed of a refusal; [] where a training may go on."""
    try:
        checkpoint.check_identity(folder, found, wanted)
    except ConfigError as error:
        return [line.split(maxsplit=1)[1] for line in str(error).splitlines()[2:5]]
    return []


@pytest.mark.parametrize(
    ("given", "said"),
    [
        pytest.param({"optimizer": {**ADAM, "lr": 0.02}}, ["optimizer.lr", "0.02", "0.01"], id="rate"),
        pytest.param(
            {"optimizer": {**ADAM, "weight_decay": 0.1}}, ["optimizer.weight_decay", "0.1", "None"], id="decay"
        ),
        pytest.param({"lr_scheduler": {**COSINE, "T_max": 9}}, ["lr_scheduler.T_max", "9", "20"], id="schedule"),
        pytest.param({"optimizer": {**ADAM, "fused": True}}, [], id="another kernel"),
    ],
)
def test_of_another_recipe(given: dict[str, Any], said: list[str], tmp_path: Path) -> None:
    """A resumed training would go on with the recipe of the checkpoint, and its configuration would show another."""
    found = checkpoint.identity(toy.config(optimizer=ADAM, lr_scheduler=COSINE), 1)
    wanted = checkpoint.identity(toy.config(**{"optimizer": ADAM, "lr_scheduler": COSINE, **given}), 1)
    assert difference(tmp_path, found, wanted) == said


LLAMA = {"_target_": "cases.network", "loss_chunk": None, "config": {"rope_theta": 1e4, "layers": [{"eps": 1e-5}]}}
POINTS = {"_target_": "toy.Points", "path": "/data/a/train", "length": 128}
OTHER_PARTS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "rotary base": (
        {"network": {**LLAMA, "config": {**LLAMA["config"], "rope_theta": 1e6}}},
        ["network.config.rope_theta", "1000000.0", "10000.0"],
    ),
    "eps in a list": (
        {"network": {**LLAMA, "config": {"rope_theta": 1e4, "layers": [{"eps": 1e-6}]}}},
        ["network.config.layers", "[{'eps': 1e-06}]", "[{'eps': 1e-05}]"],
    ),
    "memory alone": ({"network": {**LLAMA, "loss_chunk": 64}}, []),
    "another length": ({"train_data": {**POINTS, "length": 64}}, ["train_data.length", "64", "128"]),
    "the same data elsewhere": ({"train_data": {**POINTS, "path": "/b/train"}, "data_dir": "/b"}, []),
    "other data": (
        {"train_data": {**POINTS, "path": "/data/a/other"}},
        ["train_data.path", "<data_dir>/other", "'<data_dir>/train'"],
    ),
    "a folder that begins alike": (
        {"train_data": {**POINTS, "path": "/data/ab/train"}},
        ["train_data.path", "/data/ab/train", "'<data_dir>/train'"],
    ),
    "another task": ({"task": {"_target_": "toy.Other"}}, ["task._target_", "toy.Other", "'toy.Silent'"]),
    "closed from open": ({"division": "closed"}, ["division", "closed", "'open'"]),
}


@pytest.mark.parametrize(("given", "said"), OTHER_PARTS.values(), ids=OTHER_PARTS)
def test_of_other_parts(given: dict[str, Any], said: list[str], tmp_path: Path) -> None:
    before = {"network": LLAMA, "train_data": POINTS, "data_dir": "/data/a", "task": {"_target_": "toy.Silent"}}
    before["division"] = "open"
    found, wanted = (checkpoint.identity(toy.config(**{**before, **change}), 1) for change in ({}, given))
    assert difference(tmp_path, json.loads(json.dumps(found)), wanted) == said


def test_an_open_training_may_go_on_from_a_closed_one(tmp_path: Path) -> None:
    found, wanted = (checkpoint.identity(toy.config(division=name), 1) for name in ("closed", "open"))
    assert difference(tmp_path, found, wanted) == []


def test_each_setting_is_in_the_identity_or_has_a_reason_not_to_be() -> None:
    names = [field.name for field in dataclasses.fields(Settings)]
    assert {*checkpoint.OTHERWISE} <= {*names}
    before = {**toy.config(), **dict.fromkeys(checkpoint.RUN, "before")}
    for key in (*names, *checkpoint.RUN, *checkpoint.PARTS):
        after = {**before, key: "another"}
        changes = checkpoint.computed(after) != checkpoint.computed(before)
        assert changes != bool(checkpoint.OTHERWISE.get(key)), key


@pytest.mark.parametrize("change", ["document_mask=true", "seq_length=64", "network.config.rope_theta=1e3"])
def test_keys_of_a_case_change_its_parts(change: str) -> None:
    case = ["model=llama3_8b", "size=tiny", "division=open"]
    before, after = (checkpoint.computed(compose(words).config) for words in (case, [*case, change]))
    assert before != after


def test_a_checkpoint_from_before_recipes_were_kept(tmp_path: Path) -> None:
    config = toy.config(optimizer=ADAM)
    found = {key: value for key, value in checkpoint.identity(config, 1).items() if key not in checkpoint.RECIPE}
    checkpoint.check_identity(tmp_path, found, checkpoint.identity(config, 1))


@pytest.mark.parametrize(("in_parts", "name"), [(True, "step000000002.pt"), (False, "step000000002.dcp")])
def test_of_a_strategy_of_another_kind(in_parts: bool, name: str, tmp_path: Path) -> None:
    checkpoint.check_form(tmp_path / name, in_parts=not in_parts)
    with pytest.raises(ConfigError) as caught:
        checkpoint.check_form(tmp_path / name, in_parts=in_parts)
    names = ["Sharded, by which every rank writes its part", "DDP, by which rank 0 writes the whole"]
    own, other = names if in_parts else names[::-1]
    assert str(caught.value) == (
        "the checkpoint was written by another strategy\n"
        f"  where:   {tmp_path}/{name}\n"
        "  key:     parallel._target_\n"
        f"  given:   {own}\n"
        f"  allowed: {other}\n"
        "  do:      resume with the strategy of the earlier run, or start again without resume"
    )
