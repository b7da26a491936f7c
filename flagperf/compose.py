"""Words → RunConfig: compose the layers of each job, apply the command line, check all of it, build typed values."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from string import Template
from typing import Any

from flagperf.changes import changes, check_closed, check_known, check_tuning, leaves
from flagperf.data_layout import sample_folder
from flagperf.errors import ConfigError
from flagperf.jobs import Job, make_jobs
from flagperf.layers import Layer, Layers, Load, compose_layers, hydra_session
from flagperf.origin import origin
from flagperf.places import find, search_path
from flagperf.schema import Cluster, Hardware, RunConfig, Target, Vendor
from flagperf.typed import build
from flagperf.words import WORDS, check_value, is_under

IN_NAME = ("model", "hardware", "nnodes", "nproc")  # a result folder's name says these anyway
NAMED = ("vendor", "hardware", "cluster", "runtime", "framework")  # groups whose part of the config has a name
REQUIRED = ("case", "unit", "throughput_unit", "network", "optimizer", "task", "train_data", "eval_data")  # of a case

Where = Callable[[str], str]


def compose(words: Sequence[str], config_dirs: Sequence[Path] = ()) -> RunConfig:
    """Compose one job. Raises ConfigError."""
    return compose_jobs(words, config_dirs=config_dirs)[0]


def compose_sweep(words: Sequence[str], config_dirs: Sequence[Path] = ()) -> list[RunConfig]:
    """Compose each combination of the values that the words list. Raises ConfigError naming the job."""
    return compose_jobs(words, multirun=True, config_dirs=config_dirs)


def compose_jobs(words: Sequence[str], *, multirun: bool = False, config_dirs: Sequence[Path] = ()) -> list[RunConfig]:
    """Compose all jobs of a command. One that is wrong refuses the whole command, before anything runs.

    Args:
        words: `key=value`, in Hydra's grammar.
        multirun: a comma list, choice(), range() or glob() makes one job per value.
        config_dirs: the user's own configuration folders; the first has precedence.
    """
    folders = search_path(config_dirs)
    jobs = make_jobs(words, multirun, folders)
    runs: list[RunConfig] = []
    with hydra_session(folders) as load:
        for number, job in enumerate(jobs, start=1):
            try:
                runs.append(_compose_job(job, load, folders))
            except ConfigError as error:
                if len(jobs) == 1:
                    raise
                swept = " ".join(f"{key}={value}" for key, value in job.swept.items())
                raise error.within(f"job {number} of {len(jobs)} ({swept})") from error
    return runs


def _compose_job(job: Job, load: Load, folders: Sequence[Path]) -> RunConfig:
    layers = compose_layers(job, load, folders)
    choices, case = layers.final.choices, layers.case
    where = origin(layers.files, folders, job.values)
    mutable = list(case.get("mutable"))
    rules = str(find("mutable/" + case.choices["mutable"], folders))

    _check_keys(job, layers, mutable, rules, where)
    final = layers.final.with_values(job.values)
    source = _source(job, layers)
    changed = changes(case.leaves, final.leaves, source)
    _check_values(case, final, [change.key for change in changed], where)
    if final.get("division") == "closed":
        check_closed(changed, mutable, where, rules)

    names = {f"{group}.name": choices[group] for group in NAMED}
    data_dir, data_note = _data_dir(final, choices["model"])
    config = final.with_values({**names, "data_dir": data_dir}).resolved() | {"mutable": mutable}
    config["data"] = _with_names(config.get("data", {}), config)
    return RunConfig(
        case=config["case"],
        framework=choices["framework"],
        size=choices["size"],
        vendor=build(Vendor, config["vendor"], "vendor", where),
        hardware=_hardware(config, where),
        cluster=_cluster(config, where),
        nnodes=config["nnodes"],
        nproc=config["nproc"],
        repeat=config["repeat"],
        division=config["division"],
        runtime=config["runtime"],
        target=build(Target, config["target"], "target", where) if config["target"] else None,
        config=config,
        changes=changed,
        sweep={key: value for key, value in job.swept.items() if key not in IN_NAME},
        tuning=layers.tuning and layers.tuning.removeprefix("vendor/"),
        notes=tuple(note for note in (layers.note, data_note) if note),
    )


def _check_keys(job: Job, layers: Layers, mutable: Sequence[str], rules: str, where: Where) -> None:
    """Refuse keys that nothing reads, and a tuning that changes more than it may."""
    known = _dotted(layers.case.leaves)
    components = [key.removesuffix("._target_") for key in layers.case.leaves if key.endswith("._target_")]
    free = [*mutable, "cluster"]  # what may be added; typed.build knows a cluster's fields
    for key in (*layers.by_tuning, *layers.by_experiment):
        if not is_under(key, [*free, *components]):
            check_known(key, known, where(key))
    for key in job.values:
        if key not in job.added and not is_under(key, free):
            check_known(key, known, "command line")
    check_tuning(layers.by_tuning, mutable, layers.final.leaves, where, rules)


def _dotted(keys: Mapping[str, Any]) -> set[str]:
    """All dotted keys, parents included."""
    return {".".join(parts[:end]) for key in keys for parts in [key.split(".")] for end in range(1, len(parts) + 1)}


def _check_values(case: Layer, final: Layer, changed: Sequence[str], where: Where) -> None:
    """Refuse values of a wrong type or out of range, wherever they were set, and keys that the case left open."""
    for key, value in final.leaves.items():
        if value == "???":
            raise ConfigError("the case must set this key", where=where("case"), key=key, allowed=str(WORDS[key]))
        if key in WORDS or key in changed:
            check_value(key, final.get(key), case.get(key), where)
    for key in REQUIRED:
        if final.get(key) is None:
            raise ConfigError("the case must set this key", where=where("case"), key=key)


def _source(job: Job, layers: Layers) -> Callable[[str], str]:
    """A function from a changed key to the words for what changed it."""

    def source(key: str) -> str:
        if is_under(key, job.values):
            return "command line"
        if key in layers.by_experiment:
            return f"experiment {', '.join(job.experiments)}"
        return f"tuning {layers.tuning.removeprefix('vendor/')}" if layers.tuning else "case"

    return source


def _data_dir(final: Layer, model: str) -> tuple[str, str | None]:
    """Where the data lies, and a note for the log where it is not the user's."""
    given = final.get("data_dir")
    if given is not None:
        return str(Path(given).expanduser().absolute()), None
    if sample := final.get("data.sample"):
        folder = sample_folder(final.get("sample_dir"), model, sample)
        return str(folder), f"sample data: {folder}"
    if final.get("dry_run"):
        return "<data_dir>", "no data_dir is given: <data_dir> stands for it"
    tree = final.get("data.tree") or ""
    allowed = f"a folder with {final.get('data.name')}" + "".join(f"\n    {line}" for line in tree.splitlines())
    raise ConfigError("the case needs its data", key="data_dir", allowed=allowed, advice="size=tiny has sample data")


def _with_names(data: Mapping[str, Any], config: Mapping[str, Any]) -> dict[str, Any]:
    """`data` with ${…} replaced in the globs of `require`, which are keys: OmegaConf resolves values only."""
    require = {Template(glob).safe_substitute(config): least for glob, least in data.get("require", {}).items()}
    return {**data, "require": require}


def _hardware(config: Mapping[str, Any], where: Where) -> Hardware:
    hardware = build(Hardware, config["hardware"], "hardware", where)
    vendor, nproc = config["vendor"]["name"], config["nproc"]
    if hardware.vendor not in (None, vendor):
        problem = f"hardware {hardware.name} is not made by vendor {vendor}"
        raise ConfigError(problem, key="hardware", given=hardware.name, advice=f"hardware=… of {vendor}, or vendor={hardware.vendor}")
    most = hardware.devices_per_node
    if most is not None and nproc > most:
        allowed = f"at most {most}, the devices of a node with {hardware.name}"
        raise ConfigError("more ranks than devices", where=where("nproc"), key="nproc", given=nproc, allowed=allowed)
    return hardware


def _cluster(config: Mapping[str, Any], where: Where) -> Cluster:
    """A node without a name has its address as one; this machine has its host name."""
    values = dict(config["cluster"])
    if isinstance(values.get("nodes"), list):
        values["nodes"] = [
            {"name": socket.gethostname() if node.get("local") else node.get("address"), **node}
            if isinstance(node, Mapping) else node
            for node in values["nodes"]
        ]
    return build(Cluster, values, "cluster", where)
