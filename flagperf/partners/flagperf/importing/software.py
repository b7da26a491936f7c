"""What a vendor's config file of FlagPerf says of the ranks' software → `vendor:` of its tuning, and scripts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement

from flagperf.partners.flagperf.importing.texts import COLUMN, entry, plain
from flagperf.partners.flagperf.importing.values import VendorConfig
from flagperf.partners.flagperf.importing.words import why_no_variable

REQUIREMENTS = "what FlagPerf's own code needs: flagperf has its own for this tuning (vendors/README.md)"
NO_PACKAGE = "a line of requirements.txt that names no package"
CODE = "code that takes the place of FlagPerf's"


@dataclass(frozen=True)
class Software:
    """What goes into the tuning, and beside it."""

    lines: tuple[str, ...]  # `vendor:` and what is below it; none where there is nothing
    left: Mapping[str, list[str]]  # why → what has no counterpart
    scripts: Mapping[str, str]  # name below the configuration folder → text


def software(config: VendorConfig, image: str | None, *, is_shipped: bool) -> Software:
    """Image, variables and script, and packages.

    A script that states values alone becomes variables; one that does more stays a script, which bash sources.

    Args:
        image: that FlagPerf builds for the framework, where the vendor has none here.
        is_shipped: flagperf has a tuning of this vendor and case: then it knows which packages the case needs.
    """
    left: dict[str, list[str]] = {}
    scripts, script = {}, f"{config.model}-{config.framework}.sh"
    lines = list(_image(config, image)) if image else []
    if config.environment.unread:
        scripts[f"vendors/{config.vendor}/code/{script}"] = "".join(map(_text, config.environment.files))
    else:
        lines += _variables(config, left)
    lines += _extension(script if scripts else None, _packages(config, is_shipped, left))
    if config.code:
        left[CODE] = [f"{config.folder}/{name}/" for name in config.code]
    return Software(("vendor:", *lines) if lines else (), left, scripts)


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


def _image(config: VendorConfig, image: str) -> Iterator[str]:
    yield _head("image", "as FlagPerf names what it builds: the vendor's file has none")
    yield f"    {config.framework.partition('_')[0]}: {plain({'name': image})}"


def _extension(script: str | None, packages: Sequence[str]) -> Iterator[str]:
    if script or packages:
        yield "  extension:"
    if script:
        yield entry(
            "environment_script", script, "environment_variables.sh: bash sources it before the ranks", indent=4
        )
    if packages:
        yield entry("requirements", list(packages), "requirements.txt", indent=4)


def _packages(config: VendorConfig, is_shipped: bool, left: dict[str, list[str]]) -> list[str]:
    """The lines that name a package; the others are left."""
    names = [line.name for line in config.requirements]
    taken = [] if is_shipped else [name for name in names if _is_package(name)]
    for name in names:
        if name not in taken:
            left.setdefault(REQUIREMENTS if is_shipped else NO_PACKAGE, []).append(name)
    return taken


def _is_package(line: str) -> bool:
    try:
        return bool(Requirement(line).name)
    except InvalidRequirement:
        return False


def _variables(config: VendorConfig, left: dict[str, list[str]]) -> Iterator[str]:
    carried = []
    for variable in config.environment.values.values():
        if why := why_no_variable(variable.name):
            left.setdefault(why, []).append(f"{variable.name}={variable.value} ({variable.place.short})")
        else:
            carried.append(entry(variable.name, str(variable.value), variable.place.short, indent=4))
    if carried:
        yield _head("environment", "variables of the training processes")
        yield from carried


def _head(key: str, said: str) -> str:
    return f"  {key}:".ljust(COLUMN - 1) + f" # {said}"
