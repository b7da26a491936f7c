"""Fills in and checks names: of chosen options, of hosts, and of users in paths with ~."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from socket import gethostname
from typing import Any

from flagperf.config.files.layer import Layer
from flagperf.config.files.search_path import find
from flagperf.contract.build import Where
from flagperf.contract.leaves import Leaves
from flagperf.errors import ConfigError
from flagperf.user import user_path

ASCII_NAME = re.compile(r"[A-Za-z0-9._+-]+")
NAMED = ("vendor", "hardware", "cluster", "runtime", "framework")  # groups with a key `name`


def names(final: Layer) -> dict[str, Any]:
    """The names of the chosen options, and of nodes without a name: this machine's host name, or the address."""
    values: dict[str, Any] = {f"{group}.name": final.choices[group] for group in NAMED}
    nodes = final.get("cluster.nodes")
    if isinstance(nodes, list):
        values["cluster.nodes"] = [_named(node) if isinstance(node, (dict, str)) else node for node in nodes]
    return values


def size(final: Layer, folders: Sequence[Path]) -> str:
    """Name of the size; "full" where no file reduces the case to the chosen size."""
    chosen = final.choices["size"]
    return chosen if find(f"size/{chosen}/{final.choices['model']}", folders) else "full"


def _named(node: Mapping[str, Any] | str) -> Mapping[str, Any]:
    if isinstance(node, str):  # its address alone
        return {"name": node, "address": node}
    if node.get("name") is not None:
        return node
    return {**node, "name": gethostname() if node.get("local") else node.get("address")}


def check_users(values: Leaves, where: Where) -> None:
    """Refuse a path in the home of an unknown user."""
    for key, value in values.items():
        if isinstance(value, str) and value.startswith("~"):
            user_path(value, where=where(key), key=key)


def check_ascii(key: str, name: str, where: str) -> None:
    """Refuse a name of a case or product that could look like another name."""
    if not ASCII_NAME.fullmatch(name):
        allowed = "ASCII letters, digits, and any of . _ + -"
        raise ConfigError(
            "this name may look like another one", where=where, key=key, given=ascii(name), allowed=allowed
        )
