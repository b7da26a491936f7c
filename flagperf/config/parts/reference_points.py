"""Reads the reference points of a case: convergence/<case>.yaml, written by `python -m cases.convergence`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from flagperf.config.files.read_once import read_yaml
from flagperf.config.files.search_path import find
from flagperf.config.files.user_files import not_yaml
from flagperf.errors import ConfigError


def reference_points(option: str, config: Mapping[str, Any], folders: Sequence[Path]) -> dict[str, Any] | None:
    """The reference points for the size, revision and target of a configuration; None: there are none.

    Args:
        option: the case, as the group `model` names it.

    Raises:
        ConfigError: the file has another form.
    """
    path = find(f"convergence/{option}", folders)
    if path is None:
        return None
    try:
        content = read_yaml(path)
        reference = content["sizes"].get(config["size"])
        if reference is None or reference["target"] != config["target"] or content["revision"] != config["revision"]:
            return None
        points = [{"batch": point["batch"], "samples": list(point["samples"])} for point in reference["points"]]
        return {"source": reference["source"], "rounds": reference["rounds"], "points": points}
    except yaml.YAMLError as error:
        raise not_yaml(error) from None
    except (KeyError, TypeError, AttributeError) as error:
        problem = f"this is no file of reference points: {type(error).__name__}: {error}"
        advice = f"python -m cases.convergence {config['case']} writes the file"
        raise ConfigError(problem, where=str(path), advice=advice) from None
