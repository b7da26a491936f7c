"""One job → JobConfig: lay its values over its layers, check them, resolve them, build typed values of them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from flagperf.config.files.algorithms import with_algorithms
from flagperf.config.files.layer import Layer
from flagperf.config.files.layers import Layers, Load, compose_layers
from flagperf.config.files.provenance import changes, origin
from flagperf.config.files.search_path import find, is_shipped, with_name
from flagperf.config.files.sweep import JobOverrides
from flagperf.config.files.user_files import own_files
from flagperf.config.parts import batch_size
from flagperf.config.parts.fingerprint import stated_fingerprint
from flagperf.config.parts.reach import with_reach
from flagperf.config.parts.resolve import (
    check_hardware_chosen,
    check_users,
    cluster,
    container_options,
    data_dir,
    data_section,
    extent,
    hardware,
    image,
    names,
    runtime,
    size,
    vendor,
)
from flagperf.config.parts.strategy import own_arguments, parallel, with_whole_network
from flagperf.config.parts.writers import with_classes
from flagperf.config.rules.classes import check_places, other_libraries
from flagperf.config.rules.extension import check_extension, recorded, with_folder, without_proof
from flagperf.config.rules.own_code import own_code, takes_place
from flagperf.config.rules.secrets import keep_secrets, too_short
from flagperf.config.rules.settable import CaseRules
from flagperf.config.schema.cluster import Cluster
from flagperf.config.schema.framework import framework, local_python
from flagperf.config.schema.keys import IN_NAME, is_platform, is_under
from flagperf.config.schema.platform import Framework, Hardware, RuntimeSettings, Vendor
from flagperf.config.schema.values import AutoBatch, Deadlines, JobConfig, Limits, MonitorIntervals
from flagperf.contract.build import Where, build, of_same_name
from flagperf.contract.records import Change
from flagperf.contract.sent_code import identities
from flagperf.contract.target import Target

PRODUCT = ("hardware.device_names", "hardware.vendor", "hardware.peak_flops")  # what a product's name stands for


@dataclass(frozen=True)
class _Laid:
    """The values of a job over its layers, as the rules of its case allow them."""

    layers: Layers
    final: Layer
    changes: tuple[Change, ...]
    rules: CaseRules
    where: Where
    auto: bool  # whether its batch size is to be found …
    sizes: tuple[int, ...] | None  # … among these; None: any


@dataclass(frozen=True)
class _Platform:
    """Where a job runs, typed and checked."""

    framework: Framework
    hardware: Hardware
    vendor: Vendor
    cluster: Cluster
    runtime: RuntimeSettings


def compose_job(overrides: JobOverrides, load: Load, folders: Sequence[Path]) -> JobConfig:
    """Compose one job.

    Args:
        load: composes files of the folders.
        folders: the search path.

    Raises:
        ConfigError: something in it is wrong.
    """
    laid = _lay(overrides, load, folders)
    where = laid.where
    config, data_note = _resolve(laid, folders)
    config["parallel"] = own_arguments(config["parallel"], laid.final, laid.layers.case, _later(overrides, laid.layers))
    platform = _platform(config, folders, where)
    _record(config, laid, platform, folders)
    extension_note = without_proof(config, "division" in overrides.values)
    kept = keep_secrets(config, platform.vendor, platform.cluster, overrides, where)
    size_note = batch_size.note(laid.final) if laid.auto else None
    notes = (laid.layers.note, data_note, extension_note, size_note, *too_short(kept.secrets))
    anew = partial(_compose_alone, folders=folders)
    built: dict[str, Any] = {  # beside the fields that are values of the configuration
        **vars(platform),
        "vendor": kept.vendor,
        "target": build(Target, config["target"], "target", where) if config["target"] else None,
        "deadlines": build(Deadlines, config["deadlines"], "deadlines", where),
        "monitor": build(MonitorIntervals, config["monitor"], "monitor", where),
        "auto_batch": build(AutoBatch, config["auto_batch"], "auto_batch", where),
        "limits": Limits(**of_same_name(Limits, config)),
        "config": kept.config,
        "extent": extent(config, where),
        "strategy": config["parallel"]["_target_"],
        "mesh": parallel(config, where),
        "container": container_options(platform.runtime, platform.vendor, platform.cluster),
        "image": image(platform.runtime, platform.vendor, platform.framework, platform.cluster, where),
        "local_python": local_python(platform.framework),
        "python_path": os.environ.get("PYTHONPATH", ""),
        "changes": laid.changes,
        "sweep": {key: value for key, value in overrides.swept.items() if key not in IN_NAME},
        "tuning": laid.layers.tuning and laid.layers.tuning.removeprefix("vendor/"),
        "sized": partial(batch_size.with_size, overrides, anew) if laid.auto else None,
        "sizes": laid.sizes,
        "notes": tuple(note for note in notes if note),
        "where": where,
        "secrets": kept.secrets,
        "mask": kept.mask,
    }
    return JobConfig(**{**of_same_name(JobConfig, kept.config), **built})


def _compose_alone(overrides: JobOverrides, folders: Sequence[Path]) -> JobConfig:
    return compose_job(overrides, Load(folders), folders)


def _lay(overrides: JobOverrides, load: Load, folders: Sequence[Path]) -> _Laid:
    """Lay the values of the command line over the layers, and check them against the case's rules."""
    layers = compose_layers(overrides, load, folders)
    check_hardware_chosen(layers.final, overrides.choices, folders)
    where = origin(layers.files, folders, overrides.values)
    layers = with_reach(layers, where)
    rules = CaseRules.of(layers, folders, where)

    rules.check_keys(overrides, layers, where)
    layers = with_algorithms(layers, overrides, folders, where)
    final = layers.final.with_values(overrides.values)
    check_users(final.leaves, where)
    changed = changes(layers.case.leaves, final.leaves, _source(overrides, layers, folders, where))
    sizes = None
    if auto := batch_size.is_auto(final):
        sizes = batch_size.fitting(final, where)
        final = batch_size.with_own_size(final, layers.case, sizes)
    final = with_whole_network(final, layers.case, _later(overrides, layers))
    final = batch_size.with_micro_steps(final, where)
    rules.check_values(layers.case, final, [change.key for change in changed if not is_platform(change.key)], where)
    if final.get("division") == "closed":
        described = _described(overrides, layers)
        rules.check_closed((change for change in changed if change.key not in described), where)
    return _Laid(layers, final, changed, rules, where, auto, sizes)


def _later(overrides: JobOverrides, layers: Layers) -> tuple[str, ...]:
    """Keys that were set after the case."""
    return (*overrides.values, *layers.by_tuning, *layers.by_experiment)


def _resolve(laid: _Laid, folders: Sequence[Path]) -> tuple[dict[str, Any], str | None]:
    """The whole configuration as plain data, with what flagperf itself adds; and a note on its data."""
    final, case = laid.final, laid.layers.case.leaves
    folder, note = data_dir(final)
    config = final.with_values({**names(final), "data_dir": folder, "size": size(final, folders)}).resolved()
    config["reports"] = with_classes(config["reports"], laid.where)
    check_places(config, final.leaves, case, laid.rules, laid.where)
    fingerprint = stated_fingerprint(with_name(final.choices["model"], config["case"]), config["size"], folders)
    config |= {
        "revision": config.get("revision", 1),
        "mutable": list(laid.rules.mutable),
        "data": data_section(config),
        "fingerprint": fingerprint,
        "code": identities(),
    }
    return config, note


def _platform(config: dict[str, Any], folders: Sequence[Path], where: Where) -> _Platform:
    """Framework, product, vendor, hosts and runtime of the job."""
    stack, product = framework(config, where), hardware(config, where)
    maker, hosts = replace(vendor(config, product, where), frameworks={}, stacks={}), cluster(config, where)
    maker = with_folder(maker, folders)
    check_extension(maker, stack, where)
    return _Platform(stack, product, maker, hosts, runtime(config, where))


def _record(config: dict[str, Any], laid: _Laid, platform: _Platform, folders: Sequence[Path]) -> None:
    """Put into the configuration what is not the case's own, and leave out of it what does not count.

    Raises:
        ConfigError: own code would take the place of what flagperf and its libraries ship, in a closed job.
    """
    maker, where = platform.vendor, laid.where
    if extension := recorded(maker, config):
        config["extension"] = extension
    replaced = [
        *takes_place(config, maker, platform.runtime, platform.cluster, where),
        *other_libraries(config, platform.framework, where),
    ]
    if config["division"] == "closed" and replaced:
        raise replaced[0]
    stated = f"fingerprint/{with_name(laid.final.choices['model'], config['case'])}"
    config["own"] = {**own_files([*laid.layers.files, stated], folders), **own_code(config, maker, replaced)}
    if platform.cluster.secrets:
        config["own"]["secrets"] = ", ".join(platform.cluster.secrets)
    config["framework"]["main"] = platform.framework.main  # for reports: results of older runs do not say it
    config["framework"].pop("failures", None)  # ranks log their configuration: it would be found in their own logs
    for part in ("frameworks", "stacks"):
        config["vendor"].pop(part, None)  # what it says of this one stands among the vendor's own keys


def _described(overrides: JobOverrides, layers: Layers) -> set[str]:
    """Keys of a shipped vendor or product that the user's own file says otherwise, and nothing after it.

    By what flagperf states of a product readers know it: that stays.
    """
    later = {*layers.by_tuning, *layers.by_experiment}
    stated = {key for key in layers.by_files if is_under(key, PRODUCT) and layers.case.leaves.get(key)}
    return {
        key
        for key in layers.by_files
        if is_under(key, ("vendor", "hardware"))
        and key not in {*later, *stated}
        and not is_under(key, overrides.values)
    }


def _source(overrides: JobOverrides, layers: Layers, folders: Sequence[Path], where: Where) -> Callable[[str], str]:
    """A function from a changed key to what changed it, as text. A tuning may lie over the one for the hardware."""
    tunings = {str(find(name, folders)): name for name in layers.files if re.match("vendor/.*/", name)}

    def source(key: str) -> str:
        if is_under(key, overrides.values):
            of_suite = next((name for said, name in overrides.suites.items() if is_under(key, (said,))), None)
            return f"experiment {of_suite}" if of_suite else "command line"
        if key in layers.by_experiment:
            return f"experiment {', '.join(overrides.experiments)}"
        if key in layers.by_tuning:
            return f"tuning {tunings.get(where(key), layers.tuning or '').removeprefix('vendor/')}"
        file = where(key)
        return "a file of --config-dir" if is_shipped(Path(file)) else file

    return source
