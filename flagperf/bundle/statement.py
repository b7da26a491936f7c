"""The statement of a bundle: an in-toto statement (v1). Its subjects are the files with their hashes.

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
from flagperf.contract.regular import parse_json
from flagperf.errors import ConfigError
from flagperf.run import command_file

TYPE = "https://in-toto.io/Statement/v1"
PREDICATE = "urn:flagperf:bundle:1"


def statement(hashes: Mapping[str, str], predicate: Mapping[str, Any], kind: str = PREDICATE) -> bytes:
    """The text of a statement.

    Args:
        hashes: file → its SHA-256.
        kind: of the predicate, as a URI.
    """
    subjects = [{"name": name, "digest": {"sha256": digest}} for name, digest in sorted(hashes.items())]
    record = {"_type": TYPE, "subject": subjects, "predicateType": kind, "predicate": predicate}
    return (json.dumps(record, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()


def read(text: bytes, where: Path) -> tuple[dict[str, str], int]:
    """The SHA-256 of each file, and the number of hidden secret values. Raises ConfigError for any other text."""
    try:
        record = parse_json(text)
        if (record["_type"], record["predicateType"]) != (TYPE, PREDICATE):
            raise ValueError(f"its type is {record['_type']}, its predicate {record['predicateType']}")
        hashes = {str(item["name"]): str(item["digest"]["sha256"]) for item in record["subject"]}
        return hashes, int(record["predicate"]["hidden"]["values"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError("the statement of this bundle cannot be read", where=str(where), given=str(error)) from None


def describe(run: Path, summaries: Iterable[Summary], hidden: Mapping[str, int]) -> dict[str, Any]:
    """The predicate of the statement: command, code, jobs and hidden values. It holds no figure.

    Args:
        hidden: the number of secret values that were left out of each file.
    """
    predicate: dict[str, Any] = {"bundler": f"flagperf {__version__}", "run": run.name}
    with suppress(ConfigError):  # older runs have no command file
        command = command_file.read(run)
        predicate["command"] = {"line": command.line(), "folder": command.folder, "began": command.began}
        predicate["code"] = {"version": command.version, **command.code}
    predicate["jobs"] = [_job(summary) for summary in summaries]
    predicate["hidden"] = {"values": sum(hidden.values()), "files": dict(hidden)}
    return predicate


def _job(summary: Summary) -> dict[str, Any]:
    """Case, scale, code, images and data of a job, as its ranks logged them."""
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
        "code": _without_duplicates(record["code"] for record in software if record.get("code")),
        "images": _without_duplicates(record["image"] for record in software if record.get("image")),
        "data": [{"files": files, "fingerprint": digest} for files, digest in sorted(data)],
    }


def _without_duplicates(records: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Each record once, in the original order."""
    distinct: list[dict[str, Any]] = []
    for record in records:
        if record not in distinct:
            distinct.append(dict(record))
    return distinct
