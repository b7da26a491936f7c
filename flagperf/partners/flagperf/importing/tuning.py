"""A vendor's config file of FlagPerf → a tuning of ours."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from flagperf.config.about_case import AboutCase, Setting
from flagperf.config.schema.keys import check_value
from flagperf.errors import ConfigError
from flagperf.partners.flagperf.importing.shipped import Shipped, shipped_tuning
from flagperf.partners.flagperf.importing.software import Software, software
from flagperf.partners.flagperf.importing.texts import comment, entry, plain, title
from flagperf.partners.flagperf.importing.values import CaseFolder, Value, VendorConfig
from flagperf.partners.flagperf.importing.words import UNKNOWN, hardware_of, settings_of, why_not

FIXED = "no tuning may set it; the case has {}"
NONE = "null never counts in FlagPerf"


@dataclass(frozen=True)
class TuningFile:
    """The file, and what goes with it."""

    text: str
    kept: tuple[str, ...]  # values of FlagPerf in whose place flagperf's own stay, a line each
    scripts: Mapping[str, str]  # name below the configuration folder → text


@dataclass
class _Tuning:
    """What goes into the file."""

    settings: dict[str, tuple[Any, Value, bool]] = field(default_factory=dict)  # key → value, its source, the vendor's?
    shipped: Mapping[str, Shipped] = field(default_factory=dict)  # key → value of the shipped tuning
    told: set[str] = field(default_factory=set)  # keys of which FlagPerf says something
    kept: dict[str, Value] = field(default_factory=dict)  # key of a shipped value that stays → what FlagPerf says
    left: dict[str, list[str]] = field(default_factory=dict)  # why → names with their values and lines
    equal: list[str] = field(default_factory=list)  # names whose value the case has, too
    of_base: list[str] = field(default_factory=list)  # names of the case's own files that have no counterpart
    immutable: list[str] = field(default_factory=list)  # names that FlagPerf's own list does not let a vendor set

    def leave(self, value: Value, why: str) -> None:
        """Tell a value, instead of setting something."""
        self.left.setdefault(why, []).append(f"{value.name} = {plain(value.value)} ({value.place.short})")


def tuning_file(
    config: VendorConfig, folder: CaseFolder | None, case: AboutCase, image: str | None = None
) -> TuningFile:
    """vendor/<vendor>/<case>/<hardware>x<nnodes>x<nproc>.yaml.

    It holds what the vendor's file says, and what FlagPerf's case says otherwise than the case here. A shipped tuning's
    value stays where it tells why it is not FlagPerf's, or where no file of FlagPerf says anything of its key. Every
    other name of the vendor's files is a comment, with its line and the reason.

    Args:
        image: that FlagPerf builds for the framework, where the vendor has none here.
    """
    product, scale = hardware_of(config.hardware), f"{config.nnodes}x{config.nproc}"
    shipped = shipped_tuning(config.vendor, case.name, product, scale)
    found = _Tuning(shipped=shipped or {})
    own = _flat(config.said.values)
    base = _flat(folder.base.values) if folder else {}
    unknown = {name for one in config.said.unread for name in one.sets} - set(own)
    effective = {name: value for name, value in base.items() if name not in unknown}
    effective |= {name: value for name, value in own.items() if value.value is not None}
    known = {setting.key: setting for setting in case.settings}

    def number(name: str) -> float | None:
        if name == "devices":
            return config.nnodes * config.nproc
        value = effective[name].value if name in effective else None
        return value if isinstance(value, int | float) else None

    for value in own.values():
        if value.value is None:
            found.leave(value, NONE)
    said = [value for value in effective.values() if value.value is not None]
    # the vendor's values count after the case's; a switch that is off takes back nothing that another has switched on
    for value in sorted(said, key=lambda value: (own.get(value.name) is value, value.value is not False)):
        is_own = own.get(value.name) is value
        settings = settings_of(case.name, value.name, value.value, number)
        if settings is not None:
            _carry(found, value, dict(settings), known, is_own)
        elif is_own:
            found.leave(value, why_not(case.name, value.name))
        elif why_not(case.name, value.name) == UNKNOWN:
            found.of_base.append(value.name)
        if is_own and settings is not None and folder and value.name not in folder.mutable:
            found.immutable.append(value.name)
    more = software(config, image, is_shipped=shipped is not None)
    text = "\n".join(_text(config, case, found, more)) + "\n"
    return TuningFile(text, tuple(_kept(found)), more.scripts)


def _flat(values: Mapping[str, Value]) -> dict[str, Value]:
    """Values of mappings by dotted names."""
    flat: dict[str, Value] = {}
    for name, value in values.items():
        if isinstance(value.value, dict):
            inner = {f"{name}.{key}": Value(f"{name}.{key}", item, value.place) for key, item in value.value.items()}
            flat.update(_flat(inner))
        else:
            flat[name] = value
    return flat


def _carry(
    found: _Tuning, value: Value, settings: Mapping[str, Any], known: Mapping[str, Setting], is_own: bool
) -> None:
    """Set each of the settings, unless the case has the value or no tuning may set it."""
    if is_own and not settings:
        found.leave(value, "0 says nothing")
    for key, given in settings.items():
        setting = known.get(key)
        default = _read(setting.default) if setting else None
        before, ours = found.settings.get(key), found.shipped.get(key)
        found.told.add(key)
        found.kept.pop(key, None)
        if before is not None and before[2]:
            found.leave(before[1], f"{value.name} counts in its place")
        if ours and ours.theirs == plain(given):
            found.settings[key], found.kept[key] = (ours.value, value, is_own), value
        elif setting and default == given and (type(default) is bool) == (type(given) is bool):
            found.settings.pop(key, None)
            if is_own:
                found.equal.append(value.name)
        elif refused := _refused(key, given, setting, default):
            found.leave(value, refused)
        else:
            found.settings[key] = (given, value, is_own)


def _kept(found: _Tuning) -> Iterator[str]:
    """What is said of the values of FlagPerf in whose place shipped ones stay."""
    for key, value in found.kept.items():
        ours = found.shipped[key]
        yield f"{value.place}: {key}: {ours.theirs}    ({ours.file} has {plain(ours.value)}: {ours.why})"


def _refused(key: str, given: Any, setting: Setting | None, default: Any) -> str | None:
    if setting is None:
        return f"the case has no {key}"
    if setting.why is None:
        return FIXED.format(f"{key}: {plain(default)}")
    try:
        check_value(key, given, default, str)
    except ConfigError as error:
        return f"{key}: {error.problem}" + (f", {error.allowed}" if error.allowed else "")
    return None


def _read(default: str | None) -> Any:
    if default is None:
        return None
    try:
        return json.loads(default)
    except ValueError:
        return default  # a text


def _text(config: VendorConfig, case: AboutCase, found: _Tuning, more: Software) -> Iterator[str]:
    nodes = f" nnodes={config.nnodes} cluster=flagperf" if config.nnodes > 1 else ""
    model = f"model={case.name} vendor={config.vendor} hardware={hardware_of(config.hardware)}"
    command = f"flagperf --config-dir . {model}{nodes} nproc={config.nproc} data_dir=/data"
    yield from title(command, _paragraphs(config, found, more))
    for key, (setting, value, _) in found.settings.items():
        ours = found.shipped[key] if key in found.kept else None
        said = f", not FlagPerf's {ours.theirs}: {ours.why}" if ours else ""
        yield entry(key, setting, f"{value.name}, {value.place.short}{said}")
    unsaid = [(key, ours) for key, ours in found.shipped.items() if config.has_case and key not in found.told]
    for key, ours in unsaid:
        yield entry(key, ours.value, f"{ours.file}: FlagPerf's files do not say it")
    yield from more.lines
    if not (found.settings or unsaid or more.lines):
        yield from comment("All of it is as the case has it.")


def _paragraphs(config: VendorConfig, found: _Tuning, more: Software) -> Iterator[str]:
    yield f"Imported from FlagPerf's {config.folder}/config/{config.path.name}."
    left = {why: ", ".join(names) for why, names in (*found.left.items(), *more.left.items())}
    if left:
        yield "Without counterpart:\n" + "\n".join(f"  {why}: {names}" for why, names in left.items())
    if config.said.unread:
        lines = (f"  {one.place.short}: {one.text}    ({one.why})" for one in config.said.unread)
        yield "Not read, because only running it would tell:\n" + "\n".join(lines)
    if found.immutable:
        yield f"FlagPerf's mutable_params.py does not let a vendor set: {', '.join(found.immutable)}."
    if found.equal:
        yield f"As the case has it: {', '.join(sorted(set(found.equal)))}."
    if found.of_base:
        yield f"Of FlagPerf's case, without counterpart: {', '.join(found.of_base)}."
