"""The ranks' software in a vendor's config of FlagPerf → `vendor:` of its tuning, and scripts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from packaging.requirements import InvalidRequirement, Requirement

from flagperf.partners.flagperf.importing.texts import COLUMN, entry, plain
from flagperf.partners.flagperf.importing.values import VendorConfig
from flagperf.partners.flagperf.importing.words import why_no_variable

REQUIREMENTS = "what FlagPerf's own code needs: flagperf has its own for this tuning (vendors/README.md)"
NO_PACKAGE = "a line of requirements.txt that names no package"
CODE = "code that takes the place of FlagPerf's"


@dataclass(frozen=True)
class Software:
    """The software of a tuning."""

    lines: tuple[str, ...]  # `vendor:` and the lines below; empty where it has no lines
    left: Mapping[str, list[str]]  # reason → values without a counterpart
    scripts: Mapping[str, str]  # name below the configuration folder → text


def software(config: VendorConfig, image: str | None, *, is_shipped: bool) -> Software:
    """Image, variables, script and packages of a vendor's config.

    A script that only sets values becomes variables. Any other script stays a script, which bash sources.

    Args:
        image: FlagPerf's image for the framework, where the vendor has no image here.
        is_shipped: flagperf ships a tuning of this vendor and case, and knows which packages the case needs.
    """
    left: dict[str, list[str]] = {}
    scripts, script = {}, f"{config.model}-{config.framework}.sh"
    lines = list(_image(config, image)) if image else []
    if config.environment.unread:
        texts = (path.read_text(encoding="utf-8", errors="replace") for path in config.environment.files)
        scripts[f"vendors/{config.vendor}/code/{script}"] = "".join(texts)
    else:
        lines += _variables(config, left)
    lines += _extension(script if scripts else None, _packages(config, is_shipped, left))
    if config.code:
        left[CODE] = [f"{config.folder}/{name}/" for name in config.code]
    return Software(("vendor:", *lines) if lines else (), left, scripts)


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
    """The lines that name a package. The other lines are added to `left`."""
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
        if reason := why_no_variable(variable.name):
            left.setdefault(reason, []).append(f"{variable.name}={variable.value} ({variable.source.short})")
        else:
            carried.append(entry(variable.name, str(variable.value), variable.source.short, indent=4))
    if carried:
        yield _head("environment", "variables of the training processes")
        yield from carried


def _head(key: str, comment: str) -> str:
    return f"  {key}:".ljust(COLUMN - 1) + f" # {comment}"
