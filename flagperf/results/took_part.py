"""What else took part in a round, for the notes beside its figures: code of no package in the ranks, a longer path."""

from __future__ import annotations

from collections.abc import Iterator

from flagperf.results.evidence import Evidence

MOST = 5  # modules that a note names


def took_part(evidence: Evidence) -> Iterator[str]:
    """Modules of the ranks that no installed package brought, and folders that a vendor's script let Python look in.

    The vendor's plug-in and own code are told elsewhere.
    """
    own = [*((evidence.config.get("extension") or {}).get("files") or ())]
    plugin = evidence.config["vendor"].get("plugin")
    names: dict[str, None] = {}
    folders: dict[str, None] = {}
    for built in evidence.built.values():
        told = built.get("software") or {}
        for path, module in (told.get("modules") or {}).items():
            name = str(module.get("module"))
            if name != plugin and not any(path.endswith(f"/{file}") for file in own):
                names[name.partition(".")[0]] = None
        folders |= dict.fromkeys(map(str, (told.get("python") or {}).get("path_of_script") or ()))
    if names:
        more = f" and {len(names) - MOST} more" if len(names) > MOST else ""
        yield f"code of no installed package in the ranks: {', '.join([*names][:MOST])}{more}"
    if folders:
        yield f"the environment script lets Python look in {', '.join(folders)}"
