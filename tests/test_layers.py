"""Imports run one way, without circles, and the launcher never imports torch."""

from __future__ import annotations

import ast
import graphlib
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "flagperf"

# stage → its modules and packages. The stages are those of docs/architecture.md.
STAGES = {
    "values": {"errors", "forms", "schema", "perflog"},
    "compose": {
        "places", "words", "jobs", "layers", "changes", "origin", "typed", "data_layout", "user_files", "compose",
        "listing", "parts", "config_rules", "container_options", "image",
    },
    "plan": {"plan", "container"},
    "transport": {"guard", "transport", "ssh", "ssh_errors", "ssh_login", "ssh_process"},
    "docker": {
        "docker_host", "docker_process", "docker_runtime", "image_build", "image_supply", "leftovers", "owner",
        "payload",
    },
    "monitors": {"monitors"},
    "execute": {
        "blame", "checks", "execute", "facts", "interrupt", "node_run", "page_caches", "progress", "resume",
        "run_folder", "runtime", "stacks", "supervise", "versions", "watch",
    },
    "result": {"rank_log", "evidence", "verdict", "result", "summary", "report"},
    "cli": {
        "cli", "verbs", "session", "run_log", "check", "data", "doctor", "doctor_docker", "findings", "clean",
    },
    "trainer": {"trainer"},
}  # fmt: skip

# stage → the stages it may import, beside itself
MAY_IMPORT = {
    "values": set(),
    "compose": {"values", "monitors"},  # a vendor's description of its tool is tried out
    "plan": {"values", "data_layout"},
    "transport": {"values"},
    "docker": {"values", "transport", "container", "image"},
    "monitors": {"values", "transport"},
    "execute": {"values", "plan", "transport", "docker", "monitors", "data_layout"},
    "result": {"values", "monitors"},
    "cli": {"values", "compose", "plan", "transport", "docker", "execute", "result", "monitors"},
    "trainer": {"errors", "perflog"},
}

FILES = {path: path.relative_to(PACKAGE).with_suffix("").parts for path in sorted(PACKAGE.rglob("*.py"))}


def stage_of(module: str) -> str:
    return next((stage for stage, modules in STAGES.items() if module in modules), f"no stage for {module}")


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def imported(path: Path) -> set[tuple[str, ...]]:
    """Modules of flagperf that a file imports when it runs, as parts of their names."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    hidden = {id(child) for node in ast.walk(tree) if is_type_checking(node) for child in ast.walk(node)}
    names = set()
    for node in ast.walk(tree):
        if id(node) in hidden:
            continue
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    parts = {tuple(name.split(".")[1:]) for name in names if name.startswith("flagperf.")}
    return {part for part in parts if part in FILES.values() or (*part, "__init__") in FILES.values()}


@pytest.mark.parametrize("path", [path for path in FILES if path.name != "__init__.py"], ids=lambda path: path.stem)
def test_imports_run_one_way(path: Path) -> None:
    stage = stage_of(FILES[path][0])
    assert stage in STAGES, "name the stage of a new module here and in docs/architecture.md"
    allowed = MAY_IMPORT[stage] | {stage}
    wrong = {name[0] for name in imported(path) if not {stage_of(name[0]), name[0]} & allowed}
    assert wrong == set()


def test_no_circles() -> None:
    graph = {parts: imported(path) - {parts} for path, parts in FILES.items() if path.name != "__init__.py"}
    graphlib.TopologicalSorter(graph).prepare()  # raises CycleError, which names the circle


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
        "from flagperf.cli import run_command\n"
        "run_command(sys.argv[1:])\n"
    )
    done = subprocess.run([sys.executable, "-c", program, *argv], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "imported: []"
