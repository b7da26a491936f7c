"""The layers of a job, composed by Hydra: case and size, then tuning, then experiment.

Hydra's defaults list can refer to choices, not to values such as `nnodes=2`. So the choices are composed
first. Then the tuning is found by their hardware and scale, and all is composed again with the tuning.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, reduce
from pathlib import Path

from flagperf.config.files.layer import Choice, Layer, Tree, config_errors, merged
from flagperf.config.files.search_path import CONF, chain, find, options
from flagperf.config.files.user_files import check_user_files
from flagperf.config.schema.job_overrides import JobOverrides
from flagperf.config.schema.keys import GROUPS, SUITE
from flagperf.contract.leaves import differing
from flagperf.errors import ConfigError

EXTENSION = "vendor.extension"  # a vendor's own code
CASE_GROUPS = GROUPS[:-1]  # groups of a case; experiments are separate
OF_MANY = ("hydra", SUITE)  # keys of experiments with many jobs; no part of one job


@dataclass(frozen=True)
class Layers:
    """The layers of a job."""

    case: Layer  # case and size, on the chosen platform; a shipped case without the user's files
    final: Layer  # … with the user's files, tuning and experiment
    by_files: tuple[str, ...]  # keys that the user's files changed in shipped files of the same names
    by_tuning: tuple[str, ...]  # keys that the tuning changed
    by_experiment: tuple[str, ...]
    tuning: str | None  # "vendor/nvidia/glm/A100x2x8"; in a reduced size only for its extension
    note: str | None  # the used tuning, or the existing ones
    files: tuple[str, ...]  # all files, highest precedence first


class Load:
    """Composes files of folders; the last folder is the shipped one. Each composition is kept."""

    def __init__(self, folders: Sequence[Path]) -> None:
        from flagperf.config.files.defaults import Files  # heavy

        self._files = Files(folders)
        self._made: dict[tuple[Choice, ...], Layer] = {}

    def __call__(self, *choices: Choice) -> Layer:
        """The layer of these choices."""
        if choices not in self._made:
            with config_errors():
                parts, chosen = self._files.parts_of(choices)
                nothing: Tree = {}
                tree = reduce(merged, parts, nothing)
            self._made[choices] = Layer({key: value for key, value in tree.items() if key not in OF_MANY}, chosen)
        return self._made[choices]

    def tuned(self, tuning: str, *choices: Choice) -> Layer:
        """The layer of these choices with a tuning below the experiments. Values alone are merged directly."""
        with config_errors():
            parts = None if any(choice.added for choice in choices) else self._files.parts_beside(tuning)
            if parts is None:
                return self(_tuning_choice(tuning), *choices)
            chosen = self(*choices)
            return Layer(reduce(merged, parts, chosen.tree), chosen.choices)


def compose_layers(overrides: JobOverrides, load: Load, folders: Sequence[Path]) -> Layers:
    """Compose case and size, find the tuning, and compose again with the tuning."""
    names = [*overrides.choices.items(), *(("experiment", name) for name in overrides.experiments)]
    check_user_files((f"{group}/{option}" for group, option in names), folders)
    experiments = [Choice("experiment", overrides.experiments, added=True)] if overrides.experiments else []
    choice_list = [*_chosen(overrides.choices), *experiments]
    chosen = load(*choice_list)
    if model := _model_of(overrides.framework, chosen.choices, folders):
        check_user_files([f"model/{model}"], folders)
        choice_list = [*_chosen({**overrides.choices, "model": model}), *experiments]
        chosen = load(*choice_list)
    choices = chosen.choices
    case = load(*_chosen({group: choices[group] for group in CASE_GROUPS})) if overrides.experiments else chosen
    shipped = _as_shipped(case, folders)
    nnodes, nproc = (overrides.values.get(key, chosen.get(key)) for key in ("nnodes", "nproc"))
    tuning, note = _find_tuning(choices, f"{nnodes}x{nproc}", folders)
    files = _files(overrides, choices, tuning, folders)
    check_user_files(files, folders)
    final = load.tuned(tuning, *choice_list) if tuning else chosen
    if tuning and choices["size"] != "full":  # its values are for the full size; its code is for any size
        final, with_tuning = chosen, final
        if with_tuning.get(EXTENSION) != chosen.get(EXTENSION):
            final, note = chosen.with_key(EXTENSION, with_tuning), f"{note} (this size uses only its {EXTENSION})"
        else:
            tuning = note = None
            files = _files(overrides, choices, None, folders)
    return Layers(
        case=shipped,
        final=final,
        by_files=tuple(differing(shipped.leaves, case.leaves)),
        by_tuning=tuple(differing(chosen.leaves, final.leaves)),
        by_experiment=tuple(differing(case.leaves, chosen.leaves)),
        tuning=tuning,
        note=note,
        files=files,
    )


def _as_shipped(case: Layer, folders: Sequence[Path]) -> Layer:
    """The same choices, composed of shipped files where files of the names are shipped.

    So every effect of a user's file on a shipped case is a difference. A user's own options stay as they are.
    """
    if len(folders) == 1 or not find(f"model/{case.choices['model']}", (CONF,)):
        return case
    shipped = [group for group in CASE_GROUPS if find(f"{group}/{case.choices[group]}", (CONF,))]
    chosen = {"size": "full"} | {group: case.choices[group] for group in shipped}
    shipped_layer = _load_shipped(*_chosen(chosen))
    for group in ("vendor", "hardware", "cluster", "runtime"):
        if group not in shipped:
            shipped_layer = shipped_layer.with_part(group, case)
    return shipped_layer


@cache
def _load_shipped(*choices: Choice) -> Layer:
    return Load((CONF,))(*choices)


def _model_of(framework: str | None, choices: Mapping[str, str], folders: Sequence[Path]) -> str | None:
    """The case's file for a framework; None: the chosen file is for this framework."""
    model, default = choices["model"], choices["framework"]
    if framework in (None, default):
        return None
    if find(f"model/{framework}/{model}", folders):
        return f"{framework}/{model}"
    other_frameworks = (name for name in options("framework", folders) if find(f"model/{name}/{model}", folders))
    allowed = ", ".join((default, *other_frameworks))
    raise ConfigError(
        f"the case {model} is not made for this framework", key="framework", given=framework, allowed=allowed
    )


def _chosen(choices: Mapping[str, str]) -> list[Choice]:
    return [Choice(group, option) for group, option in choices.items()]


def _tuning_choice(tuning: str) -> Choice:
    group, _, option = tuning.rpartition("/")
    return Choice(group, option, package="_global_", added=True)


def _find_tuning(choices: Mapping[str, str], scale: str, folders: Sequence[Path]) -> tuple[str | None, str | None]:
    """The tuning for the scale, else for the hardware; and a note for the log."""
    group, hardware = f"vendor/{choices['vendor']}/{choices['model']}", choices["hardware"]
    for name in (f"{group}/{hardware}x{scale}", f"{group}/{hardware}"):
        if path := find(name, folders):
            return name, f"tuning: {path}"
    if choices["size"] != "full":
        return None, None
    exist = ", ".join(options(group, folders)) or "none"
    return None, f"no tuning in {group} for {hardware}x{scale} (there: {exist}); the case's own values are used"


def _files(
    overrides: JobOverrides, choices: Mapping[str, str], tuning: str | None, folders: Sequence[Path]
) -> tuple[str, ...]:
    """The files of a composition, highest precedence first."""
    of_tuning = (tuning, f"{tuning.rpartition('/')[0]}/{choices['hardware']}") if tuning else ()
    model = choices["model"]
    group_files = (
        f"{group}/{choice}" for group, choice in choices.items() if not re.match(r"hydra/|model$|size", group)
    )
    return (
        *(f"experiment/{name}" for name in reversed(overrides.experiments)),
        *of_tuning,
        *chain(f"size/{choices['size']}/{model}", folders),
        f"size/{choices['size']}",
        *chain(f"model/{model}", folders),
        *group_files,
        "training",
        "config",
    )
