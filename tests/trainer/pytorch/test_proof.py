"""Whether a vendor's own code does what the case does: what is shown of code that does, and of code that does not."""

from __future__ import annotations

from typing import Any

import pytest
import toy

from flagperf.contract.perflog import Event, parse
from flagperf.errors import ConfigError
from flagperf.trainer.pytorch.proof import prove
from flagperf.trainer.start.extension import (
    REPLACED_PARTS,
    apply_extension,
    import_modules,
    local_file_hashes,
    parameter_renaming,
)

WITHIN = 1e-3
NAMES = {r"^body\.": ""}
SGD = {"_target_": "torch.optim.SGD", "lr": 0.1, "momentum": 0.9, "weight_decay": 1e-5}


def config(**extension: Any) -> dict[str, Any]:
    vendor = {"name": "cpu", "device": "cpu", "backend": "gloo", "plugin": None, "visible_devices": None}
    return toy.config(vendor={**vendor, "extension": extension}, optimizer=SGD)


def part(name: str) -> dict[str, Any]:
    return {"_target_": f"kernels.{name}"}


@pytest.mark.parametrize(
    ("extension", "differing"),
    [
        pytest.param({"replace": {"optimizer": part("SGD")}}, set(), id="an optimizer of the same algorithm"),
        pytest.param({"replace": {"optimizer": part("WithoutDecay")}}, {"optimizer"}, id="one that forgets to decay"),
        pytest.param({"replace": {"optimizer": {"momentum": 0.8, **part("SGD")}}}, {"weights", "optimizer"}, id="less"),
        pytest.param({"replace": {"network": part("network")}, "names": NAMES}, set(), id="a network, other names"),
        pytest.param({"network_hook": "kernels.Wrapped", "names": NAMES}, set(), id="a hook that wraps the network"),
        pytest.param({"network_hook": "kernels.linear"}, {"loss", "weights"}, id="a hook that takes functions out"),
        pytest.param(
            {"network_hook": "kernels.Mirrored", "names": NAMES}, {"evaluation"}, id="other answers when evaluated"
        ),
        pytest.param({"replace": {"loader": part("Ahead")}}, set(), id="a loader of the same data"),
        pytest.param({"replace": {"loader": part("Rounded")}}, {"batches"}, id="a loader of other numbers"),
        pytest.param({"modules": ["kernels"]}, set(), id="a module"),
    ],
)
def test_differences(extension: dict[str, Any], differing: set[str]) -> None:
    found = prove(config(**extension))
    assert {what for what, value in found["differences"].items() if value > WITHIN} >= differing
    if not differing:
        assert max(found["differences"].values()) <= WITHIN
    assert ("optimizer" in found["differences"]) == ("optimizer" in extension.get("replace", {}))
    assert found["same_modules"] == ("names" not in extension and "network_hook" not in extension)
    assert found["steps"] == 20
    assert parse(Event("PROOF", found).line()) is not None


@pytest.mark.parametrize(
    ("given", "same"),
    [
        pytest.param({"_target_": "torch.optim.AdamW", "fused": True}, True, id="a kernel of the same algorithm"),
        pytest.param({"_target_": "torch.optim.Adam"}, False, id="weight decay by way of the gradients"),
        pytest.param({"_target_": "torch.optim.AdamW", "weight_decay": 0.0}, False, id="no weight decay"),
    ],
)
def test_optimizers_on_the_same_gradients(given: dict[str, Any], same: bool) -> None:
    """What the weights alone would not show: without decay they differ by 0.02 % after twenty steps."""
    adamw = {"_target_": "torch.optim.AdamW", "lr": 1e-3, "weight_decay": 0.01}
    found = prove({**config(replace={"optimizer": given}), "optimizer": adamw})
    assert (found["differences"]["optimizer"] <= WITHIN) == same


@pytest.mark.parametrize(
    ("extension", "said"),
    [
        pytest.param(
            {"replace": {"network": part("wide")}},
            "0.weight is [32, 8], the case has [16, 8]; 3 parameters and buffers differ",
            id="other shapes",
        ),
        pytest.param(
            {"network_hook": "kernels.Wrapped"},
            "0.weight is not there, the case has [16, 8]; 8 parameters and buffers differ",
            id="names that nothing maps",
        ),
        pytest.param(
            {"network_hook": "kernels.frozen"},
            "0.weight stays as it is in the vendor's; 2 parameters do so",
            id="frozen",
        ),
    ],
)
def test_another_network(extension: dict[str, Any], said: str) -> None:
    found = prove(config(**extension))
    assert (found["other_network"], "differences" in found) == (said, False)


def test_the_vendors_classes_get_the_arguments_of_the_case() -> None:
    given = config(replace={"optimizer": {**part("SGD"), "lr": 0.5}, "loader": part("Ahead")})
    own = {REPLACED_PARTS: {"optimizer": SGD, "loader": None}}
    assert apply_extension(given) == {
        **given,
        "optimizer": {**SGD, **part("SGD"), "lr": 0.5},
        "loader": part("Ahead"),
        **own,
    }


def test_a_module_that_cannot_be_imported() -> None:
    with pytest.raises(ConfigError) as caught:
        import_modules(config(modules=["no_such_kernels"]))
    assert str(caught.value) == (
        "a module of the vendor's own code cannot be imported\n  where:   config.yaml\n"
        "  key:     vendor.extension.modules\n  given:   no_such_kernels\n  do:      No module named 'no_such_kernels'"
    )


def test_names_are_replaced_in_order() -> None:
    rename = parameter_renaming(config(names={r"^body\.": "", r"blocks\.(\d+)": r"layer\1"}))
    assert [rename(name) for name in ("body.blocks.3.weight", "head.bias")] == ["layer3.weight", "head.bias"]


def test_the_files_that_a_rank_finds() -> None:
    found = local_file_hashes({"extension": {"files": {"kernels.py": "", "no/such.py": ""}}})
    assert (len(found["kernels.py"]), found["no/such.py"]) == (64, "")
