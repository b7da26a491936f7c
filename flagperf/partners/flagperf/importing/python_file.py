"""A Python file of settings → its values. The file is parsed, and never executed."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from flagperf.errors import ConfigError
from flagperf.partners.flagperf.importing.values import FileContent, SourceLine, Unread, Value

COMPUTED, NO_FILE, CODE = "computed", "no such file beside it", "code"
LONGEST = 200  # characters of a statement in a message
LARGEST = 1e18  # of a computed number; no setting is larger
POWER = 64  # the largest exponent that is computed

_NUMBERS: Mapping[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}


def read_python(path: Path) -> FileContent:
    """The values at the top level of a file, and of the files beside it that it imports with `*`.

    A value may consist of numbers, texts and earlier names, with arithmetic. Every other statement becomes Unread; of a
    mapping, each entry on its own.

    Raises:
        ConfigError: the file is not valid Python.
    """
    return _File(path, ()).read()


class _NotStatedError(Exception):
    """An expression whose value is only known by running it."""


class _File:
    def __init__(self, path: Path, within: tuple[Path, ...]) -> None:
        self.path, self.within = path, (*within, path)
        self.values: dict[str, Value] = {}
        self.unread: list[Unread] = []
        self.files = [path]

    def read(self) -> FileContent:
        try:
            tree = ast.parse(self.path.read_bytes())
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            problem = f"not valid Python: {getattr(error, 'msg', error)}"
            raise ConfigError(problem, where=str(SourceLine(self.path, getattr(error, "lineno", None) or 1))) from None
        for statement in tree.body:
            try:
                self._statement(statement)
            except RecursionError:
                self._tell(statement, COMPUTED)
        return FileContent(self.values, tuple(self.unread), tuple(self.files))

    def _statement(self, node: ast.stmt) -> None:
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
            self._assignment(node)
        elif isinstance(node, ast.ImportFrom):
            self._import(node)
        elif isinstance(node, ast.Import | ast.Pass) or _is_comment(node):
            pass  # an imported module alone sets nothing
        else:
            self._tell(node, CODE if isinstance(node, ast.FunctionDef | ast.ClassDef) else COMPUTED)

    def _assignment(self, node: ast.Assign | ast.AnnAssign | ast.AugAssign) -> None:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if node.value is None:  # name: type
            return
        names = [target.id for target in targets if isinstance(target, ast.Name)]
        try:
            if len(names) < len(targets):
                raise _NotStatedError
            value = self._entries(names, node.value) if isinstance(node.value, ast.Dict) else self._value(node.value)
            if isinstance(node, ast.AugAssign):
                value = _combined(type(node.op), self._value(ast.Name(names[0])), value)
        except _NotStatedError:
            self._tell(node, COMPUTED)
            return
        for name in names:
            self.values[name] = Value(name, value, SourceLine(self.path, node.lineno))

    def _entries(self, names: list[str], node: ast.Dict) -> dict[str, Any]:
        """The entries of a mapping whose values are known. Every other entry becomes Unread."""
        stated = {}
        for key, value in zip(node.keys, node.values, strict=True):
            name = self._key(key)
            try:
                stated[name] = self._value(value)
            except _NotStatedError:
                self._add(
                    f"{name!r}: {ast.unparse(value)}", COMPUTED, value.lineno, [f"{target}.{name}" for target in names]
                )
        return stated

    def _import(self, node: ast.ImportFrom) -> None:
        """Read an imported file that lies beside this file."""
        parts = (node.module or "").split(".")
        beside = self.path.parent.joinpath(*parts).with_suffix(".py") if node.module and node.level < 2 else None
        names = [alias.asname or alias.name for alias in node.names]
        if beside is None or not beside.is_file() or beside in self.within:
            for name in names:
                self.values.pop(name, None)
            if names == ["*"]:
                self._tell(node, NO_FILE)
            return
        other = _File(beside, self.within).read()
        self.files += other.files
        if names == ["*"]:
            self.unread += other.unread
        for alias in node.names:
            imported = other.values if alias.name == "*" else {alias.name: other.values.get(alias.name)}
            for name, value in imported.items():
                if value is not None and not (alias.name == "*" and name.startswith("_")):
                    self.values[alias.asname or name] = value

    def _tell(self, node: ast.stmt, why: str) -> None:
        """Record a statement as Unread. Names that it may set lose their values."""
        names = [
            child.id for child in ast.walk(node) if isinstance(child, ast.Name) and not isinstance(child.ctx, ast.Load)
        ]
        for name in names:
            self.values.pop(name, None)
        self._add(ast.unparse(node), why, node.lineno, names)

    def _add(self, text: str, why: str, line: int, sets: Sequence[str]) -> None:
        text = " ".join(text.split())
        shown = text if len(text) <= LONGEST else f"{text[:LONGEST]} …"
        self.unread.append(Unread(shown, why, SourceLine(self.path, line), tuple(sets)))

    def _value(self, node: ast.expr) -> Any:
        """The value of an expression. Raises _NotStatedError."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str | int | float | None):
            return node.value
        if isinstance(node, ast.Name) and node.id in self.values:
            return self.values[node.id].value
        if isinstance(node, ast.List | ast.Tuple):
            return [self._value(item) for item in node.elts]
        if isinstance(node, ast.Dict):
            pairs = [(self._key(key), self._value(value)) for key, value in zip(node.keys, node.values, strict=True)]
            return dict(pairs)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "dict" and not node.args:
            return {self._named(keyword): self._value(keyword.value) for keyword in node.keywords}
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return _combined(ast.Sub, 0, self._value(node.operand))
        if isinstance(node, ast.BinOp):
            return _combined(type(node.op), self._value(node.left), self._value(node.right))
        if isinstance(node, ast.JoinedStr):
            return "".join(map(self._part, node.values))
        raise _NotStatedError

    def _part(self, node: ast.expr) -> str:
        """A part of an f-string: a text, or {expression} of a text or a whole number."""
        plain = isinstance(node, ast.FormattedValue) and node.conversion == -1 and node.format_spec is None
        value = self._value(node.value if isinstance(node, ast.FormattedValue) and plain else node)
        if not isinstance(value, str | int):
            raise _NotStatedError
        return str(value)

    def _key(self, node: ast.expr | None) -> str:
        key = self._value(node) if node is not None else None
        if not isinstance(key, str):
            raise _NotStatedError
        return key

    def _named(self, keyword: ast.keyword) -> str:
        if keyword.arg is None:
            raise _NotStatedError
        return keyword.arg


def _is_comment(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _combined(operation: type, left: Any, right: Any) -> Any:
    """Arithmetic on numbers, and concatenation of texts and lists. Raises _NotStatedError."""
    if operation is ast.Add and type(left) is type(right) and isinstance(left, str | list):
        return left + right
    if not all(isinstance(side, int | float) for side in (left, right)) or operation not in _NUMBERS:
        raise _NotStatedError
    if (operation is ast.Pow and abs(right) > POWER) or max(abs(left), abs(right)) > LARGEST:
        raise _NotStatedError
    try:
        result = _NUMBERS[operation](left, right)
    except (ArithmeticError, ValueError):
        raise _NotStatedError from None
    if not isinstance(result, int | float) or abs(result) > LARGEST:
        raise _NotStatedError
    return result
