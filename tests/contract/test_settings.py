"""The settings of a training: one declaration, which the YAML file and the launcher's checks follow."""

from __future__ import annotations

from typing import Any

import pytest
import toy_config
import yaml

from flagperf.contract.settings import Average, Settings, training_yaml
from flagperf.contract.target import Target
from flagperf.errors import ConfigError


def test_the_yaml_file_is_up_to_date() -> None:
    """Where it is not: python -m flagperf.contract.settings > conf/training.yaml"""
    assert (toy_config.ROOT / "conf" / "training.yaml").read_text(encoding="utf-8") == training_yaml()


def test_the_yaml_file_says_what_is_declared() -> None:
    values = yaml.safe_load(training_yaml())
    assert list(values) == list(Settings.__dataclass_fields__)
    needed = {key: value for key, value in values.items() if value == "???"}
    assert list(needed) == ["train_batch_size", "eval_batch_size", "lr"]
    assert values["ema"] == {"decay": None, "every": 1}


def test_reads_a_configuration() -> None:
    target = {"metric": "accuracy", "value": 0.9, "direction": "higher"}
    settings = Settings.read(toy_config.config(target=target, ema={"decay": 0.9, "every": 2}))
    assert (settings.target, settings.ema) == (Target("accuracy", 0.9, "higher"), Average(0.9, 2))
    assert (settings.train_batch_size, settings.lr, settings.precision) == (8, 0.1, "fp32")


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "nothing ends it": (
        {"max_epochs": None},
        "nothing would ever end this training\n"
        "  where:   config.yaml\n"
        "  key:     max_steps | max_epochs | max_samples_termination | max_time | target",
    ),
    "no evaluation data": (
        {"eval_data": None},
        "there is no evaluation data\n"
        "  where:   config.yaml\n"
        "  key:     eval_data\n"
        "  given:   null\n"
        "  do:      without it, set target and all settings eval_interval_… to null",
    ),
}


@pytest.mark.parametrize(("settings", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_refuses(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Settings.read(toy_config.config(**settings))
    assert str(refused.value) == message


def test_a_setting_is_missing() -> None:
    config = toy_config.config()
    del config["log_freq"]
    with pytest.raises(ConfigError, match=r"^a setting of the training is missing\n.*\n  key:     log_freq$"):
        Settings.read(config)
