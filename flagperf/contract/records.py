"""The results of a round, and of all rounds of a case: frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Tuple

from flagperf.contract.fields import Figure
from flagperf.contract.identity import Identity
from flagperf.contract.outcome import Failure, Moment, Outage
from flagperf.contract.target import Target

Verdict = Literal["VALID", "SUSPECT", "RUNNING", "INVALID"]
Finding = Tuple[Verdict, str]  # of a rule of the verdict: the verdict that follows, and the reason


NO_TRACE = "a traced step"  # in `missing` of an Achievable


@dataclass(frozen=True)
class Change:
    """One value that differs from the case: its source, and the value before and after."""

    key: str
    before: Any
    after: Any
    source: str  # "tuning nvidia/glm/A100x2x8", "experiment a", "command line"


@dataclass(frozen=True)
class ProbedDevice:
    """The rates that the device of one rank achieved in a probe: figures in FLOP/s and bytes/s (docs/probe.md)."""

    rank: int
    host: str
    device: str
    figures: Mapping[str, float]  # without figures that the device does not support


@dataclass(frozen=True)
class ClassShare:
    """The operators of one class: their part of the least time of a step, and what limits most of this part."""

    operator_class: str
    share: float
    limited_by: str  # "compute", "memory bandwidth" or "links"


@dataclass(frozen=True)
class Achievable:
    """What a traced step and the figures of the product allow at most (docs/predict.md). Absent figures are None."""

    throughput: float | None = None  # of the whole job, as it trains: operators are fused only with compile
    share: float | None = None  # p_train / throughput
    bound: float | None = None  # throughput that nothing exceeds: fused, overlapped, by the data sheet alone
    step_time: float | None = None  # least seconds of an optimizer step, to which `throughput` belongs
    classes: tuple[ClassShare, ...] = ()  # of step_time, the largest first
    source: str = ""  # of the product's figures: a data sheet, or a probe
    missing: tuple[str, ...] = ()  # figures without which there is no throughput
    operations: float | None = None  # FLOP of a step of one rank
    moved: float | None = None  # bytes that a step of one rank reads and writes, unfused


@dataclass(frozen=True)
class SlowRank:
    """A rank that needed longer than the others for its own part of the steps. Seconds are those of a step."""

    rank: int
    first_step: int
    last_step: int
    excess: float  # share by which its own time was above the median of the other ranks
    own_time: float  # without waiting for other ranks, over the last steps …
    others_time: float  # … the median of the other ranks
    data_wait: float  # the part of own_time that waited for data …
    others_data_wait: float  # … the median of the other ranks
    host: str = ""
    figures: Mapping[str, Any] = field(default_factory=dict)  # of monitors → `own` and `others`: the mean, their median


@dataclass(frozen=True)
class LateRank:
    """A rank for which the other ranks waited long, once."""

    rank: int
    first_step: int  # the wait was in one of the steps …
    last_step: int  # … up to this one
    seconds: float
    host: str = ""
    collective: str = ""  # in which the other ranks waited, where it is known


@dataclass(frozen=True)
class Restart:
    """A lost attempt of a round, after which the round was started again (`restarts`). Seconds are the launcher's."""

    failure: Failure
    hosts: tuple[str, ...]  # of the lost attempt, by node rank
    started: Moment
    seconds: float  # of the lost attempt
    next_step: int  # the next attempt went on after this step; 0: from the beginning
    last_step: int | None = None  # the last logged one of the lost attempt; None: it trained no step
    lost: float | None = None  # seconds of training after `next_step`; None: it did not train
    away: float | None = None  # seconds from its last event to the next attempt's training; None: that did not train


@dataclass(frozen=True)
class Result:
    """One round. `values` are the fields of FINISHED (docs/results.md), absent ones are None."""

    identity: Identity
    round: int
    status: str  # finished, failed, interrupted, not started; from files alone also: unfinished, running, waiting
    verdict: Verdict
    reasons: tuple[str, ...]
    sample_data: bool
    target: Target | None
    target_reached: bool | None  # None: no target applies (sample data of a full-size case, synthetic, ended early)
    values: Mapping[str, Any]
    failure: Failure | None = None
    monitors: Mapping[str, Any] = field(default_factory=dict)  # "nodes": per node and monitor; "energy": of the job
    phases: Mapping[str, Mapping[str, float]] = field(default_factory=dict)  # node name → phase → seconds
    clocks: Mapping[str, float] = field(default_factory=dict)  # node name → seconds ahead of the launcher's
    outages: tuple[Outage, ...] = ()  # of hosts that came back
    sweep: Mapping[str, str] = field(default_factory=dict)
    started: Moment | None = None  # by the clock of the launcher
    seconds: float | None = None  # the whole round, by the launcher's clock
    trained: float | None = None  # from TRAIN_START to TRAIN_END, by the launcher's clock; None: not recorded
    previous: str = ""  # SHA-256 of result.json of the round before; "" where there is none, or it is not recorded
    built: Mapping[str, Any] = field(default_factory=dict)  # BUILT of the lowest rank (docs/perflog.md)
    seed: int | None = None  # as the ranks read it; None: no rank got so far
    synthetic: bool = False  # trained on batches that stay in device memory
    notes: tuple[str, ...] = ()  # remarks that change no verdict
    probe: tuple[ProbedDevice, ...] = ()  # with probe=run
    other_data: str = ""  # how the data of a full-size training differs from the case's; "" where it does not
    slow_ranks: tuple[SlowRank, ...] = ()
    late_ranks: tuple[LateRank, ...] = ()
    cost: Mapping[str, Any] = field(default_factory=dict)  # time by part, energy, price (docs/results.md)
    achievable: Achievable | None = None  # None: the round has no figures, or an older version wrote it
    restarts: tuple[Restart, ...] = ()  # lost attempts of this round, the oldest first


@dataclass(frozen=True)
class TriedSize:
    """A batch size of each rank that was tried for `train_batch_size=auto`."""

    size: int
    note: str = ""  # why it does not fit; empty: it fits
    peak_memory: float | None = None  # GiB, of the rank that held most
    throughput: float | None = None  # of the whole job

    @property
    def fits(self) -> bool:
        """Whether a rank can train with this size."""
        return not self.note


@dataclass(frozen=True)
class BatchSearch:
    """The batch size that `train_batch_size=auto` chose, and the sizes that it tried."""

    found: int | None  # None: not even one sample fits
    limit: float | None  # GiB that a rank may hold; None: as much as the device gives
    tried: tuple[TriedSize, ...]  # in the order of the tries
    sizes: tuple[int, ...] | None = None  # sizes that divide the case's global_batch_size; None: any size


@dataclass(frozen=True)
class Convergence:
    """Samples that the rounds of a job needed to the target, beside those of a reference (docs/numerics.md)."""

    outcome: Literal["faster", "as expected", "slower", "no point"]  # faster than MLPerf's test allows: SUSPECT
    batch: int  # samples of an optimizer step of the whole job
    rounds: int
    mean: float  # samples, without the least and the largest of three and more rounds
    source: str  # of the reference
    expected: float | None = None  # mean of the reference; None: no point
    least: float | None = None  # of the mean, by the test
    most: float | None = None
    detects: float | None = None  # share of the mean by which a job must differ to be detected in four of five cases
    detects_with_more: float | None = None  # the same with five more rounds


@dataclass(frozen=True)
class Statistics:
    """n, mean, sample standard deviation, min, max and coefficient of variation of one figure over rounds."""

    n: int
    mean: Figure
    stdev: Figure | None
    min: Figure
    max: Figure
    cv: Figure | None


@dataclass(frozen=True)
class Summary:
    """All rounds of one configured case."""

    name: str
    results: tuple[Result, ...]
    statistics: Mapping[str, Statistics]
    config: Mapping[str, Any]
    changes: tuple[Change, ...]
    reasons: tuple[str, ...] = ()  # why the job is SUSPECT where no round alone is
    batch: BatchSearch | None = None  # with train_batch_size=auto
    convergence: Convergence | None = None  # None: the case has no reference points, or the test does not apply

    @property
    def identity(self) -> Identity:
        """The identity of the configured case, from `config`."""
        return Identity.of(self.config)
