"""Overrides → RunConfig: compose the layers of each job, apply the command line, check it all, build typed values."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from flagperf.config import batch_size
from flagperf.config.algorithms import with_algorithms
from flagperf.config.build import build, of_same_name
from flagperf.config.classes import check_places, other_libraries
from flagperf.config.extension import check_extension, recorded, with_folder, without_proof
from flagperf.config.fingerprint import stated_fingerprint
from flagperf.config.framework import framework, local_python
from flagperf.config.keys import IN_NAME, SCALE, is_platform, is_under
from flagperf.config.layers import Layers, Load, compose_layers, hydra_session
from flagperf.config.own_code import own_code, takes_place
from flagperf.config.platform import RuntimeSettings
from flagperf.config.provenance import Where, changes, origin
from flagperf.config.reach import with_reach
from flagperf.config.resolve import (
    check_hardware_chosen,
    check_hosts,
    cluster,
    container_options,
    data_dir,
    data_section,
    extent,
    hardware,
    image,
    names,
    size,
    vendor,
)
from flagperf.config.rules import CaseRules
from flagperf.config.search_path import find, is_shipped, search_path, with_name
from flagperf.config.secret_values import keep_secrets, too_short
from flagperf.config.sweep import Job, make_jobs
from flagperf.config.user_files import own_files
from flagperf.config.values import AutoBatch, Deadlines, Limits, MonitorIntervals, RunConfig
from flagperf.errors import ConfigError
from flagperf.secret import shown
from flagperf.target import Target
from flagperf.trainer.sent_code import identities


def compose(overrides: Sequence[str], config_dirs: Sequence[Path] = ()) -> RunConfig:
    """Compose one job. Raises ConfigError."""
    return compose_jobs(overrides, config_dirs=config_dirs)[0]


def compose_jobs(
    overrides: Sequence[str], *, multirun: bool = False, config_dirs: Sequence[Path] = ()
) -> list[RunConfig]:
    """Compose all jobs of a command. One that is wrong refuses the whole command, before anything runs.

    Args:
        overrides: `key=value`, in Hydra's grammar.
        multirun: a comma list, choice(), range() or glob() makes one job per value. Of several scales those are left
            out, with a note, that the cluster or its nodes are too small for.
        config_dirs: the user's own configuration folders; the first has precedence.
    """
    folders = search_path(config_dirs)
    jobs = make_jobs(overrides, multirun, folders)
    runs: list[RunConfig] = []
    left_out: list[str] = []
    with hydra_session(folders) as load:
        for number, job in enumerate(jobs, start=1):
            try:
                run = _compose_job(job, load, folders)
                if SCALE in job.swept:
                    check_hosts(run)
                runs.append(run)
            except ConfigError as error:
                if SCALE in job.swept and error.key in ("nnodes", "nproc"):
                    left_out.append(f"scale {job.swept[SCALE]} is left out: {error.problem}; allowed: {error.allowed}")
                    continue
                if len(jobs) == 1:
                    raise
                swept = " ".join(f"{key}={shown(value, key)}" for key, value in job.swept.items())
                raise error.within(f"job {number} of {len(jobs)} ({swept})") from error
    return [replace(run, notes=(*left_out, *run.notes)) if run is runs[0] else run for run in runs]


def compose_each(commands: Iterable[Sequence[str]], config_dirs: Sequence[Path] = ()) -> list[RunConfig | ConfigError]:
    """Compose one job of each command. One that is wrong gives its error and does not stop the others."""
    folders = search_path(config_dirs)
    found: list[RunConfig | ConfigError] = []
    with hydra_session(folders) as load:
        for overrides in commands:
            try:
                (job,) = make_jobs(overrides, False, folders)
                found.append(_compose_job(job, load, folders))
            except ConfigError as error:
                found.append(error)
    return found


def _compose_alone(job: Job, folders: Sequence[Path]) -> RunConfig:
    with hydra_session(folders) as load:
        return _compose_job(job, load, folders)


def _compose_job(job: Job, load: Load, folders: Sequence[Path]) -> RunConfig:
    layers = compose_layers(job, load, folders)
    check_hardware_chosen(layers.final, job.choices, folders)
    where = origin(layers.files, folders, job.values)
    layers = with_reach(layers, where)
    rules = CaseRules.of(layers, folders, where)

    rules.check_keys(job, layers, where)
    layers = with_algorithms(layers, job, folders, where)
    final = layers.final.with_values(job.values)
    changed = changes(layers.case.leaves, final.leaves, _source(job, layers, folders, where))
    if auto := batch_size.is_auto(final):
        final = batch_size.with_own_size(final, layers.case)
    rules.check_values(layers.case, final, [change.key for change in changed if not is_platform(change.key)], where)
    closed = final.get("division") == "closed"
    if closed:
        described = _described(job, layers)
        rules.check_closed((change for change in changed if change.key not in described), where)

    folder, data_note = data_dir(final)
    config = final.with_values({**names(final), "data_dir": folder, "size": size(final, folders)}).resolved()
    check_places(config, final.leaves, layers.case.leaves, rules, where)
    config |= {
        "revision": config.get("revision", 1),
        "mutable": list(rules.mutable),
        "data": data_section(config),
        "fingerprint": stated_fingerprint(with_name(final.choices["model"], config["case"]), config["size"], folders),
        "code": identities(),
    }
    stack, product = framework(config, where), hardware(config, where)
    config["framework"]["main"] = stack.main  # for reports: results of older runs do not say it
    config["framework"].pop("failures", None)  # ranks log their configuration: it would be found in their own logs
    maker, hosts = replace(vendor(config, product, where), frameworks={}, stacks={}), cluster(config, where)
    maker = with_folder(maker, folders)
    check_extension(maker, stack, where)
    if extended := recorded(maker, config):
        config["extension"] = extended
    for part in ("frameworks", "stacks"):
        config["vendor"].pop(part, None)  # what it says of this one stands among the vendor's own keys
    runtime = build(RuntimeSettings, config["runtime"], "runtime", where)
    replaced = [*takes_place(config, maker, runtime, hosts, where), *other_libraries(config, stack, where)]
    if closed and replaced:
        raise replaced[0]
    config["own"] = {**own_files(layers.files, folders), **own_code(config, maker, replaced)}
    extension_note = without_proof(config, "division" in job.values)
    if hosts.secrets:
        config["own"]["secrets"] = ", ".join(hosts.secrets)
    kept = keep_secrets(config, maker, hosts, job, where)
    size_note = batch_size.note(final) if auto else None
    notes = (layers.note, data_note, extension_note, size_note, *too_short(kept.secrets))
    built: dict[str, Any] = {  # beside the fields that are values of the configuration
        "framework": stack,
        "vendor": kept.vendor,
        "hardware": product,
        "cluster": hosts,
        "runtime": runtime,
        "target": build(Target, config["target"], "target", where) if config["target"] else None,
        "deadlines": build(Deadlines, config["deadlines"], "deadlines", where),
        "monitor": build(MonitorIntervals, config["monitor"], "monitor", where),
        "auto_batch": build(AutoBatch, config["auto_batch"], "auto_batch", where),
        "limits": Limits(**of_same_name(Limits, config)),
        "config": kept.config,
        "extent": extent(config, where),
        "container": container_options(runtime, maker, hosts),
        "image": image(runtime, maker, stack, hosts, where),
        "local_python": local_python(stack),
        "python_path": os.environ.get("PYTHONPATH", ""),
        "changes": changed,
        "sweep": {key: value for key, value in job.swept.items() if key not in IN_NAME},
        "tuning": layers.tuning and layers.tuning.removeprefix("vendor/"),
        "sized": partial(batch_size.with_size, job, partial(_compose_alone, folders=folders)) if auto else None,
        "notes": tuple(note for note in notes if note),
        "where": where,
        "secrets": kept.secrets,
        "mask": kept.mask,
    }
    return RunConfig(**{**of_same_name(RunConfig, kept.config), **built})


def _described(job: Job, layers: Layers) -> set[str]:
    """Keys of a shipped vendor or product that the user's own file says otherwise, and nothing after it."""
    later = {*layers.by_tuning, *layers.by_experiment}
    return {
        key
        for key in layers.by_files
        if is_under(key, ("vendor", "hardware")) and key not in later and not is_under(key, job.values)
    }


def _source(job: Job, layers: Layers, folders: Sequence[Path], where: Where) -> Callable[[str], str]:
    """A function from a changed key to what changed it, as text. A tuning may lie over the one for the hardware."""
    tunings = {str(find(name, folders)): name for name in layers.files if re.match("vendor/.*/", name)}

    def source(key: str) -> str:
        if is_under(key, job.values):
            of_suite = next((name for said, name in job.suites.items() if is_under(key, (said,))), None)
            return f"experiment {of_suite}" if of_suite else "command line"
        if key in layers.by_experiment:
            return f"experiment {', '.join(job.experiments)}"
        if key in layers.by_tuning:
            return f"tuning {tunings.get(where(key), layers.tuning or '').removeprefix('vendor/')}"
        file = where(key)
        return "a file of --config-dir" if is_shipped(Path(file)) else file

    return source
