"""Every case is what its file in conf/fingerprint/ states, and what a closed run may do changes none of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import framework_environment
import pytest
import torch
import yaml
from shipped import CASES
from torch import nn

from cases.fingerprint import SIZES, config_of, header, stated
from flagperf.config.files.search_path import CONF, family_of
from flagperf.contract.components import component
from flagperf.trainer.pytorch.build import recompute
from flagperf.trainer.pytorch.fingerprint import fingerprint

PARAMETERS = [
    pytest.param(
        case,
        size,
        id=f"{case} {size}",
        marks=[] if size == "tiny" and case == family_of(case, (CONF,)) else [pytest.mark.slow],
    )
    for case in CASES
    for size in SIZES
    if (case, size) != ("resnet50", "full")
]


def read(case: str) -> str:
    return Path(CONF, f"fingerprint/{case}.yaml").read_text(encoding="utf-8")


@pytest.mark.parametrize(("case", "size"), [pytest.param("resnet50", "full", id="resnet50 full"), *PARAMETERS])
def test_a_case_is_what_it_states(case: str, size: str) -> None:
    """Renew the file by the command in its first line where this fails and the case is meant to be another one."""
    config = config_of(case, size)
    found = stated(config)
    wanted = yaml.safe_load(read(case))[size]
    forward, counted = wanted.pop("forward"), found.pop("forward")
    assert found == wanted
    assert counted["operations"] == pytest.approx(forward["operations"], rel=forward["within"])
    assert read(case).startswith(header(case, config))


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(f"{path.parent.name}/{path.stem}", marks=getattr(pytest.mark, path.parent.name))
        for path in sorted((CONF / "model").glob("*/*.yaml"))
    ],
)
def test_a_case_on_another_framework_is_what_it_states(case: str) -> None:
    code = f"from cases.fingerprint import text; print(text({case!r}), end='')"
    done = framework_environment.run(case.partition("/")[0], "-c", code)
    assert done.returncode == 0, done.stderr
    assert done.stdout == read(case), "renew it: see the file's first line"


def tiny_resnet() -> nn.Module:
    network: nn.Module = component(config_of("resnet50", "tiny"), "network")
    return network


def with_sync_bn(network: nn.Module) -> nn.Module:
    return nn.SyncBatchNorm.convert_sync_batchnorm(network)


def recomputing(network: nn.Module) -> nn.Module:
    recompute(network, "torchvision.models.resnet.Bottleneck")
    return network


HONEST: Mapping[str, Callable[[nn.Module], Any]] = {
    "batch norm over all ranks": with_sync_bn,
    "activations computed again": recomputing,
    "channels last": lambda network: network.to(memory_format=torch.channels_last),
    "evaluated": nn.Module.eval,
}


@pytest.mark.parametrize("change", HONEST.values(), ids=HONEST.keys())
def test_what_a_closed_run_may_do_changes_nothing(change: Callable[[nn.Module], nn.Module]) -> None:
    assert fingerprint(change(tiny_resnet())) == fingerprint(tiny_resnet())
