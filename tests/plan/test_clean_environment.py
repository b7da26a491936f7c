"""The environment of the ranks: what is listed, whatever a host, an image or a vendor's script has set."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from example import HERE, PYTORCH, example_job

from flagperf.config.schema.cluster import Cluster, Node
from flagperf.config.schema.platform import ContainerOptions, Extension, Image, RuntimeSettings, Vendor
from flagperf.config.schema.values import JobConfig
from flagperf.plan.environment import environment_script
from flagperf.plan.plan import make_plan
from flagperf.plan.values import ENVIRONMENT, Plan, with_script
from flagperf.run.node_logs import LEFT_OUT

ATTACKS = {  # each of them alone had other code run in the ranks of a VALID run, or could have
    "PYTHON_EXEC": "/tmp/cheat",
    "PET_RUN_PATH": "1",
    "BASH_ENV": "{folder}/bash_env",
    "ENV": "{folder}/bash_env",
    "PYTHONWARNINGS": "ignore::hook.Hook",
    "PYTHONPYCACHEPREFIX": "/tmp/cache",
    "PYTHONSTARTUP": "/tmp/cheat.py",
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE": "1",
    "LD_AUDIT": "/tmp/cheat.so",
    "MASTER_ADDR": "10.9.9.9",
    "RANK": "7",
    "BASH_FUNC_exec%%": "() { touch {folder}/executed; }",
    "BASH_FUNC_tr%%": "() { :; }",
}
PASSED = {
    "NCCL_DEBUG": "INFO",
    "OMP_NUM_THREADS": "3",
    "LC_ALL": "C.UTF-8",
    "LD_LIBRARY_PATH": "/opt/acme/lib",
    "ACME_MODE": "fast",
    "MY_TOKEN": "a=b\nRANK=7\nFOO",
    "TORCH_LOGS": "+dynamo",
    "SLURM_JOB_ID": "12",
}
VENDOR = Vendor(
    "acme", "ACME", "acme", "acmecl", None, "ACME_DEVICES", environment={"ACME_MODE": "fast"}, passes=("NCCL_*",)
)


def run_of(**fields: Any) -> JobConfig:
    return example_job(**{"vendor": VENDOR, "secrets": {"MY_TOKEN": "hidden"}, "framework": PYTORCH, **fields})


def reaching(argv: tuple[str, ...], folder: Path, variables: dict[str, str]) -> tuple[dict[str, str], str]:
    """What a command that prints its environment has of these variables, and what its log says."""
    given = {name: value.replace("{folder}", str(folder)) for name, value in variables.items()}
    done = subprocess.run(argv, env={"PATH": "/usr/bin:/bin", **given}, capture_output=True, text=True, check=True)
    environment = dict(entry.split("=", 1) for entry in done.stdout.split("\0") if entry)
    names = {*variables, "FLAGPERF_BEFORE_SCRIPT"}
    return {name: value for name, value in environment.items() if name in names}, done.stderr


def named(log: str) -> set[str]:
    """The variables that a log names."""
    return {name for line in log.splitlines() if line.startswith(LEFT_OUT) for name in line[len(LEFT_OUT) :].split()}


def laid_out(folder: Path, job: JobConfig) -> str:
    """The files of a round in a folder; path of its config.yaml."""
    (folder / ENVIRONMENT).write_text(environment_script(job))
    (folder / "bash_env").write_text(f"touch {folder}/executed\n")
    return str(folder / "config.yaml")


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_what_is_listed_reaches_the_ranks(tmp_path: Path, shell: str) -> None:
    """What is not is named in the log; what a terminal sets is left out without a word. No value is told."""
    laid_out(tmp_path, run_of())
    (tmp_path / "sh").symlink_to(str(shutil.which(shell)))  # some systems have bash by that name
    argv = (str(tmp_path / "sh"), str(tmp_path / ENVIRONMENT), "env", "-0")
    variables, left_out = reaching(argv, tmp_path, {**PASSED, **ATTACKS, "TERM": "xterm", "SSH_TTY": "/dev/pts/1"})
    assert variables == PASSED
    assert not (tmp_path / "executed").exists()
    assert named(left_out) | {"BASH_FUNC_exec%%", "BASH_FUNC_tr%%"} == set(ATTACKS)  # sh passes on no functions


@pytest.mark.parametrize(
    ("variables", "room"),
    [
        pytest.param({"TMPDIR": "/scratch/{long}"}, "/tmp", id="a long TMPDIR"),
        pytest.param({"TEMP": "/scratch/{long}"}, "/tmp", id="a long TEMP"),
        pytest.param({"TMPDIR": "/scratch/1", "TEMP": "/scratch/{long}"}, "/scratch/1", id="a short TMPDIR"),
        pytest.param({"TMPDIR": ""}, "", id="none"),
    ],
)
def test_sockets_fit_below_the_folder_for_temporary_files(tmp_path: Path, variables: dict[str, str], room: str) -> None:
    """A data loader whose socket has too long a path waits for ever."""
    laid_out(tmp_path, run_of())
    given = {name: value.replace("{long}", "x" * 80) for name, value in variables.items()}
    argv = ("sh", str(tmp_path / ENVIRONMENT), "env", "-0")
    reached, log = reaching(argv, tmp_path, {"TMPDIR": "", **given})
    assert (reached["TMPDIR"], "TMPDIR=/tmp" in log) == (room, room == "/tmp")


def test_what_a_vendors_script_exports_is_looked_at_too(tmp_path: Path) -> None:
    """bash, which sources it, has a clean environment already. PYTHONPATH passes, and the ranks tell what it adds."""
    script = tmp_path / "env.sh"
    exports = 'NCCL_DEBUG=WARN PYTHON_EXEC=/tmp/cheat LD_BIND_NOT=1 PYTHONPATH="/opt/acme:$PYTHONPATH"'
    script.write_text(f"export {exports}\n")
    config = laid_out(tmp_path, run_of())
    plan = make_plan(run_of(), 1)
    start = with_script(replace(plan.nodes[0].launch, argv=("env", "-0")), str(script), config)
    variables, left_out = reaching(
        start.argv, tmp_path, {**PASSED, **ATTACKS, "PYTHONPATH": "/code", "LD_BIND_NOT": ""}
    )
    assert variables == {
        **PASSED,
        "NCCL_DEBUG": "WARN",
        "PYTHONPATH": "/opt/acme:/code",
        "FLAGPERF_BEFORE_SCRIPT": "/code",
    }
    assert not (tmp_path / "executed").exists()
    assert named(left_out) >= {"PYTHON_EXEC", "LD_BIND_NOT"}


BETA = Node("beta", "10.0.0.2")
LISTED = ("/bin/sh", "{round}/environment.sh")
SOURCED = (*LISTED, "bash", "-c")


@pytest.mark.parametrize(
    ("fields", "start"),
    [
        pytest.param({}, LISTED, id="this machine"),
        pytest.param({"cluster": Cluster("lab", "hosts", (BETA,))}, LISTED, id="ssh"),
        pytest.param(
            {"container": ContainerOptions(), "image": Image("img:1", "present")},
            ("sh", "-c", 'exec "$@" >>"$0" 2>&1', "{log}", *LISTED),
            id="docker",
        ),
        pytest.param(
            {"runtime": RuntimeSettings("box", "process", wrapper=("box", "{image}"), image="img")},
            (*LISTED, "box", "img", *LISTED),
            id="a wrapper, whose own variables count too",
        ),
    ],
)
@pytest.mark.parametrize("script", [False, True], ids=["no script", "a script"])
def test_every_way_to_the_ranks_leads_through_it(fields: dict[str, Any], start: tuple[str, ...], script: bool) -> None:
    """Last before their launcher, and before bash where a vendor's script is sourced."""
    extension = Extension(folder="/opt/acme", environment_script="env.sh") if script else Extension()
    fields = {"cluster": Cluster("one", "this", (HERE,)), **fields}
    job = example_job(vendor=replace(VENDOR, extension=extension), **fields)
    plan = make_plan(job, 1, Path("/res/run1"))
    node = plan.nodes[0]
    places = {"round": str(Path(node.config_file).parent), "log": plan.launcher_log(node)}
    argv = (node.container or node.start).argv
    head, launch = argv[: -len(node.launch.argv)], argv[-len(node.launch.argv) :]
    expected = tuple(word.format(**places) for word in start)
    assert (launch, head[: len(expected)], head[-2:]) == (node.launch.argv, expected, _listed(plan))
    assert head.count("bash") == script


def _listed(plan: Plan) -> tuple[str, str]:
    return "/bin/sh", plan.nodes[0].environment_file
