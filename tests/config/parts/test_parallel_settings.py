"""How the ranks share the work, as the launcher takes it: the mesh, the strategy, the samples of a step."""

from __future__ import annotations

from pathlib import Path

import pytest
from refusals import lines, message
from user_folder import write

from flagperf.config.compose import compose
from flagperf.contract.mesh import Mesh
from flagperf.plan.dry_run import dry_run_text

GLOBAL = "# @package _global_\n"
SHARDED = "parallel._target_=flagperf.trainer.pytorch.parallel.Sharded"
H100 = ["model=bert", "vendor=nvidia", "hardware=H100", "nnodes=2", "nproc=8", "data_dir=/data"]


def test_data_parallelism_is_the_default() -> None:
    job = compose(["model=bert", "nproc=4"])
    assert job.mesh == Mesh(dp_replicate=4)
    assert job.config["parallel"] == {"_target_": None, "mesh": WHOLE}
    assert job.changes == ()


def test_a_closed_run_may_choose_how_its_ranks_share() -> None:
    sides = ["parallel.mesh.dp_replicate=2", "parallel.mesh.dp_shard=-1", "parallel.mesh.tp=2"]
    job = compose(["model=bert", "nproc=8", SHARDED, *sides, "parallel.blocks=BertLayer"])
    assert (job.division, job.mesh) == ("closed", Mesh(2, 2, 2))
    assert job.config["parallel"]["blocks"] == "BertLayer"


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        pytest.param(
            ["nproc=4", SHARDED, "parallel.mesh.tp=3"],
            lines(
                "the sides of the mesh do not multiply to the ranks of the job",
                where="conf/training.yaml",
                key="parallel.mesh",
                given="pp=1 x dp_replicate=-1 x dp_shard=1 x cp=1 x ep=1 x tp=3",
                allowed="sizes whose product is 4 (nnodes x nproc)",
                do="choose sizes that divide the ranks, or another number of ranks",
            ),
            id="sizes that do not fit",
        ),
        pytest.param(
            ["division=open", "adapter.modules=[query]", "float8_modules=torch.nn.Linear"],
            lines(
                "layers that multiply in float8 cannot have adapters",
                where="command line",
                key="float8_modules",
                given="torch.nn.Linear",
                allowed="null with adapter.modules",
            ),
            id="adapters of layers in float8",
        ),
        pytest.param(
            ["nproc=4", "float8_recipe=tensorwise_gathered", "float8_modules=torch.nn.Linear"],
            lines(
                "only Sharded, over dp_replicate and dp_shard, gathers weights in float8",
                where="command line",
                key="float8_recipe",
                given="tensorwise_gathered with flagperf.trainer.pytorch.parallel.DDP",
                allowed="tensorwise, rowwise",
            ),
            id="float8 gathered without a strategy that divides",
        ),
        pytest.param(
            [
                *("nproc=4", SHARDED, "parallel.mesh.dp_shard=2", "parallel.mesh.tp=2", "division=open"),
                *("float8_recipe=tensorwise_gathered", "float8_modules=torch.nn.Linear"),
            ],
            lines(
                "only Sharded, over dp_replicate and dp_shard, gathers weights in float8",
                where="command line",
                key="float8_recipe",
                given="tensorwise_gathered with tp",
                allowed="tensorwise, rowwise",
            ),
            id="float8 gathered with another side",
        ),
        pytest.param(
            ["nproc=4", "parallel.mesh.dp_shard=2"],
            lines(
                "with data parallelism each rank holds the whole network",
                where="command line",
                key="parallel.mesh.dp_shard",
                given="2",
                allowed="1",
                do="parallel._target_=flagperf.trainer.pytorch.parallel.Sharded divides it (docs/parallel.md)",
            ),
            id="shards without a strategy that divides",
        ),
        pytest.param(
            ["parallel._target_=mine.Strategy"],
            lines(
                "this strategy is not one of flagperf's",
                where="command line",
                key="parallel._target_",
                given="mine.Strategy",
                allowed="null, or a class of flagperf.trainer.pytorch.parallel",
                do="division=open allows it, and the report says so",
            ),
            id="a strategy of the user's own in a closed run",
        ),
    ],
)
def test_refused(overrides: list[str], expected: str) -> None:
    text = message(["model=bert", *overrides])
    assert text.replace(str(Path(__file__).parents[3]) + "/", "") == expected


WHOLE = {"dp_replicate": -1, "dp_shard": 1, "tp": 1, "pp": 1, "cp": 1, "ep": 1}
PIPELINE = " | do: docs/parallel.md names what a pipeline can be combined with"
PP2 = ["parallel.mesh.dp_shard=1", "parallel.mesh.pp=2"]
TP2 = ["nproc=2", "parallel.mesh.dp_shard=1", "parallel.mesh.tp=2"]
MIXTRAL = ["model=mixtral_8x7b", "train_batch_size=1", "parallel.mesh.dp_shard=1"]
NO_MAPPING = (
    "wrong type of value | key: {0} | given: {1} | allowed: a mapping | do: set the keys below it: {0}.NAME=VALUE"
)


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        pytest.param(["parallel=null"], NO_MAPPING.format("parallel", "null"), id="no part at all"),
        pytest.param(["parallel=fsdp"], NO_MAPPING.format("parallel", "fsdp"), id="a word in place of the part"),
        pytest.param(["parallel.mesh=2"], NO_MAPPING.format("parallel.mesh", "2"), id="a number in place of the mesh"),
        pytest.param(
            ["parallel.mesh.np=2"],
            "unknown key | key: parallel.mesh.np | do: one of: cp, dp_replicate, dp_shard, ep, pp, tp",
            id="a side that the mesh does not have",
        ),
        pytest.param(
            ["parallel.cp=2"],
            "the strategy has no such argument | key: parallel.cp"
            " | allowed: mesh, blocks, reshard_after_forward, prefetch, plan, sequence_parallel, loss_parallel, stages",
            id="an argument that the strategy does not have",
        ),
        pytest.param(
            ["parallel.reshard_after_forward=maybe"],
            "wrong type of value | key: parallel.reshard_after_forward | given: maybe | allowed: true or false",
            id="an argument of the wrong type",
        ),
        pytest.param(
            ["parallel.prefetch=-1"],
            "value out of range | key: parallel.prefetch | given: -1 | allowed: a whole number, at least 0",
            id="blocks ahead",
        ),
        pytest.param(
            ["parallel._target_=flagperf.trainer.pytorch.parallel.Shraded"],
            "no such strategy | key: parallel._target_ | given: flagperf.trainer.pytorch.parallel.Shraded"
            " | do: did you mean 'flagperf.trainer.pytorch.parallel.Sharded'?",
            id="a slip in its name",
        ),
        pytest.param(
            ["parallel._target_=null", "parallel.prefetch=1"],
            "the strategy has no such argument | key: parallel.prefetch | allowed: mesh",
            id="an argument of another strategy",
        ),
        pytest.param(
            ["nproc=3", *TP2[1:2], "parallel.mesh.tp=3"],
            "the ranks along tp cannot divide the network evenly | key: parallel.mesh.tp | given: 3"
            " | allowed: a divisor of 4, the network.config.num_attention_heads",
            id="heads",
        ),
        pytest.param(
            ["nproc=4", *TP2[1:2], "parallel.mesh.tp=4"],
            "the ranks along tp cannot divide the network evenly | key: parallel.mesh.tp | given: 4"
            " | allowed: a divisor of 2, the network.config.num_key_value_heads",
            id="heads of keys and values",
        ),
        pytest.param(
            ["parallel.sequence_parallel=true"],
            "there are no ranks along tp | key: parallel.sequence_parallel | given: true"
            " | allowed: false, or parallel.mesh.tp above 1",
            id="sequences of no ranks",
        ),
        pytest.param(
            ["nproc=3", "parallel.mesh.dp_shard=1", "parallel.mesh.cp=3"],
            "the ranks along cp cannot divide a sequence evenly | key: parallel.mesh.cp | given: 3"
            " | allowed: a seq_length that is a multiple of 6 (2 x cp); the case has 128",
            id="pieces of a sequence",
        ),
        pytest.param(
            ["model=bert", SHARDED, "parallel.mesh.dp_replicate=1", "parallel.mesh.cp=2"],
            "ranks along cp divide sequences of one length, and this case has none | key: parallel.mesh.cp | given: 2"
            " | allowed: 1, or a language model with a seq_length",
            id="no sequences of one length",
        ),
        pytest.param(
            ["parallel.mesh.dp_shard=1", "parallel.mesh.ep=2"],
            "the network has no experts | key: parallel.mesh.ep | given: 2"
            " | allowed: 1, or a case with experts, such as mixtral_8x7b",
            id="experts of a network without experts",
        ),
        pytest.param(
            [*MIXTRAL, "nproc=8", "parallel.mesh.ep=8"],
            "the ranks along ep cannot divide the experts evenly | key: parallel.mesh.ep | given: 8"
            " | allowed: a divisor of 4, the network.config.num_local_experts",
            id="fewer experts than ranks",
        ),
        pytest.param(
            [*MIXTRAL, "nproc=4", "parallel.mesh.ep=2", "parallel.mesh.tp=2"],
            "flagperf cannot divide experts over ranks along ep and tp together | key: parallel.mesh.ep"
            " | given: ep=2, tp=2 | allowed: ep=1 or tp=1; ep combines with dp_replicate, dp_shard and cp",
            id="experts and layers",
        ),
        pytest.param(
            ["parallel.stages=2"],
            f"there are no ranks along pp | key: parallel.stages | given: 2 | allowed: 1{PIPELINE}",
            id="stages of no ranks",
        ),
        pytest.param(
            [*PP2, "parallel.stages=2"],
            "the pipeline has more stages than the network has layers | key: parallel.mesh.pp | given: 4 stages"
            f" | allowed: pp x parallel.stages at most 2, the network.config.num_hidden_layers{PIPELINE}",
            id="stages without layers",
        ),
        pytest.param(
            [*PP2, "division=open", "network.config.tie_word_embeddings=true"],
            "embedding and output layer are one parameter, and the first and the last stage need it"
            f" | key: parallel.mesh.pp | given: 2 stages | allowed: 1{PIPELINE}",
            id="a parameter of two stages",
        ),
        pytest.param(
            [*MIXTRAL, "nproc=2", "parallel.mesh.pp=2"],
            "only the last stage has the loss, and each layer of experts adds the balance of its loads to the loss"
            f" | key: parallel.mesh.pp | given: 2 stages | allowed: 1{PIPELINE}",
            id="a pipeline of experts",
        ),
        pytest.param(
            [*PP2, "precision=amp_fp16"],
            f"a pipeline cannot do this | key: precision | given: amp_fp16 | allowed: fp32, tf32, amp_bf16{PIPELINE}",
            id="a pipeline in fp16",
        ),
        pytest.param(
            [*PP2, "compile=true"],
            "a pipeline compiles blocks, not the whole network | key: compile_modules"
            f" | allowed: the class of a block{PIPELINE}",
            id="a pipeline compiled as a whole",
        ),
        pytest.param(
            [
                *PP2,
                "parallel.stages=2",
                "division=open",
                "network.config.num_hidden_layers=4",
                "global_batch_size=null",
                "gradient_accumulation_steps=3",
            ],
            "the schedule needs another number of micro batches | key: gradient_accumulation_steps | given: 3"
            f" | allowed: a multiple of 2, the ranks along pp{PIPELINE}",
            id="rounds of an interleaved schedule",
        ),
        pytest.param(
            [*PP2, "division=open", "global_batch_size=null", "gradient_accumulation_steps=1"],
            "the schedule needs another number of micro batches | key: gradient_accumulation_steps | given: 1"
            f" | allowed: 2 (the ranks along pp) or more{PIPELINE}",
            id="fewer micro batches than ranks of a pipeline",
        ),
        pytest.param(
            [*TP2, "division=open", "seq_length=127", "parallel.sequence_parallel=true"],
            "the ranks along tp cannot divide a sequence evenly | key: parallel.mesh.tp | given: 2"
            " | allowed: a divisor of 127, the seq_length | do: or parallel.sequence_parallel=false",
            id="length of a sequence",
        ),
        pytest.param(
            [*TP2, "division=open", "network.config.intermediate_size=255"],
            "the ranks along tp cannot divide the network evenly | key: parallel.mesh.tp | given: 2"
            " | allowed: a divisor of 255, the network.config.intermediate_size",
            id="width of the layers between",
        ),
    ],
)
def test_refused_with_the_arguments_of_its_strategy(overrides: list[str], expected: str) -> None:
    first, _, *rest = message(["model=llama3_8b", "nproc=2", *overrides]).splitlines()
    assert " | ".join([first, *(" ".join(line.split()) for line in rest)]) == expected


def test_a_plan_divides_all_layers_that_belong_together(tmp_path: Path) -> None:
    given = {"model.layers.*.mlp.gate_proj": "colwise", "model.layers.*.mlp.up_proj": "colwise"}
    folder = write(tmp_path, {"experiment/halved": GLOBAL + f"parallel: {{plan: {given}}}\n"})
    assert message(["model=llama3_8b", "experiment=halved", *TP2], folder) == lines(
        "the plan divides a part of the layers that ranks compute together",
        where="{bench}/experiment/halved.yaml",
        key="parallel.plan",
        given="model.layers.*.mlp.gate_proj",
        allowed="gate_proj, up_proj, down_proj of one module together, or none of them",
        do="add model.layers.*.mlp.down_proj",
    )


def test_another_strategy_takes_no_arguments_of_the_case_s() -> None:
    job = compose(["model=llama3_8b", "nproc=2", "parallel._target_=null"])
    assert job.config["parallel"] == {"_target_": None, "mesh": WHOLE}
    assert (job.mesh, [change.key for change in job.changes]) == (Mesh(dp_replicate=2), ["parallel._target_"])


def test_a_framework_without_strategies() -> None:
    text = message(["model=bert", "framework=paddle", SHARDED])
    assert text.startswith("no component stands here\n  where:   command line\n  key:     parallel._target_\n")


def test_an_own_strategy_in_an_open_run() -> None:
    job = compose(["model=bert", "division=open", "parallel._target_=mine.Strategy", "parallel.rings=2"])
    assert job.config["parallel"]["_target_"] == "mine.Strategy"


def test_the_samples_of_a_step_are_the_case_s(tmp_path: Path) -> None:
    """A case with a global batch: any mesh, batch and accumulation that give it, and no other."""
    case = GLOBAL + "defaults: [bert, _self_]\ncase: fixed\nglobal_batch_size: 64\ntrain_batch_size: 16\n"
    folder = write(tmp_path, {"model/fixed": case})
    fits = ["model=fixed", "size=full", "data_dir=/data", "nproc=4"]
    assert compose(fits, config_dirs=[folder]).mesh.data_ranks == 4
    halved = [*fits, SHARDED, "parallel.mesh.tp=2", "gradient_accumulation_steps=2"]
    assert compose(halved, config_dirs=[folder]).mesh == Mesh(2, 1, 2)
    assert message([*halved, "train_batch_size=8"], folder) == lines(
        "an optimizer step would have another number of samples than the case requires",
        where="{bench}/model/fixed.yaml",
        key="train_batch_size x gradient_accumulation_steps x data ranks",
        given="8 x 2 x 2 = 32",
        allowed="64, the global_batch_size",
        do="change train_batch_size, gradient_accumulation_steps, or the mesh of parallel",
    )
    assert "a closed run may not change this key" in message([*fits, "global_batch_size=128"], folder)


def test_a_dry_run_shows_the_mesh() -> None:
    shown = dry_run_text(compose([*H100, SHARDED, "parallel.mesh.dp_shard=4", "parallel.mesh.tp=2", "dry_run=true"]))
    batch = compose(H100).train_batch_size
    assert (
        f"""
# Mesh of 16 ranks:
#   strategy: Sharded
#   samples of a step: {batch} x 1 x 8 = {8 * batch} (train_batch_size x gradient_accumulation_steps x data ranks)
#   dp_replicate 2: ranks 0,8 | 1,9 | 2,10 | 3,11 | 4,12 | 5,13 | 6,14 | 7,15
#   dp_shard 4: ranks 0,2,4,6 | 1,3,5,7 | 8,10,12,14 | 9,11,13,15
#   tp 2: ranks 0,1 | 2,3 | 4,5 | 6,7 | 8,9 | 10,11 | 12,13 | 14,15
"""
        in shown
    )
