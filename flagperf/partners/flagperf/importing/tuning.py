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
    """The text of a tuning, and its scripts."""

    text: str
    kept: tuple[str, ...]  # a line for each value of FlagPerf that a shipped value replaces
    scripts: Mapping[str, str]  # name below the configuration folder → text


@dataclass
class _Tuning:
    """The content of the file."""

    settings: dict[str, tuple[Any, Value, bool]] = field(default_factory=dict)  # key → value, source, of the vendor?
    shipped: Mapping[str, Shipped] = field(default_factory=dict)  # key → value of the shipped tuning
    known: set[str] = field(default_factory=set)  # keys for which FlagPerf has a value
    kept: dict[str, Value] = field(default_factory=dict)  # key whose shipped value stays → FlagPerf's value
    left: dict[str, list[str]] = field(default_factory=dict)  # reason → names with their values and lines
    equal: list[str] = field(default_factory=list)  # names whose value the case has, too
    of_base: list[str] = field(default_factory=list)  # names of the case's own files without a counterpart
    immutable: list[str] = field(default_factory=list)  # names that FlagPerf's own list does not let a vendor set

    def leave(self, value: Value, why: str) -> None:
        """Record a value without a counterpart."""
        self.left.setdefault(why, []).append(f"{value.name} = {plain(value.value)} ({value.source.short})")


def tuning_file(
    config: VendorConfig, folder: CaseFolder | None, case: AboutCase, image: str | None = None
) -> TuningFile:
    """vendor/<vendor>/<case>/<hardware>x<nnodes>x<nproc>.yaml.

    The file has the values of the vendor's file, and the values of FlagPerf's case that differ from ours. A value of
    the shipped tuning stays where its comment says why it differs from FlagPerf's, or where no file of FlagPerf has the
    key. Every other name of the vendor's files becomes a comment, with its line and the reason.

    Args:
        image: FlagPerf's image for the framework, where the vendor has no image here.
    """
    product, scale = hardware_of(config.hardware), f"{config.nnodes}x{config.nproc}"
    shipped = shipped_tuning(config.vendor, case.name, product, scale)
    tuning = _Tuning(shipped=shipped or {})
    vendor_values = _flat(config.content.values)
    case_values = _flat(folder.base.values) if folder else {}
    unknown = {name for entry in config.content.unread for name in entry.sets} - set(vendor_values)
    effective = {name: value for name, value in case_values.items() if name not in unknown}
    effective |= {name: value for name, value in vendor_values.items() if value.value is not None}
    known = {setting.key: setting for setting in case.settings}

    def number(name: str) -> float | None:
        if name == "devices":
            return config.nnodes * config.nproc
        value = effective[name].value if name in effective else None
        return value if isinstance(value, int | float) else None

    for value in vendor_values.values():
        if value.value is None:
            tuning.leave(value, NONE)
    given_values = [value for value in effective.values() if value.value is not None]
    # the vendor's values come after the case's; False comes first, so that it overrides no switch that is on
    for value in sorted(
        given_values, key=lambda value: (vendor_values.get(value.name) is value, value.value is not False)
    ):
        is_vendors = vendor_values.get(value.name) is value
        settings = settings_of(case.name, value.name, value.value, number)
        if settings is not None:
            _carry(tuning, value, dict(settings), known, is_vendors)
        elif is_vendors:
            tuning.leave(value, why_not(case.name, value.name))
        elif why_not(case.name, value.name) == UNKNOWN:
            tuning.of_base.append(value.name)
        if is_vendors and settings is not None and folder and value.name not in folder.mutable:
            tuning.immutable.append(value.name)
    extras = software(config, image, is_shipped=shipped is not None)
    text = "\n".join(_text(config, case, tuning, extras)) + "\n"
    return TuningFile(text, tuple(_kept(tuning)), extras.scripts)


def _flat(values: Mapping[str, Value]) -> dict[str, Value]:
    """Dotted name → value, with the entries of mappings as values of their own."""
    flat: dict[str, Value] = {}
    for name, value in values.items():
        if isinstance(value.value, dict):
            inner = {f"{name}.{key}": Value(f"{name}.{key}", item, value.source) for key, item in value.value.items()}
            flat.update(_flat(inner))
        else:
            flat[name] = value
    return flat


def _carry(
    tuning: _Tuning, value: Value, settings: Mapping[str, Any], known: Mapping[str, Setting], is_vendors: bool
) -> None:
    """Add the settings, except those that the case has, and those that no tuning may set."""
    if is_vendors and not settings:
        tuning.leave(value, "0 says nothing")
    for key, given in settings.items():
        setting = known.get(key)
        default = _read(setting.default) if setting else None
        before, shipped = tuning.settings.get(key), tuning.shipped.get(key)
        tuning.known.add(key)
        tuning.kept.pop(key, None)
        if before is not None and before[2]:
            tuning.leave(before[1], f"{value.name} counts in its place")
        if shipped and shipped.theirs == plain(given):
            tuning.settings[key], tuning.kept[key] = (shipped.value, value, is_vendors), value
        elif setting and default == given and (type(default) is bool) == (type(given) is bool):
            tuning.settings.pop(key, None)
            if is_vendors:
                tuning.equal.append(value.name)
        elif refused := _refused(key, given, setting, default):
            tuning.leave(value, refused)
        else:
            tuning.settings[key] = (given, value, is_vendors)


def _kept(tuning: _Tuning) -> Iterator[str]:
    """A line for each value of FlagPerf that a shipped value replaces."""
    for key, value in tuning.kept.items():
        shipped = tuning.shipped[key]
        yield f"{value.source}: {key}: {shipped.theirs}    ({shipped.file} has {plain(shipped.value)}: {shipped.why})"


def _refused(key: str, given: Any, setting: Setting | None, default: Any) -> str | None:
    if setting is None:
        return f"the case has no {key}"
    if setting.reason is None:
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


def _text(config: VendorConfig, case: AboutCase, tuning: _Tuning, extras: Software) -> Iterator[str]:
    nodes = f" nnodes={config.nnodes} cluster=flagperf" if config.nnodes > 1 else ""
    model = f"model={case.name} vendor={config.vendor} hardware={hardware_of(config.hardware)}"
    command = f"flagperf --config-dir . {model}{nodes} nproc={config.nproc} data_dir=/data"
    yield from title(command, _paragraphs(config, tuning, extras))
    for key, (setting, value, _) in tuning.settings.items():
        shipped = tuning.shipped[key] if key in tuning.kept else None
        remark = f", not FlagPerf's {shipped.theirs}: {shipped.why}" if shipped else ""
        yield entry(key, setting, f"{value.name}, {value.source.short}{remark}")
    unnamed = [(key, shipped) for key, shipped in tuning.shipped.items() if config.has_case and key not in tuning.known]
    for key, shipped in unnamed:
        yield entry(key, shipped.value, f"{shipped.file}: FlagPerf's files do not say it")
    yield from extras.lines
    if not (tuning.settings or unnamed or extras.lines):
        yield from comment("All of it is as the case has it.")


def _paragraphs(config: VendorConfig, tuning: _Tuning, extras: Software) -> Iterator[str]:
    yield f"Imported from FlagPerf's {config.folder}/config/{config.path.name}."
    left = {reason: ", ".join(names) for reason, names in (*tuning.left.items(), *extras.left.items())}
    if left:
        yield "Without counterpart:\n" + "\n".join(f"  {reason}: {names}" for reason, names in left.items())
    if config.content.unread:
        lines = (f"  {entry.source.short}: {entry.text}    ({entry.why})" for entry in config.content.unread)
        yield "Not read, because only running it would tell:\n" + "\n".join(lines)
    if tuning.immutable:
        yield f"FlagPerf's mutable_params.py does not let a vendor set: {', '.join(tuning.immutable)}."
    if tuning.equal:
        yield f"As the case has it: {', '.join(sorted(set(tuning.equal)))}."
    if tuning.of_base:
        yield f"Of FlagPerf's case, without counterpart: {', '.join(tuning.of_base)}."
