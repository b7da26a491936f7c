"""The layers of a job, composed by Hydra: case and size, then tuning, then experiment.

Hydra's defaults list can refer to choices, not to values such as `nnodes=2`. So the choices are composed
first, the tuning is looked up by the hardware and scale that they give, and then all is composed again with it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flagperf.config.keys import GROUPS, SUITE
from flagperf.config.provenance import Leaves, Where, differing, leaves
from flagperf.config.search_path import CONF, find, options
from flagperf.config.sweep import Job
from flagperf.config.user_files import FILES, check_user_files, not_yaml, plain_files
from flagperf.errors import ConfigError

if TYPE_CHECKING:
    from omegaconf import DictConfig

EXTENSION = "vendor.extension"  # a vendor's own code
CASE_GROUPS = GROUPS[:-1]  # of which a case is composed; an experiment lies over it

# What Hydra would compose for a program that it starts itself: its logs, help and folders.
UNUSED = tuple(f"~hydra/{part}" for part in ("env", "help", "hydra_help", "hydra_logging", "job_logging", "output"))


class Layer:
    """One composition: the configuration, and the option chosen of each group."""

    def __init__(self, config: DictConfig, choices: Mapping[str, str]) -> None:
        self._config = config
        self.choices = choices

    def get(self, key: str) -> Any:
        """The value of a dotted key as plain data, with interpolations resolved; None when there is no such key."""
        from omegaconf import OmegaConf

        with config_errors():
            value = OmegaConf.select(self._config, key)
        return OmegaConf.to_container(value, resolve=True) if OmegaConf.is_config(value) else value

    def with_values(self, values: Mapping[str, Any]) -> Layer:
        """This layer with values set on top. Mappings are merged."""
        from omegaconf import OmegaConf

        if not values:  # a copy takes a tenth of a composition
            return self
        config = self._config.copy()
        with config_errors():
            for key, value in values.items():
                OmegaConf.update(config, key, value, force_add=True)
        return Layer(config, self.choices)

    def with_files(self, paths: Sequence[Path]) -> Layer | None:
        """This layer with files laid over it, the last one on top; None where they do not fit."""
        import yaml
        from omegaconf import DictConfig, OmegaConf
        from omegaconf.errors import OmegaConfBaseException

        try:
            files = [file for path in paths if isinstance(file := OmegaConf.load(path), DictConfig)]
            for file in files:
                file.pop("defaults", None)
            config = OmegaConf.merge(self._config, *files)
        except (OmegaConfBaseException, yaml.YAMLError):
            return None
        return Layer(config, self.choices)  # type: ignore[arg-type]  # of mappings a mapping comes

    def with_part(self, key: str, other: Layer) -> Layer:
        """This layer with the top-level key as another one has it."""
        config = self._config.copy()
        config[key] = other._config[key]
        return Layer(config, {**self.choices, key: other.choices[key]})

    def with_key(self, key: str, other: Layer) -> Layer:
        """This layer with a dotted key as another one has it, before ${…} is resolved."""
        from omegaconf import OmegaConf

        config = self._config.copy()
        OmegaConf.update(config, key, OmegaConf.select(other._config, key), merge=False, force_add=True)
        return Layer(config, self.choices)

    def resolved(self, where: Where | None = None) -> dict[str, Any]:
        """The whole configuration as plain data, without interpolations; `where` names the file in a message."""
        from omegaconf import OmegaConf

        with config_errors(where):
            tree: dict[str, Any] = OmegaConf.to_container(self._config, resolve=True)  # type: ignore[assignment]
        return tree

    @cached_property
    def leaves(self) -> Leaves:
        """Dotted key → value as it is written."""
        from omegaconf import OmegaConf

        return leaves(OmegaConf.to_container(self._config))  # type: ignore[arg-type]


@dataclass(frozen=True)
class Layers:
    """What a job is composed of."""

    case: Layer  # case and size, on the vendor, hardware and cluster chosen; a shipped case as flagperf ships it
    final: Layer  # … with what the user's files change of a shipped case, with tuning and experiment
    by_files: tuple[str, ...]  # keys that the user's files changed of what is shipped under the same names
    by_tuning: tuple[str, ...]  # keys that the tuning changed
    by_experiment: tuple[str, ...]
    tuning: str | None  # "vendor/nvidia/glm/A100x2x8"; in a reduced size the one whose extension is used
    note: str | None  # which tuning was used, or which exist
    files: tuple[str, ...]  # all files that took part, the one that wins first


Load = Callable[..., Layer]  # overrides that choose options → what they compose


@contextmanager
def hydra_session(folders: Sequence[Path]) -> Iterator[Load]:
    """A function that composes overrides. Files are looked up in the folders, of which the last is the shipped one.

    A session may stand within another, whose function is not called meanwhile.
    """
    import hydra.conf
    from hydra import compose, initialize_config_dir
    from hydra.core.global_hydra import GlobalHydra
    from omegaconf import OmegaConf

    from flagperf.config.read_once import place, register

    @cache
    def load(*overrides: str) -> Layer:
        with config_errors():
            # An empty searchpath makes Hydra read its search path again, to which folders were added.
            config = compose("config", ["hydra.searchpath=[]", *UNUSED, *overrides], return_hydra_config=True)
        OmegaConf.set_struct(config, False)
        choices = dict(config.pop("hydra").runtime.choices)
        config.pop(SUITE, None)  # jobs, of which this is one
        return Layer(config, choices)

    outer = GlobalHydra.instance().hydra  # Hydra knows one search path at a time
    GlobalHydra.instance().clear()
    try:
        with initialize_config_dir(str(CONF), job_name="flagperf", version_base="1.3"):
            register()
            search_path = GlobalHydra.instance().config_loader().get_search_path()
            own = {"main": CONF, "hydra": Path(hydra.conf.__path__[0])}  # Hydra's name of an entry → the folder
            for entry in search_path.get_path():
                if entry.provider in own:
                    entry.path = place(own[entry.provider])
            for folder in reversed(folders[:-1]):
                search_path.prepend("--config-dir", place(folder))
            yield load
    finally:
        GlobalHydra.instance().hydra = outer


def compose_layers(job: Job, load: Load, folders: Sequence[Path]) -> Layers:
    """Compose case and size, look for the tuning, and compose again with it."""
    named = [*job.choices.items(), *(("experiment", name) for name in job.experiments)]
    check_user_files((f"{group}/{option}" for group, option in named), folders)
    experiments = [f"+experiment=[{','.join(map(_quoted, job.experiments))}]"] if job.experiments else []
    overrides = [*_chosen(job.choices), *experiments]
    chosen = load(*overrides)
    if model := _model_of(job.framework, chosen.choices, folders):
        check_user_files([f"model/{model}"], folders)
        overrides = [*_chosen({**job.choices, "model": model}), *experiments]
        chosen = load(*overrides)
    choices = chosen.choices
    case = load(*_chosen({group: choices[group] for group in CASE_GROUPS})) if job.experiments else chosen
    shipped = _as_shipped(case, folders)
    nnodes, nproc = (job.values.get(key, chosen.get(key)) for key in ("nnodes", "nproc"))
    tuning, note = _find_tuning(choices, f"{nnodes}x{nproc}", folders)
    files = _files(job, choices, tuning)
    check_user_files(files, folders)
    plain = plain_files(tuning, folders) if tuning and not experiments else None
    final = chosen.with_files(plain) if plain else None
    if final is None:  # Hydra composes what is more than values, and says what is wrong
        final = load(_tuning_override(tuning), *overrides) if tuning else chosen
    if tuning and choices["size"] != "full":  # its values are made for the full case; code is the same in any size
        final, tuned = chosen, final
        if tuned.get(EXTENSION) != chosen.get(EXTENSION):
            final, note = chosen.with_key(EXTENSION, tuned), f"{note}, of which this size uses {EXTENSION} alone"
        else:
            tuning = note = None
            files = _files(job, choices, None)
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
    """The same choices, where a shipped file of the name exists, composed of shipped files alone.

    So whatever a user's file does to a shipped case, by any way that Hydra has, is a difference. A case of the user's
    own, and what only the user has, such as a vendor, stay as they are.
    """
    if len(folders) == 1 or not find(f"model/{case.choices['model']}", (CONF,)):
        return case
    shipped = [group for group in CASE_GROUPS if find(f"{group}/{case.choices[group]}", (CONF,))]
    chosen = {"size": "full"} | {group: case.choices[group] for group in shipped}
    found = _load_shipped(*_chosen(chosen))
    for group in ("vendor", "hardware", "cluster", "runtime"):
        if group not in shipped:
            found = found.with_part(group, case)
    return found


@cache
def _load_shipped(*overrides: str) -> Layer:
    with hydra_session((CONF,)) as load:
        return load(*overrides)


def _model_of(framework: str | None, choices: Mapping[str, str], folders: Sequence[Path]) -> str | None:
    """The case's file for a framework, where that is another than the one that the chosen file is written for."""
    model, own = choices["model"], choices["framework"]
    if framework in (None, own):
        return None
    if find(f"model/{framework}/{model}", folders):
        return f"{framework}/{model}"
    others = (name for name in options("framework", folders) if find(f"model/{name}/{model}", folders))
    allowed = ", ".join((own, *others))
    raise ConfigError(
        f"the case {model} is not made for this framework", key="framework", given=framework, allowed=allowed
    )


def _chosen(choices: Mapping[str, str]) -> list[str]:
    """Overrides that choose options of groups."""
    return [f"{group}={_quoted(option)}" for group, option in choices.items()]


def _quoted(option: str) -> str:
    """The option in quotes, so that Hydra's grammar takes any text."""
    return "'" + option.replace("'", r"\'") + "'"


def _tuning_override(tuning: str) -> str:
    group, _, option = tuning.rpartition("/")
    return f"+{group}@_global_={_quoted(option)}"


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


def _files(job: Job, choices: Mapping[str, str], tuning: str | None) -> tuple[str, ...]:
    """The files of a composition, the one that wins first."""
    of_tuning = (tuning, f"{tuning.rpartition('/')[0]}/{choices['hardware']}") if tuning else ()
    model = choices["model"]
    others = (f"{group}/{choice}" for group, choice in choices.items() if not re.match(r"hydra/|model$|size", group))
    return (
        *(f"experiment/{name}" for name in reversed(job.experiments)),
        *of_tuning,
        f"size/{choices['size']}/{model}",
        f"size/{choices['size']}",
        f"model/{model}",
        *others,
        "training",
        "config",
    )


@contextmanager
def config_errors(where: Where | None = None) -> Iterator[None]:
    """Turn what Hydra, OmegaConf and YAML raise about files into ConfigError."""
    import yaml
    from hydra.errors import HydraException, MissingConfigException
    from omegaconf.errors import OmegaConfBaseException

    try:
        yield
    except yaml.YAMLError as error:
        raise not_yaml(error) from None
    except MissingConfigException as error:
        allowed = ", ".join(error.options or ()) or None
        problem = "a file chooses an option that does not exist"
        raise ConfigError(problem, where=FILES, given=error.missing_cfg_file, allowed=allowed) from None
    except OmegaConfBaseException as error:
        key = error.full_key
        raise ConfigError(str(error).splitlines()[0], where=where(key) if where and key else FILES, key=key) from None
    except RecursionError:
        raise ConfigError("files include each other without end", where=FILES) from None
    except (HydraException, OSError, ValueError) as error:
        lines = (str(error) or str(error.__cause__)).splitlines()
        problem = " ".join(line for line in lines if not re.match(r"\s*(full_key|object_type)", line))
        raise ConfigError(problem, where=FILES) from None
