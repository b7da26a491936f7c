"""Whether all ranks trained with the same configuration, and config.yaml is that one.

Where nodes are started by hand, people give it to each. A file can be edited after the run: the ranks' logs say what
they read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from flagperf.contract.leaves import differing, leaves
from flagperf.contract.perflog import encode
from flagperf.contract.records import Finding
from flagperf.contract.settings import round_seed
from flagperf.results.evidence import Evidence
from flagperf.secret import HIDDEN

# What a node may have of its own: where it writes, how long it waits; and the code, for which there is another rule.
SHOWN = 5  # keys that a reason names
OWN = ("run_name", "result_dir", "reports", "log_level", "deadlines", "monitor", "code")
# What a round has of its own, or learns of its hosts; it is no part of the job's configuration.
OF_A_ROUND = ("seed", "resume", "clear_caches", "cluster")


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


def as_recorded(evidence: Evidence) -> Iterator[Finding]:
    """Compare config.yaml of the job, and the seed that follows from it, with what the first rank says that it read."""
    submitted = (event.value.get("config") for log in evidence.logs for event in log.all("SUBMIT_INFO"))
    read = next(filter(None, submitted), None)
    if not read or not evidence.config:
        return
    here, there = ({**_shared(config), "code": config.get("code")} for config in (evidence.config, read))
    told = leaves(_of_job(there))
    keys = [key for key in differing(leaves(_of_job(here)), told) if HIDDEN not in str(told.get(key))]
    if keys:
        yield "INVALID", f"config.yaml is not what the ranks read: {', '.join(keys[:SHOWN])}"
    elif "repeat_seed" in evidence.config and read["seed"] != (seed := round_seed(evidence.config, evidence.round)):
        yield "INVALID", f"the ranks read seed {read['seed']}, that of round {evidence.round} is {seed}"


def _of_job(config: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in encode(config).items() if key not in OF_A_ROUND}


def _shared(config: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _anywhere(value) for key, value in config.items() if key not in OWN}


def _anywhere(value: Any) -> Any:
    """The value, where each path is the same one."""
    if isinstance(value, Mapping):
        return {key: _anywhere(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_anywhere(item) for item in value]
    return "/" if isinstance(value, str) and value.startswith(("/", "~")) else value
