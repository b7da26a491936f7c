"""The statement of a bundle: an in-toto statement (v1), whose subjects are the files with their hashes.

https://github.com/in-toto/attestation/blob/main/spec/v1/statement.md
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from flagperf import __version__
from flagperf.contract.records import Summary
from flagperf.errors import ConfigError
from flagperf.run import command_file

TYPE = "https://in-toto.io/Statement/v1"
PREDICATE = "urn:flagperf:bundle:1"


def statement(hashes: Mapping[str, str], predicate: Mapping[str, Any]) -> bytes:
    """The text of the statement; `hashes`: file → its SHA-256."""
    subjects = [{"name": name, "digest": {"sha256": digest}} for name, digest in sorted(hashes.items())]
    record = {"_type": TYPE, "subject": subjects, "predicateType": PREDICATE, "predicate": predicate}
    return (json.dumps(record, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()


def read(text: bytes, where: Path) -> tuple[dict[str, str], int]:
    """File → SHA-256, and how many secret values were left out. Raises ConfigError where it is no such statement."""
    try:
        record = json.loads(text)
        if (record["_type"], record["predicateType"]) != (TYPE, PREDICATE):
            raise ValueError(f"it is a {record['_type']} about {record['predicateType']}")
        hashes = {str(one["name"]): str(one["digest"]["sha256"]) for one in record["subject"]}
        return hashes, int(record["predicate"]["hidden"]["values"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ConfigError("the statement of this bundle cannot be read", where=str(where), given=str(error)) from None


def describe(run: Path, summaries: Iterable[Summary], hidden: Mapping[str, int]) -> dict[str, Any]:
    """What the statement says beside the hashes; it holds no figure.

    Args:
        hidden: file → how many secret values were left out of it.
    """
    found: dict[str, Any] = {"bundler": f"flagperf {__version__}", "run": run.name}
    with suppress(ConfigError):  # older runs kept none
        command = command_file.read(run)
        found["command"] = {"line": command.line(), "folder": command.folder, "began": command.began}
        found["code"] = {"version": command.version, **command.code}
    found["jobs"] = [_job(summary) for summary in summaries]
    found["hidden"] = {"values": sum(hidden.values()), "files": dict(hidden)}
    return found


def _job(summary: Summary) -> dict[str, Any]:
    """What a job ran, and on which code, image and data, as its ranks saw them."""
    config, rounds = summary.config, summary.results
    software = [result.built.get("software", {}) for result in rounds]
    ranks = [rank for result in rounds for rank in result.values.get("ranks") or ()]
    data = {(rank["data_files"], rank["data_fingerprint"]) for rank in ranks if rank.get("data_fingerprint")}
    return {
        "name": summary.name,
        **{key: config[key] for key in ("case", "size", "nnodes", "nproc", "division")},
        **{key: config[key]["name"] for key in ("framework", "vendor", "hardware")},
        "revision": config.get("revision", 1),
        "rounds": len(rounds),
        "code": _unlike(one["code"] for one in software if one.get("code")),
        "images": _unlike(one["image"] for one in software if one.get("image")),
        "data": [{"files": files, "fingerprint": digest} for files, digest in sorted(data)],
    }


def _unlike(records: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Each record once, in the order they come."""
    found: list[dict[str, Any]] = []
    for record in records:
        if record not in found:
            found.append(dict(record))
    return found
