"""The launcher never imports torch, and Python 3.8 imports what ranks run. pyproject.toml says who may import whom."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    "argv",
    [
        pytest.param(["--help"], id="help"),
        pytest.param(["list"], id="list"),
        pytest.param(
            ["model=glm", "vendor=nvidia", "hardware=A100", "nnodes=2", "nproc=8", "dry_run=true"], id="dry run"
        ),
        pytest.param(["model=gml"], id="refusal"),
        pytest.param(["data", "check", "model=glm", "data_dir=/"], id="data check"),
    ],
)
def test_the_launcher_never_imports_torch(argv: list[str]) -> None:
    program = (
        "import atexit, sys\n"
        "heavy = ('torch', 'asyncssh', 'docker', 'pynvml', 'jinja2')\n"
        "atexit.register(lambda: print('imported:', [name for name in heavy if name in sys.modules]))\n"
        "from flagperf.cli.main import run_command\n"
        "run_command(sys.argv[1:])\n"
    )
    done = subprocess.run([sys.executable, "-c", program, *argv], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "imported: []"


FOLDERS = ("flagperf/contract", "flagperf/trainer", "cases")
OF_RANKS = [path for folder in FOLDERS for path in ROOT.glob(f"{folder}/**/*.py")]
BUILTIN = {"list", "dict", "tuple", "set", "frozenset", "type"}


def test_python_3_8_imports_what_ranks_run() -> None:
    """Python 3.8 evaluates no Mapping[…] of collections.abc and no list[…]; in annotations they are never evaluated."""
    assert [f"{path}:{line}" for path in OF_RANKS for line in subscripted(ast.parse(path.read_text("utf-8")))] == []


def subscripted(module: ast.Module) -> Iterator[int]:
    """Lines in which the import of a module evaluates such a subscript."""
    imports = [node for node in module.body if isinstance(node, ast.ImportFrom) and node.module == "collections.abc"]
    generic = BUILTIN | {alias.asname or alias.name for node in imports for alias in node.names}
    for node in evaluated(module):
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id in generic:
            yield node.lineno


def evaluated(node: ast.AST) -> Iterator[ast.AST]:
    """What an import evaluates below a node: no bodies of functions, no annotations, no imports for types alone."""
    children: Iterable[ast.AST | None] = ast.iter_child_nodes(node)
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        children = [*node.decorator_list, *node.args.defaults, *node.args.kw_defaults]
    elif isinstance(node, ast.Lambda):
        children = node.args.defaults
    elif isinstance(node, ast.AnnAssign):
        children = [node.value]
    elif isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
        children = node.orelse
    for child in filter(None, children):
        yield child
        yield from evaluated(child)
