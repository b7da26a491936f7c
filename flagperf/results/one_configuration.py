"""Rules of the verdict: all ranks read the same configuration, and config.yaml holds it.

People who start nodes by hand give the configuration to each node. A file can be edited after the run; the logs of the
ranks hold what they read.
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

SHOWN = 5  # a reason names so many keys
# Keys that may differ between nodes: paths, waiting times; and the code, which another rule compares.
OWN_OF_A_NODE = ("run_name", "result_dir", "reports", "log_level", "deadlines", "monitor", "code")
# Keys that belong to a round or to its hosts, and not to the job's configuration.
OF_A_ROUND = ("seed", "resume", "clear_caches", "cluster")


def one_configuration(evidence: Evidence) -> Iterator[Finding]:
    """Compare the configuration in each rank's SUBMIT_INFO with that of the first rank. Paths may differ."""
    submitted = ((log.rank, log.all("SUBMIT_INFO")) for log in evidence.logs)
    configs = {rank: events[0].value.get("config", {}) for rank, events in submitted if events}
    first, *others = configs or [0]
    for rank in others:
        if configs[rank] != configs[first]:
            keys = differing(leaves(_shared(configs[first])), leaves(_shared(configs[rank])))
            if keys:
                yield "INVALID", f"rank {rank} has another configuration than rank {first}: {', '.join(keys)}"
                return


def as_recorded(evidence: Evidence) -> Iterator[Finding]:
    """Compare config.yaml of the job, and the seed of the round, with what the first rank read."""
    submitted = (event.value.get("config") for log in evidence.logs for event in log.all("SUBMIT_INFO"))
    read = next(filter(None, submitted), None)
    if not read or not evidence.config:
        return
    recorded, submitted_config = ({**_shared(config), "code": config.get("code")} for config in (evidence.config, read))
    values = leaves(_of_job(submitted_config))
    keys = [key for key in differing(leaves(_of_job(recorded)), values) if HIDDEN not in str(values.get(key))]
    if keys:
        yield "INVALID", f"config.yaml is not what the ranks read: {', '.join(keys[:SHOWN])}"
    elif "repeat_seed" in evidence.config and read["seed"] != (seed := round_seed(evidence.config, evidence.round)):
        yield "INVALID", f"the ranks read seed {read['seed']}, that of round {evidence.round} is {seed}"


def _of_job(config: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in encode(config).items() if key not in OF_A_ROUND}


def _shared(config: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _anywhere(value) for key, value in config.items() if key not in OWN_OF_A_NODE}


def _anywhere(value: Any) -> Any:
    """The value with each path replaced by "/"."""
    if isinstance(value, Mapping):
        return {key: _anywhere(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_anywhere(item) for item in value]
    return "/" if isinstance(value, str) and value.startswith(("/", "~")) else value
