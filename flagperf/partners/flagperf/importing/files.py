"""A Checkout → the files of a configuration folder, as texts. Writing them overwrites nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flagperf.config.about_case import about_case, frameworks
from flagperf.config.files.read_once import read_yaml
from flagperf.config.files.search_path import cases, find, options, search_path
from flagperf.errors import ConfigError
from flagperf.partners.flagperf.importing.site import IMAGE, NAME, Known, Site, read_site
from flagperf.partners.flagperf.importing.site_files import (
    cluster_text,
    experiment_text,
    hardware_text,
    show,
    vendor_text,
)
from flagperf.partners.flagperf.importing.tuning import tuning_file
from flagperf.partners.flagperf.importing.values import Checkout, Unread, VendorConfig
from flagperf.partners.flagperf.importing.words import hardware_of, why_no_case


@dataclass(frozen=True)
class Imported:
    """The result of an import."""

    files: Mapping[str, str]  # name below the folder → text
    not_imported: tuple[str, ...]  # a line for each value that no file mentions
    kept: tuple[str, ...]  # a line for each value of FlagPerf that a shipped value replaces
    show: str | None  # overrides of a dry run; None where there is no experiment


def make_files(checkout: Checkout, config_dirs: Sequence[Path] = ()) -> Imported:
    """The configuration files for a checkout.

    Args:
        config_dirs: the user's folders. Their vendors, products and cases get no file.
    """
    folders = search_path(config_dirs)
    known = _known(folders)
    site = read_site(checkout.cluster_conf, checkout.test_conf, known)
    configs = [config for config in checkout.configs if known.model(config.model, config.framework)]
    without_case = [config for config in checkout.configs if config not in configs]
    files = {}
    if checkout.cluster_conf or checkout.test_conf:
        files[f"cluster/{NAME}.yaml"] = cluster_text(site)
        files[f"experiment/{NAME}.yaml"] = experiment_text(site)
    files |= _of_vendors(configs, site, known)
    about = {
        model: about_case(model, (), config_dirs) for model in sorted({_model(config, known) for config in configs})
    }
    kept: list[str] = []
    for config in configs:
        model, product = _model(config, known), hardware_of(config.hardware)
        name = f"vendor/{config.vendor}/{model}/{product}x{config.nnodes}x{config.nproc}.yaml"
        folder = checkout.cases.get((config.model, config.framework))
        imageless = config.vendor in known.vendors and not known.has_image(config.vendor, config.framework)
        image = IMAGE.format(vendor=config.vendor, framework=config.framework) if imageless else None
        made = tuning_file(config, folder, about[model], image)
        files |= {name: made.text, **made.scripts}
        kept += made.kept
    not_imported = [config.line for config in _unread(checkout, configs)] + [*site.left, *_without_case(without_case)]
    not_imported += [*_of_others(configs, known), *_unused(checkout)]
    return Imported(
        files,
        tuple(not_imported),
        tuple(dict.fromkeys(kept)),
        show(site) if f"experiment/{NAME}.yaml" in files else None,
    )


def _known(folders: Sequence[Path]) -> Known:
    model_of = {}
    for case in options("model", folders):
        for framework in frameworks(case, folders):
            of_framework = f"{framework}/{case}"
            model_of[case, framework] = of_framework if of_framework in cases(folders) else case
    hardware = {name: _read(f"hardware/{name}", folders).get("vendor") for name in options("hardware", folders)}
    vendors = {name: _read(f"vendor/{name}", folders).get("vendor", {}) for name in options("vendor", folders)}
    return Known(model_of, vendors, hardware)


def _read(name: str, folders: Sequence[Path]) -> dict[str, Any]:
    path = find(name, folders)
    return read_yaml(path) or {} if path else {}


def _model(config: VendorConfig, known: Known) -> str:
    model = known.model(config.model, config.framework)
    assert model is not None
    return model


def _of_vendors(configs: Sequence[VendorConfig], site: Site, known: Known) -> Iterator[tuple[str, str]]:
    """Files of vendors and products that the configuration lacks."""
    vendors = {config.vendor for config in configs} | ({site.vendor} if site.vendor else set())
    for vendor in sorted(vendors - known.vendors.keys()):
        yield f"vendor/{vendor}.yaml", vendor_text(vendor, site, configs)
    devices: dict[tuple[str, str], int] = {}
    used = [(hardware_of(config.hardware), config.vendor, config.nproc) for config in configs]
    used += [(row["hardware"], site.vendor, int(row["scale"].split("x")[1])) for _, row in site.suite if site.vendor]
    for product, vendor, nproc in used:
        devices[product, vendor] = max(nproc, devices.get((product, vendor), 0))
    for (product, vendor), nproc in sorted(devices.items()):
        if product not in known.hardware:
            yield f"hardware/{product}.yaml", hardware_text(product, vendor, nproc)


def _unread(checkout: Checkout, configs: Sequence[VendorConfig]) -> list[Unread]:
    """Statements that were not read, and files without a known name, of the site and of known cases."""
    contents = [content for content in (checkout.test_conf, checkout.cluster_conf) if content]
    contents += [config.content for config in configs]
    contents += [
        checkout.cases[case].base for config in configs if (case := (config.model, config.framework)) in checkout.cases
    ]
    other_folders = {config.path.parent for config in checkout.configs} - {config.path.parent for config in configs}
    skipped = [content for content in checkout.skipped if content.source.file.parent not in other_folders]
    return sorted(
        {*skipped, *(content for part in contents for content in part.unread)}, key=lambda content: content.source
    )


def _without_case(configs: Sequence[VendorConfig]) -> Iterator[str]:
    """Lines on vendors' folders of cases that flagperf lacks."""
    folders: dict[Path, list[VendorConfig]] = {}
    for config in configs:
        folders.setdefault(config.path.parents[1], []).append(config)
    for folder, (first, *others) in folders.items():
        files = f"{1 + len(others)} config files" if others else "1 config file"
        yield f"{folder}: {files}    ({why_no_case(first.model, first.framework)})"


def _of_others(configs: Sequence[VendorConfig], known: Known) -> Iterator[str]:
    """Lines on config files for a product that belongs to another vendor here. No run uses their tuning."""
    for config in configs:
        product = hardware_of(config.hardware)
        owner = known.hardware.get(product)
        if owner not in (None, config.vendor):
            yield f"{config.path}    ({product} is a product of {owner} here: no run uses the tuning)"


def _unused(checkout: Checkout) -> Iterator[str]:
    """Lines on cases without a vendor's config file. Their values alone make no tuning."""
    used = {(config.model, config.framework) for config in checkout.configs}
    for case, folder in checkout.cases.items():
        if case not in used:
            files = ", ".join(path.name for path in folder.base.files)
            yield f"{'/'.join(case)}: {files}    (no config file of a vendor is for it)"


def write_files(files: Mapping[str, str], folder: Path) -> None:
    """Write all files, or none.

    Raises:
        ConfigError: a file exists with another content, or the folder cannot be written.
    """
    taken = [name for name, text in files.items() if (folder / name).exists() and _content(folder / name) != text]
    if taken:
        raise ConfigError(
            "these files exist already, with other contents",
            key="into",
            given=", ".join(sorted(taken)),
            advice="give another folder, or move them away first",
        )
    try:
        for name, text in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(
            f"the files cannot be written: {error.strerror}",
            key="into",
            given=folder,
            advice="choose a folder that you may write to",
        ) from None


def _content(path: Path) -> str | None:
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else None
