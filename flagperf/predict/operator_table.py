"""A trace → a table of its operators for probe=operators, with the shapes of the case."""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from flagperf.contract.operators import COUNTED
from flagperf.contract.trace import Trace
from flagperf.errors import ConfigError
from flagperf.plain import comment

POSITIVE = ("sqrt", "rsqrt", "log", "div", "reciprocal", "pow")
LEAST = 16  # a smaller number in arguments is no size of a tensor


def operator_table(trace: Trace, command: str) -> str:
    """The table as YAML: each call of forward and backward pass that can be made again, those with most work first.

    Args:
        command: that measures these operators.

    Raises:
        ConfigError: the trace has no such call.
    """
    calls: Counter[str] = Counter()
    work: dict[str, float] = defaultdict(
        float
    )  # operations; of other operators a part of the bytes, so that they follow
    for count in trace.operators:
        if count.function and count.phase != "optimizer" and all(all(shape) for shape in count.shapes):
            call = json.dumps([count.function, count.shapes, count.arguments])
            calls[call] += count.calls
            work[call] += count.operations or count.read / 1e3
    if not calls:
        raise ConfigError("the step has no operator that can be measured alone", given=trace.case.case)
    lines = [comment(command), "#", f"# The operators of a step of {trace.case.case}, batch {trace.case.batch_size}."]
    return (
        "\n".join(
            [
                *lines,
                "operators:",
                *_rows({call: calls[call] for call in sorted(work, key=work.__getitem__, reverse=True)}),
            ]
        )
        + "\n"
    )


def _rows(calls: Mapping[str, int]) -> Iterator[str]:
    names: Counter[str] = Counter()
    for key, number in calls.items():
        function, shapes, arguments = json.loads(key)
        name = function.rpartition(".")[2].strip("_")
        names[name] += 1
        letters = {size: f"s{at}" for at, size in enumerate(dict.fromkeys(size for shape in shapes for size in shape))}
        row = {
            "call": function,
            "sizes": {letter: size for size, letter in letters.items()},
            "inputs": [[letters[size] for size in shape] for shape in shapes],
            "operations": COUNTED,
            **({"arguments": _with_letters(arguments, letters)} if arguments else {}),
            **({"values": "positive"} if name in POSITIVE else {}),
            **({"random": True} if "dropout" in name else {}),
        }
        text = yaml.safe_dump(row, default_flow_style=True, sort_keys=False, width=math.inf).strip()
        yield f"  {name}_{names[name]}: {text}  # {number} calls in a step"


def _with_letters(argument: Any, letters: dict[int, str]) -> Any:
    """The arguments with the letters of sizes, so that they follow when a size is halved."""
    if isinstance(argument, list):
        return [_with_letters(part, letters) for part in argument]
    is_size = isinstance(argument, int) and not isinstance(argument, bool) and argument >= LEAST
    return letters.get(argument, argument) if is_size else argument
