"""A vendor's config file of FlagPerf → a tuning of ours."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from flagperf.config.about_case import AboutCase, Setting
from flagperf.config.keys import check_value
from flagperf.errors import ConfigError
from flagperf.importing.texts import COLUMN, comment, entry, plain, title
from flagperf.importing.values import CaseFolder, Value, VendorConfig
from flagperf.importing.words import UNKNOWN, hardware_of, settings_of, why_not

FIXED = "no tuning may set it; the case has {}"
NONE = "null never counts in FlagPerf"
REQUIREMENTS = "an image has its own requirements (vendors/README.md)"
CODE = "code that takes the place of FlagPerf's"


@dataclass
class _Tuning:
    """What goes into the file."""

    settings: dict[str, tuple[Any, Value, bool]] = field(default_factory=dict)  # key → value, its source, the vendor's?
    left: dict[str, list[str]] = field(default_factory=dict)  # why → names with their values and lines
    equal: list[str] = field(default_factory=list)  # names whose value the case has, too
    of_base: list[str] = field(default_factory=list)  # names of the case's own files that have no counterpart
    immutable: list[str] = field(default_factory=list)  # names that FlagPerf's own list does not let a vendor set

    def leave(self, value: Value, why: str) -> None:
        """Tell a value, instead of setting something."""
        self.left.setdefault(why, []).append(f"{value.name} = {plain(value.value)} ({value.place.short})")


def tuning_text(config: VendorConfig, folder: CaseFolder | None, case: AboutCase, image: str | None = None) -> str:
    """The text of vendor/<vendor>/<case>/<hardware>x<nnodes>x<nproc>.yaml.

    It holds what the vendor's file says, and what FlagPerf's case says otherwise than the case here. Every other
    name of the vendor's files is a comment, with its line and the reason.

    Args:
        image: that FlagPerf builds for the framework, where the vendor has none here.
    """
    found = _Tuning()
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
    return "\n".join(_text(config, case, found, image)) + "\n"


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
        before = found.settings.get(key)
        if before is not None and before[2]:
            found.leave(before[1], f"{value.name} counts in its place")
        if setting and default == given and (type(default) is bool) == (type(given) is bool):
            found.settings.pop(key, None)
            if is_own:
                found.equal.append(value.name)
        elif refused := _refused(key, given, setting, default):
            found.leave(value, refused)
        else:
            found.settings[key] = (given, value, is_own)


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


def _text(config: VendorConfig, case: AboutCase, found: _Tuning, image: str | None) -> Iterator[str]:
    nodes = f" nnodes={config.nnodes} cluster=flagperf" if config.nnodes > 1 else ""
    model = f"model={case.name} vendor={config.vendor} hardware={hardware_of(config.hardware)}"
    command = f"flagperf --config-dir . {model}{nodes} nproc={config.nproc} data_dir=/data"
    yield from title(command, _paragraphs(config, found))
    for key, (setting, value, _) in found.settings.items():
        yield entry(key, setting, f"{value.name}, {value.place.short}")
    if config.environment.values or image:
        yield "vendor:"
    if image:
        yield "  image:".ljust(COLUMN - 1) + " # as FlagPerf names what it builds: the vendor's file has none"
        yield f"    {config.framework.partition('_')[0]}: {plain({'name': image})}"
    if config.environment.values:
        yield "  environment:".ljust(COLUMN - 1) + " # variables of the training processes"
        for variable in config.environment.values.values():
            yield entry(variable.name, str(variable.value), variable.place.short, indent=4)
    if not (found.settings or config.environment.values or image):
        yield from comment("All of it is as the case has it.")


def _paragraphs(config: VendorConfig, found: _Tuning) -> Iterator[str]:
    source = f"{config.vendor}/{config.model}-{config.framework}"
    yield f"Imported from FlagPerf's {source}/config/{config.path.name}."
    left = {why: ", ".join(names) for why, names in found.left.items()}
    if config.requirements:
        left[REQUIREMENTS] = f"requirements.txt: {', '.join(line.name for line in config.requirements)}"
    if config.code:
        left[CODE] = ", ".join(f"{source}/{name}/" for name in config.code)
    if left:
        yield "Without counterpart:\n" + "\n".join(f"  {why}: {names}" for why, names in left.items())
    unread = [*config.said.unread, *config.environment.unread]
    if unread:
        lines = (f"  {one.place.short}: {one.text}    ({one.why})" for one in unread)
        yield "Not read, because only running it would tell:\n" + "\n".join(lines)
    if found.immutable:
        yield f"FlagPerf's mutable_params.py does not let a vendor set: {', '.join(found.immutable)}."
    if found.equal:
        yield f"As the case has it: {', '.join(sorted(set(found.equal)))}."
    if found.of_base:
        yield f"Of FlagPerf's case, without counterpart: {', '.join(found.of_base)}."
