"""Counts of a step, as they grow while the step runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Tuple

from flagperf.contract.trace import OperatorClass, Phase
from flagperf.trainer.pytorch.trace.memory import Bytes, Location

# Function of torch, shapes of its tensors, and the arguments after them as JSON; all empty for most operators.
Call = Tuple[str, Tuple[Tuple[int, ...], ...], str]
NO_CALL: Call = ("", (), "[]")
# Name, class, data type, phase, and operations, bytes read and written of one call, and how to call it again.
RowKey = Tuple[str, OperatorClass, str, Phase, float, float, float, Call]
# Kind, side of the mesh, ranks of the group, data type, phase.
SentKey = Tuple[str, str, int, str, Phase]


@dataclass
class Row:
    """Calls of one operator, summed. After an extrapolation the sums need not be whole."""

    calls: float = 0
    operations: float = 0
    read: float = 0
    written: float = 0
    chain: float = 0


@dataclass
class Sent:
    """Calls of one collective operation, summed."""

    calls: float = 0
    bytes: float = 0


@dataclass
class Counts:
    """All that one step came to."""

    samples: float
    peaks: dict[Location, Bytes] = field(default_factory=dict)
    rows: dict[RowKey, Row] = field(default_factory=dict)
    sent: dict[SentKey, Sent] = field(default_factory=dict)
