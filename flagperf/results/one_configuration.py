"""Whether all ranks trained with the same configuration. Where nodes are started by hand, people give it to each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from flagperf.config.provenance import differing, leaves
from flagperf.results.evidence import Evidence
from flagperf.results.values import Finding

# What a node may have of its own: where it writes, how long it waits; and the code, for which there is another rule.
OWN = ("run_name", "result_dir", "reports", "log_level", "deadlines", "monitor", "code")


def one_configuration(evidence: Evidence) -> Iterator[Finding]:
    """Compare what each rank says in SUBMIT_INFO with the first. A place on a node's disk is the same as any other."""
    configs = {log.rank: found[0].value.get("config", {}) for log in evidence.logs if (found := log.all("SUBMIT_INFO"))}
    first, *others = configs or [0]
    for rank in others:
        if configs[rank] != configs[first]:
            keys = differing(leaves(_shared(configs[first])), leaves(_shared(configs[rank])))
            if keys:
                yield "INVALID", f"rank {rank} has another configuration than rank {first}: {', '.join(keys)}"
                return


def _shared(config: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _anywhere(value) for key, value in config.items() if key not in OWN}


def _anywhere(value: Any) -> Any:
    """The value, where each path is the same one."""
    if isinstance(value, Mapping):
        return {key: _anywhere(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_anywhere(item) for item in value]
    return "/" if isinstance(value, str) and value.startswith(("/", "~")) else value
