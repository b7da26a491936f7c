"""A vendor's own code in a job: where it lies, what it may take the place of, and what shows that it does the same.

docs/adding-a-vendor.md tells of it. `flagperf check vendor=… model=…` writes the proofs that are read here.
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
from flagperf.contract.sent_code import files
from flagperf.errors import ConfigError

KEY = "vendor.extension"
REPLACED = ("network", "optimizer", "loader")  # parts that a vendor may have its own of
WITHIN = 1e-3  # largest relative difference to the case's own parts, in fp32, that a proof allows
PROOFS = "proofs"  # folder of proofs, beside that of the code
PROOF = {  # what is read of a proof
    **dict.fromkeys(("files", "differences", "optimizer", "versions"), dict),
    "same_modules": bool,
    "classes": list,
}
COMPARED = (
    "batches",
    "loss",
    "weights",
    "buffers",
    "evaluation",
)  # its differences, beside that of a replaced optimizer
NO_PROOF = "there is none of this code: flagperf check vendor=… model=… makes one"


def with_folder(vendor: Vendor, folders: Sequence[Path]) -> Vendor:
    """The vendor with the folder of its own code: the one that its file names, else vendors/<vendor> where it has code.

    Args:
        folders: the search path; `vendors` lies in a user's folder, and beside the shipped configuration.
    """
    if vendor.extension.folder:
        return vendor
    places = (VENDORS if folder == CONF else folder / "vendors" for folder in folders)
    found = next((place / vendor.name for place in places if (place / vendor.name / "code").is_dir()), None)
    return replace(vendor, extension=replace(vendor.extension, folder=str(found))) if found else vendor


def check_extension(vendor: Vendor, framework: Framework, where: Where) -> None:
    """Refuse an extension whose files are not there, or that takes the place of what stays the case's.

    Raises:
        ConfigError: what is wrong with it.
    """
    own = vendor.extension

    def refused(problem: str, key: str, given: object, **more: Any) -> ConfigError:
        return ConfigError(problem, where=where(f"{KEY}.{key}"), key=f"{KEY}.{key}", given=given, **more)

    if own.has_code and not own.folder:
        advice = f"make vendors/{vendor.name}/code in your --config-dir folder; proofs lie beside it"
        raise refused("the vendor has no folder of its own code", "folder", "null", advice=advice)
    if own.folder and not (own.code and own.code.is_dir()):
        raise refused("there is no such folder", "folder", own.code)
    if links := sorted(path for path in own.code.rglob("*") if path.is_symlink() and path.is_dir()) if own.code else []:
        problem = "a link to a folder: what is behind it would neither be sent nor looked at"
        raise refused(problem, "folder", links[0], advice="put the folder itself there")
    if own.environment_script and not (own.code and (own.code / own.environment_script).is_file()):
        script = own.code / own.environment_script if own.code else own.environment_script
        allowed = "a file of the extension's folder code/"
        raise refused("there is no such file", "environment_script", script, allowed=allowed)
    for part, said in own.replace.items():
        if part not in REPLACED:
            why = "data, evaluation, metric, schedule and target stay the case's"
            raise refused(
                "no vendor has its own of this part", "replace", part, allowed=", ".join(REPLACED), advice=why
            )
        if not isinstance(said.get("_target_"), str):
            allowed = "the path of a class or function"
            raise refused("this names no class", f"replace.{part}._target_", said.get("_target_"), allowed=allowed)
    if (own.replace or own.network_hook) and not framework.extends:
        key = "replace" if own.replace else "network_hook"
        given = ", ".join(own.replace) or own.network_hook
        raise refused(f"there is no such thing with {framework.product}", key, given, advice="framework=pytorch")


def recorded(vendor: Vendor, config: Mapping[str, Any]) -> dict[str, Any] | None:
    """What configuration and results keep of an extension; None where the job has none.

    Returns:
        `replaced`: what → by what; `files`: path below code/ → SHA-256; `has_code`: whether it needs a proof;
        `proof`: what the proof says, None where none holds; `no_proof`: why none does.
    """
    own = vendor.extension
    if own == replace(Extension(), folder=own.folder):
        return None
    hashes = file_hashes(own.code) if own.code else {}
    proof, why = find_proof(own, config, hashes) if own.has_code else (None, "")
    return {
        "replaced": replaced(own),
        "files": hashes,
        "has_code": own.has_code,
        "proof": proof,
        "no_proof": why,
    }


def without_proof(config: Mapping[str, Any], chosen: bool) -> tuple[Division, str | None]:
    """The division of a job; and a note where nothing shows that a closed job's extension does what the case does.

    Such a job is open. Where the user asks for a closed one it stays closed, and its result is INVALID.

    Args:
        config: the resolved configuration.
        chosen: whether the division was asked for.
    """
    found, division = config.get("extension"), config["division"]
    if not found or not found["has_code"] or found["proof"] or config["prove"] or division != "closed":
        return division, None
    then = "its result is INVALID" if chosen else "the run is open"
    note = f"no proof that the vendor's own code does what the case does ({found['no_proof']}): {then}"
    return ("closed" if chosen else "open"), note


def replaced(own: Extension) -> dict[str, str]:
    """What an extension brings, in the order in which ranks meet it."""
    found = {
        "environment_script": own.environment_script or "",
        "requirements": ", ".join(own.requirements),
        "modules": ", ".join(own.modules),
        **{part: str(said["_target_"]) for part, said in own.replace.items()},
        "network_hook": own.network_hook or "",
    }
    return {what: by for what, by in found.items() if by}


def file_hashes(code: Path) -> dict[str, str]:
    """Path below the folder → SHA-256, of each file that ranks get."""
    return {path.relative_to(code).as_posix(): sha256_of(path) for path in files(code)}


# ---------------------------------------------------------------- proofs


def proof_path(own: Extension, config: Mapping[str, Any]) -> Path:
    """Where the proof lies for this case, and for what the extension does there."""
    said = [own.modules, own.replace, own.network_hook, own.names, config["framework"]["name"]]
    name = hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:8]
    assert own.code  # check_extension
    return own.code.parent / PROOFS / f"{config['case']}-{name}.yaml"


def find_proof(
    own: Extension, config: Mapping[str, Any], hashes: Mapping[str, str]
) -> tuple[dict[str, Any] | None, str]:
    """The proof that holds for the files as they are; or None, and why."""
    try:
        found = yaml.safe_load(proof_path(own, config).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None, NO_PROOF
    except (OSError, ValueError, yaml.YAMLError) as error:
        return None, f"it cannot be read: {error}"
    if not (isinstance(found, dict) and all(isinstance(found.get(name), kind) for name, kind in PROOF.items())):
        return None, "it cannot be read"
    if found.get("revision") != config.get("revision", 1):
        return None, "the case was changed after it"
    if changed := [name for name in {**hashes, **found["files"]} if hashes.get(name) != found["files"].get(name)]:
        return None, f"{', '.join(sorted(changed))} changed after it"
    told = (found["differences"].get(name) for name in (*COMPARED, *({"optimizer"} & own.replace.keys())))
    if not all(isinstance(value, float) and value <= WITHIN for value in told):
        return None, f"it does not say that all differences are at most {WITHIN:g}"
    return found, ""
