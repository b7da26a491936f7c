"""Settings that only PyTorch has are refused elsewhere; a shipped case of another framework has none of them."""

from __future__ import annotations

import pytest

from flagperf.config.compose import compose
from flagperf.contract.settings import Settings
from flagperf.errors import ConfigError
from flagperf.trainer.loop.supported import PYTORCH_ONLY, check_supported


def settings(*overrides: str) -> Settings:
    return Settings.read(compose(["nproc=2", *overrides], []).config)


@pytest.mark.parametrize("case", ["paddle/bert", "tensorflow2/resnet50", "mindspore/resnet50"])
def test_a_shipped_case_is_accepted(case: str) -> None:
    check_supported(settings(f"model={case}"), PYTORCH_ONLY, "the framework")


def test_a_side_of_the_mesh_is_refused() -> None:
    sharded = "parallel._target_=flagperf.trainer.pytorch.parallel.Sharded"
    divided = settings("model=glm", sharded, "parallel.mesh.dp_shard=2", "division=open")
    with pytest.raises(ConfigError) as caught:
        check_supported(divided, PYTORCH_ONLY, "PaddlePaddle")
    assert caught.value.key == "parallel"
