"""Checks a vendor's own code in a job: its folder, the parts that it replaces, and the proof of its equal results.

docs/adding-a-vendor.md describes extensions. `flagperf check vendor=… model=…` writes the proofs.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from flagperf.config.files.search_path import CONF, VENDORS
from flagperf.config.schema.platform import Extension, Framework, Vendor
from flagperf.contract.build import Where
from flagperf.contract.digest import sha256_of
from flagperf.contract.identity import Division
from flagperf.contract.regular import read_yaml
from flagperf.contract.sent_code import files
from flagperf.errors import ConfigError

KEY = "vendor.extension"
REPLACED = ("network", "optimizer", "loader")  # parts that a vendor may replace
WITHIN = 1e-3  # largest allowed relative difference to the case's own parts, in fp32
PROOFS = "proofs"  # folder of proofs, beside the folder of the code
PROOF = {  # field of a proof → its type
    **dict.fromkeys(("files", "differences", "optimizer", "versions"), dict),
    "same_modules": bool,
    "classes": list,
}
COMPARED = ("batches", "loss", "weights", "buffers", "evaluation")  # differences in each proof
NO_PROOF = "there is none of this code: flagperf check vendor=… model=… makes one"


def with_folder(vendor: Vendor, folders: Sequence[Path]) -> Vendor:
    """The vendor with the folder of its own code: the configured folder, else a folder vendors/<vendor> with code.

    Args:
        folders: the search path. `vendors` is in a user's folder, and beside the shipped configuration.
    """
    if vendor.extension.folder:
        return vendor
    vendor_folders = (VENDORS if folder == CONF else folder / "vendors" for folder in folders)
    with_code = next(
        (folder / vendor.name for folder in vendor_folders if (folder / vendor.name / "code").is_dir()), None
    )
    return replace(vendor, extension=replace(vendor.extension, folder=str(with_code))) if with_code else vendor


def check_extension(vendor: Vendor, framework: Framework, where: Where) -> None:
    """Refuse an extension with missing files, or with a replacement of a fixed part.

    Raises:
        ConfigError: the extension cannot be used.
    """
    extension = vendor.extension

    def refused(problem: str, key: str, given: object, **details: Any) -> ConfigError:
        return ConfigError(problem, where=where(f"{KEY}.{key}"), key=f"{KEY}.{key}", given=given, **details)

    if extension.has_code and not extension.folder:
        advice = f"make vendors/{vendor.name}/code in your --config-dir folder; proofs lie beside it"
        raise refused("the vendor has no folder of its own code", "folder", "null", advice=advice)
    if extension.folder and not (extension.code and extension.code.is_dir()):
        raise refused("there is no such folder", "folder", extension.code)
    if (
        links := sorted(path for path in extension.code.rglob("*") if path.is_symlink() and path.is_dir())
        if extension.code
        else []
    ):
        problem = "a link to a folder: flagperf would neither send nor check the files behind the link"
        raise refused(problem, "folder", links[0], advice="put the folder itself there")
    if extension.environment_script and not (
        extension.code and (extension.code / extension.environment_script).is_file()
    ):
        script = extension.code / extension.environment_script if extension.code else extension.environment_script
        allowed = "a file of the extension's folder code/"
        raise refused("there is no such file", "environment_script", script, allowed=allowed)
    for part, component in extension.replace.items():
        if part not in REPLACED:
            advice = "data, evaluation, metric, schedule and target stay the case's"
            raise refused(
                "no vendor has its own of this part", "replace", part, allowed=", ".join(REPLACED), advice=advice
            )
        if not isinstance(component.get("_target_"), str):
            allowed = "the path of a class or function"
            raise refused("this names no class", f"replace.{part}._target_", component.get("_target_"), allowed=allowed)
    if (extension.replace or extension.network_hook) and not framework.extends:
        key = "replace" if extension.replace else "network_hook"
        given = ", ".join(extension.replace) or extension.network_hook
        raise refused(f"there is no such thing with {framework.product}", key, given, advice="framework=pytorch")


def recorded(vendor: Vendor, config: Mapping[str, Any]) -> dict[str, Any] | None:
    """The record of an extension in configuration and results; None: the job has no extension.

    Returns:
        `replaced`: part → its replacement; `files`: path below code/ → SHA-256; `has_code`: whether it needs a proof;
        `proof`: the valid proof or None; `no_proof`: why no proof is valid.
    """
    extension = vendor.extension
    if extension == replace(Extension(), folder=extension.folder):
        return None
    hashes = file_hashes(extension.code) if extension.code else {}
    proof, no_proof = find_proof(extension, config, hashes) if extension.has_code else (None, "")
    return {
        "replaced": replaced(extension),
        "files": hashes,
        "has_code": extension.has_code,
        "proof": proof,
        "no_proof": no_proof,
    }


def without_proof(config: Mapping[str, Any], chosen: bool) -> tuple[Division, str | None]:
    """The division of a job; and a note where a closed job's extension has no proof.

    Such a job becomes open. Where the user chose closed, the job stays closed, and its result is INVALID.

    Args:
        config: the resolved configuration.
        chosen: whether the user chose the division.
    """
    extension, division = config.get("extension"), config["division"]
    if not extension or not extension["has_code"] or extension["proof"] or config["prove"] or division != "closed":
        return division, None
    effect = "its result is INVALID" if chosen else "the run is open"
    note = f"no proof that the vendor's own code does what the case does ({extension['no_proof']}): {effect}"
    return ("closed" if chosen else "open"), note


def replaced(extension: Extension) -> dict[str, str]:
    """The parts of an extension, in the order of their use in ranks."""
    parts = {
        "environment_script": extension.environment_script or "",
        "requirements": ", ".join(extension.requirements),
        "modules": ", ".join(extension.modules),
        **{part: str(component["_target_"]) for part, component in extension.replace.items()},
        "network_hook": extension.network_hook or "",
    }
    return {part: path for part, path in parts.items() if path}


def file_hashes(code: Path) -> dict[str, str]:
    """Path below the folder → SHA-256, for each file that ranks get."""
    return {path.relative_to(code).as_posix(): sha256_of(path) for path in files(code)}


# ---------------------------------------------------------------- proofs


def proof_path(extension: Extension, config: Mapping[str, Any]) -> Path:
    """Path of the proof for this case and this extension."""
    effects = [
        extension.modules,
        extension.replace,
        extension.network_hook,
        extension.names,
        config["framework"]["name"],
    ]
    name = hashlib.sha256(json.dumps(effects, sort_keys=True).encode()).hexdigest()[:8]
    assert extension.code  # check_extension
    return extension.code.parent / PROOFS / f"{config['case']}-{name}.yaml"


def find_proof(
    extension: Extension, config: Mapping[str, Any], hashes: Mapping[str, str]
) -> tuple[dict[str, Any] | None, str]:
    """The valid proof for the current files, and ""; or None, and the reason."""
    try:
        proof = read_yaml(proof_path(extension, config))
    except FileNotFoundError:
        return None, NO_PROOF
    except (OSError, ValueError, yaml.YAMLError) as error:
        return None, f"it cannot be read: {error}"
    if not (isinstance(proof, dict) and all(isinstance(proof.get(name), kind) for name, kind in PROOF.items())):
        return None, "it cannot be read"
    if proof.get("revision") != config.get("revision", 1):
        return None, "the case was changed after it"
    if changed := [name for name in {**hashes, **proof["files"]} if hashes.get(name) != proof["files"].get(name)]:
        return None, f"{', '.join(sorted(changed))} changed after it"
    differences = (proof["differences"].get(name) for name in (*COMPARED, *({"optimizer"} & extension.replace.keys())))
    if not all(isinstance(value, float) and value <= WITHIN for value in differences):
        return None, f"it does not say that all differences are at most {WITHIN:g}"
    return proof, ""
