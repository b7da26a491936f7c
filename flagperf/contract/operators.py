"""A table of operators: what is called, on which shapes, and how many operations that is. docs/probe.md."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Tuple

from flagperf.contract.build import build
from flagperf.contract.fields import Count
from flagperf.errors import ConfigError

COUNTED = "counted"  # by torch's counter of operations
Shape = Tuple[int, ...]


@dataclass(frozen=True)
class Operator:
    """A row of the table. Names in shapes, operations and arguments are letters of `sizes`."""

    name: str
    call: str  # function of torch: "mm", "nn.functional.linear"
    sizes: Mapping[str, Count]
    inputs: tuple[tuple[str, ...], ...]
    operations: str  # a product: "2 m n k"; COUNTED
    arguments: tuple[Any, ...] = ()  # after the tensors
    values: Literal["normal", "positive", "near one", "whole"] = "normal"  # of the tensors
    random: bool = False  # whether the result has random zeros
    classes: str | None = None  # size below which the numbers of an additional input lie, one for each row

    @classmethod
    def of(cls, name: object, row: Any, where: str) -> Operator:
        """A row of a table.

        Raises:
            ConfigError: the row has an unknown or a wrong value.
        """
        fields = {field.name for field in dataclasses.fields(cls)} - {"name"}
        if not isinstance(row, Mapping) or not {"call", "sizes", "inputs", "operations"} <= set(row) <= fields:
            raise ConfigError(
                "a row of operators is not complete, or has an unknown key",
                where=where,
                key=f"operators.{name}",
                given=sorted(row) if isinstance(row, Mapping) else row,
                allowed=f"call, sizes, inputs and operations; and {', '.join(sorted(fields))}",
            )
        key = f"operators.{name}"
        values = {**row, "name": str(name), "operations": str(row["operations"])}
        operator = build(cls, values, key, lambda _: where)
        if not operator.inputs:
            raise ConfigError("an operator without a tensor", where=where, key=f"{key}.inputs", allowed="shapes")
        unknown = [word for word in operator._words() if word not in operator.sizes]
        if unknown:
            allowed = ", ".join(operator.sizes)
            raise ConfigError("unknown word", where=where, key=key, given=unknown[0], allowed=allowed)
        return operator

    def _words(self) -> list[Any]:
        """All words that must be letters of sizes."""
        words = [word for shape in self.inputs for word in shape]
        words += [word for word in self.operations.split() if not word.isdigit() and word != COUNTED]
        for argument in self.arguments:
            parts = argument if isinstance(argument, list) else [argument]
            words += [part for part in parts if isinstance(part, str)]
        return [*words, *([self.classes] if self.classes else [])]

    def within(self, most: int | None) -> Operator:
        """The operator with its largest size halved until no input has more elements; None: as it is."""
        operator = self
        while most is not None and max(map(math.prod, operator.shapes)) > most:
            letter = max(operator.sizes, key=lambda name: operator.sizes[name])
            operator = dataclasses.replace(operator, sizes={**operator.sizes, letter: operator.sizes[letter] // 2})
        return operator

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """Of the tensors, without the class numbers."""
        return tuple(tuple(self.sizes[letter] for letter in shape) for shape in self.inputs)

    @property
    def work(self) -> int | None:
        """Operations of one call; None: they must be counted."""
        if self.operations == COUNTED:
            return None
        return math.prod(int(self.sizes.get(word, word)) for word in self.operations.split())

    @property
    def given(self) -> tuple[Any, ...]:
        """The arguments after the tensors, as numbers."""
        return tuple(self._number(argument) for argument in self.arguments)

    def _number(self, argument: Any) -> Any:
        if isinstance(argument, list):
            return [self._number(part) for part in argument]
        return self.sizes[argument] if isinstance(argument, str) else argument


def read_table(content: Any, where: str) -> tuple[Operator, ...]:
    """The rows of a table.

    Args:
        content: of the file.
        where: the file, for messages.

    Raises:
        ConfigError: the file is no table of operators.
    """
    rows = content.get("operators") if isinstance(content, Mapping) else None
    if not isinstance(rows, Mapping) or not rows:
        raise ConfigError("the file has no table of operators", where=where, key="operators", allowed="name: row")
    return tuple(Operator.of(name, row, where) for name, row in rows.items())
