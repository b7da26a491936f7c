"""Notes beside the figures on foreign code in the ranks: modules of no package, further folders of modules."""

from __future__ import annotations

from collections.abc import Iterator

from flagperf.results.evidence import Evidence

MOST = 5  # a note names so many modules


def took_part(evidence: Evidence) -> Iterator[str]:
    """Notes on modules of no installed package, and on folders that a vendor's script added to Python's path.

    Other parts of the report name the vendor's plug-in and own code.
    """
    own_files = [*((evidence.config.get("extension") or {}).get("files") or ())]
    plugin = evidence.config["vendor"].get("plugin")
    names: dict[str, None] = {}
    folders: dict[str, None] = {}
    for built in evidence.built.values():
        software = built.get("software") or {}
        for path, module in (software.get("modules") or {}).items():
            name = str(module.get("module"))
            if name != plugin and not any(path.endswith(f"/{file}") for file in own_files):
                names[name.partition(".")[0]] = None
        folders |= dict.fromkeys(map(str, (software.get("python") or {}).get("path_of_script") or ()))
    if names:
        more = f" and {len(names) - MOST} more" if len(names) > MOST else ""
        yield f"code of no installed package in the ranks: {', '.join([*names][:MOST])}{more}"
    if folders:
        yield f"the environment script lets Python look in {', '.join(folders)}"
