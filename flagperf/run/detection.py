"""Names slow and late ranks while a round runs, by the step records of all ranks."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from flagperf.contract.perflog import Event
from flagperf.results.slow_ranks import sentences, with_monitors
from flagperf.results.stragglers import Finding, Stragglers
from flagperf.results.waits import Waits
from flagperf.run.node_run import NodeRun

RECORDS = 100  # newest step records of each rank whose times are known

log = logging.getLogger(__name__)


class Detection:
    """Takes the events of all ranks, and logs a warning for each slow or late rank."""

    def __init__(self, nodes: Sequence[NodeRun], config: Mapping[str, Any], folder: Path) -> None:
        self._config, self._folder = config, folder
        self._nodes = {rank: node for node in nodes for rank in node.node.ranks}
        complete = len(self._nodes) == config["nnodes"] * config["nproc"]  # else other launchers run the other nodes
        self._detector = (
            Stragglers(len(self._nodes), config["warmup_steps"]) if complete and len(self._nodes) > 1 else None
        )
        self._waits = Waits()
        self._visible: dict[int, str | None] = {}
        self._times: dict[int, dict[int, float]] = {rank: {} for rank in self._nodes}

    def observe(self, rank: int, event: Event) -> None:
        """Take note of an event of a rank."""
        node = self._nodes[rank]
        if event.event == "SUBMIT_INFO":
            self._visible[node.rank] = event.value.get("visible_devices")
        time = event.time_ms / 1000 - node.transport.clock_offset
        if event.event == "WAITING":
            self._log(self._waits.observe(rank, event.value, time))
        if event.event != "STEP_END" or self._detector is None:
            return
        times, step = self._times[rank], int(event.value.get("step") or 0)
        times[step] = time
        if len(times) > RECORDS:
            del times[next(iter(times))]
        self._waits.step_ended(rank, step)
        self._log(self._detector.observe(rank, event.value))

    def _log(self, findings: Iterable[Finding]) -> None:
        for finding in findings:
            of_rank = {(finding.rank, step): time for step, time in self._times[finding.rank].items()}
            host = self._nodes[finding.rank].host
            known = with_monitors(finding, host, self._folder, self._config, self._visible, of_rank)
            for text in sentences([known]):
                log.warning("%s", text)
