"""Composes one JobConfig in five steps: check layers, resolve, type, complete, remove secrets."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from flagperf.config.files.algorithms import with_algorithms
from flagperf.config.files.layer import Layer
from flagperf.config.files.layers import Layers, Load, compose_layers
from flagperf.config.files.provenance import origin
from flagperf.config.files.search_path import with_name
from flagperf.config.files.user_files import own_files
from flagperf.config.parts import batch_size
from flagperf.config.parts.data_layout import data_dir, data_section, extent
from flagperf.config.parts.fingerprint import stated_fingerprint
from flagperf.config.parts.image import image_note
from flagperf.config.parts.names import check_users, names, size
from flagperf.config.parts.platform import check_hardware_chosen, container_options, image, typed_parts
from flagperf.config.parts.reach import with_reach
from flagperf.config.parts.reference_points import reference_points
from flagperf.config.parts.strategy import own_arguments, parallel, with_whole_network
from flagperf.config.parts.writers import with_classes
from flagperf.config.rules.alignment import alignment_record
from flagperf.config.rules.changes import changes_of, described
from flagperf.config.rules.classes import check_places, other_libraries
from flagperf.config.rules.extension import check_extension, recorded, with_folder, without_proof
from flagperf.config.rules.own_code import own_code, replacing_code
from flagperf.config.rules.restarts import check_restarts
from flagperf.config.rules.secrets import keep_secrets, refuse_bytes, refuse_variables, too_short
from flagperf.config.rules.settable import CaseRules
from flagperf.config.schema.framework import local_python
from flagperf.config.schema.job_overrides import JobOverrides
from flagperf.config.schema.keys import IN_NAME, is_platform
from flagperf.config.schema.limits import Limits
from flagperf.config.schema.values import JobConfig, Typed
from flagperf.contract.build import Where, values_of_fields
from flagperf.contract.records import Change
from flagperf.contract.sent_code import identities


@dataclass(frozen=True)
class _Checked:
    """The layers of a job and the values of the command line, checked by the rules of the case."""

    layers: Layers
    final: Layer
    later: tuple[str, ...]  # keys set by tuning, experiment or command line
    changes: tuple[Change, ...]
    rules: CaseRules
    where: Where
    auto: bool  # whether a run finds the batch size …
    sizes: tuple[int, ...] | None  # … among these sizes; None: any size


def compose_job(overrides: JobOverrides, load: Load, folders: Sequence[Path]) -> JobConfig:
    """Compose one job.

    Args:
        load: composes files of the folders.
        folders: the search path.

    Raises:
        ConfigError: a key or value is wrong.
    """
    checked = _check_layers(overrides, load, folders)
    resolved, data_note = _resolve(checked, folders)
    typed = _typed(resolved, folders, checked.where)
    check_restarts(resolved, checked.where)
    completed, extension_note = _complete(resolved, typed, checked, "division" in overrides.values, folders)
    without_secrets = keep_secrets(completed, typed, overrides, checked.final.leaves, checked.where)

    size_note = batch_size.note(checked.final) if checked.auto else None
    chosen_image = image(typed, checked.where, dry_run=completed["dry_run"])
    image_text = image_note(chosen_image, typed) if completed["dry_run"] else None
    notes = (checked.layers.note, data_note, image_text, extension_note, size_note, *too_short(without_secrets.secrets))
    compose_again = partial(_compose_alone, folders=folders)
    fields: dict[str, Any] = {  # all other fields are values of the configuration
        **vars(typed),
        "vendor": without_secrets.vendor,
        "limits": Limits(**values_of_fields(Limits, completed)),
        "config": without_secrets.config,
        "extent": extent(completed, checked.where),
        "strategy": completed["parallel"]["_target_"],
        "mesh": parallel(completed, checked.where),
        "container": container_options(typed.runtime, typed.vendor, typed.cluster),
        "image": chosen_image,
        "local_python": local_python(typed.framework),
        "python_path": os.environ.get("PYTHONPATH", ""),
        "changes": checked.changes,
        "sweep": {key: value for key, value in overrides.swept.items() if key not in IN_NAME},
        "tuning": checked.layers.tuning and checked.layers.tuning.removeprefix("vendor/"),
        "changed": partial(_changed, overrides, compose_again),
        "sized": partial(batch_size.with_size, overrides, compose_again) if checked.auto else None,
        "sizes": checked.sizes,
        "notes": tuple(note for note in notes if note),
        "where": checked.where,
        "secrets": without_secrets.secrets,
        "mask": without_secrets.mask,
    }
    return JobConfig(**{**values_of_fields(JobConfig, without_secrets.config), **fields})


def _compose_alone(overrides: JobOverrides, folders: Sequence[Path]) -> JobConfig:
    return compose_job(overrides, Load(folders), folders)


def _changed(
    overrides: JobOverrides, compose: Callable[[JobOverrides], JobConfig], values: Mapping[str, Any]
) -> JobConfig:
    """The job with other values of the command line, composed again."""
    return compose(replace(overrides, values={**overrides.values, **values}))


def _check_layers(overrides: JobOverrides, load: Load, folders: Sequence[Path]) -> _Checked:
    """Set the values of the command line over the layers, and check them against the case's rules."""
    layers = compose_layers(overrides, load, folders)
    check_hardware_chosen(layers.final, overrides.choices, folders)
    where = origin(layers.files, folders, overrides.values, overrides.experiment_of)
    layers = with_reach(layers, where)
    rules = CaseRules.of(layers, folders, where)
    rules.check_keys(overrides, layers, where)

    layers = with_algorithms(layers, overrides, folders, where)
    later = (*overrides.values, *layers.by_tuning, *layers.by_experiment)
    final = layers.final.with_values(overrides.values)
    refuse_variables(final.leaves, where)
    refuse_bytes(final.leaves, where)
    check_users(final.leaves, where)
    changed = changes_of(final, layers, overrides, folders, where)

    sizes = None
    if auto := batch_size.is_auto(final):
        sizes = batch_size.fitting(final, where)
        final = batch_size.with_own_size(final, layers.case, sizes)
    final = with_whole_network(final, layers.case, later)
    final = batch_size.with_micro_steps(final, where)
    rules.check_values(layers.case, final, [change.key for change in changed if not is_platform(change.key)], where)
    if final.get("division") == "closed":
        free = described(overrides, layers)
        rules.check_closed((change for change in changed if change.key not in free), where)
    return _Checked(layers, final, later, changed, rules, where, auto, sizes)


def _resolve(checked: _Checked, folders: Sequence[Path]) -> tuple[dict[str, Any], str | None]:
    """The whole configuration as plain data, with flagperf's own keys; and a note on its data."""
    final, case, where = checked.final, checked.layers.case, checked.where
    folder, note = data_dir(final)
    config = final.with_values({**names(final), "data_dir": folder, "size": size(final, folders)}).resolved()
    config["reports"] = with_classes(config["reports"], where)
    check_places(config, final.leaves, case.leaves, checked.rules, where)
    option = with_name(final.choices["model"], config["case"])
    fingerprint = stated_fingerprint(option, config["size"], folders)
    config |= {
        "revision": config.get("revision", 1),
        "mutable": list(checked.rules.mutable),
        "data": data_section(config),
        "fingerprint": fingerprint,
        "code": identities(),
        "parallel": own_arguments(config["parallel"], final, case, checked.later),
    }
    if points := reference_points(option, config, folders):
        config["reference_points"] = points
    return config, note


def _typed(config: dict[str, Any], folders: Sequence[Path], where: Where) -> Typed:
    """The typed parts of the configuration. The vendor has the checked folder of its own code."""
    typed = typed_parts(config, where)
    vendor = with_folder(replace(typed.vendor, frameworks={}, stacks={}), folders)
    check_extension(vendor, typed.framework, where)
    return replace(typed, vendor=vendor)


def _complete(
    config: dict[str, Any], typed: Typed, checked: _Checked, division_chosen: bool, folders: Sequence[Path]
) -> tuple[dict[str, Any], str | None]:
    """The configuration with a record of own code, and without unused alternatives; and a note on an extension.

    Raises:
        ConfigError: in a closed job, own code would replace code of flagperf or its libraries.
    """
    if extension := recorded(typed.vendor, config):
        config = {**config, "extension": extension}
    if alignment := alignment_record(config, folders, checked.where):
        config = {**config, "alignment_record": alignment}
    replaced = [
        *replacing_code(config, typed, checked.where),
        *other_libraries(config, typed.framework, checked.where),
    ]
    if config["division"] == "closed" and replaced:
        raise replaced[0]
    option = with_name(checked.final.choices["model"], config["case"])
    stated = [f"{group}/{option}" for group in ("fingerprint", "convergence")]
    files = own_files([*checked.layers.files, *stated], folders)
    secrets = {"secrets": ", ".join(typed.cluster.secrets)} if typed.cluster.secrets else {}
    division, note = without_proof(config, division_chosen)
    return {
        **config,
        "own": {**files, **own_code(config, typed, replaced), **secrets},
        # Reports need `main`. Ranks log their configuration, in which the patterns of `failures` would match.
        "framework": {**_without(config["framework"], "failures"), "main": typed.framework.main},
        "vendor": _without(config["vendor"], "frameworks", "stacks"),  # the used entries are among the vendor's keys
        "division": division,
    }, note


def _without(part: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in part.items() if name not in names}
