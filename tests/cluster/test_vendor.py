"""A vendor made of YAML alone, in a folder outside the repository: from its check to the report of two nodes."""

from __future__ import annotations

import hashlib
import re
import shutil
import sys
from pathlib import Path

import pytest
from flagperf_run import FAKE, OPEN, Done, User, word
from hosts import IMAGE, Host, TestCluster

ACME = Path(__file__).parents[1] / "data/acme"
KERNELS = Path(__file__).parents[1] / "data/acme_kernels"  # its own code
ACME_IMAGE = "acme-pytorch:1.0"  # as the vendor's file names it
TOOL = "/srv/acme-smi"  # on the hosts
WORDS = ("vendor=acme", "hardware=A1", "size=tiny", "nnodes=2", f"runtime.python={sys.executable}", OPEN)


@pytest.fixture
def acme(lab: TestCluster, tmp_path: Path) -> User:
    """Someone with the vendor's folder, and hosts that have its image and its tool."""
    return with_acme(User(lab, tmp_path))


def with_acme(user: User) -> User:
    shutil.copytree(ACME, user.config_dir, dirs_exist_ok=True)
    vendor = user.config_dir / "vendor/acme.yaml"
    vendor.write_text(vendor.read_text().replace("[acme-smi]", f"[{TOOL}]"))
    for host in user.lab.hosts:
        host.output("docker", "tag", IMAGE, ACME_IMAGE)
        install(host, (ACME / "bin/acme-smi").read_text())
    return user


def install(host: Host, tool: str) -> None:
    host.output("sh", "-c", f"cat >{TOOL}; chmod +x {TOOL}", stdin=tool.encode())


def rows(done: Done) -> dict[str, str]:
    """host and check → what doctor says of it."""
    lines = [line.split() for line in done.output.splitlines()[1:]]
    return {f"{words[0]} {words[1]}": " ".join(words[2:]) for words in lines if len(words) > 2}


@pytest.mark.slow
def test_check_doctor_a_run_on_two_nodes_and_its_report(acme: User) -> None:
    checked = acme.run("check", "vendor=acme")
    assert checked.exit_code == 0, checked.output
    doctor = acme.run("doctor", "cluster=lab", *WORDS)
    assert doctor.exit_code == 0, doctor.output
    found = rows(doctor)
    assert found["h2 image"] == f"ok {ACME_IMAGE} is there"
    assert re.fullmatch(r"ok the image's Python starts, and imports torch \S+", found["h2 python"])
    read = r"\| 0 .* \| \d+% is read as \d+C [\d.]+W [\d.]+MiB 16384MiB \d+%"
    assert re.fullmatch(rf"ok {TOOL}: 2 devices; device 0: {read}", found["h2 monitor"])

    done = acme.run(*WORDS, "model=glm", "max_steps=20", "monitor.interval=1", "num_workers=0")
    assert done.exit_code == 0, done.output
    result = done.result("glm-pytorch-A1x2x1")
    assert (result["vendor"], result["verdict"], result["reasons"]) == ("acme", "VALID", [])
    for node in ("h1_noderank0", "h2_noderank1"):
        assert set(result["monitors"]["nodes"][node]) >= {"cpu", "mem", "acme"}
        (about,) = done.folder.glob(f"*/round1/{node}/sys_info.log")
        assert re.search(
            r"^devices: .*\n(.+\n)+\naccelerators, by the vendor's tool:\n    \| 0 .*\n    \| 1 ",
            about.read_text(),
            re.M,
        )
    assert result["monitors"]["energy"]["devices"]["energy_j"] > 0
    report = (done.folder / "report.md").read_text()
    assert "| [glm (tiny)](#job1) | VALID |" in report and "\nEnergy of the training, accelerators" in report

    shown = acme.run("report", str(done.folder))
    assert shown.exit_code == 0, shown.output
    assert (done.folder / "report.md").read_text() == report


@pytest.mark.parametrize(
    ("tool", "said"),
    [
        pytest.param(
            None,
            f"{TOOL}: timeout: failed to run command '{TOOL}': No such file or directory",
            id="missing",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "#!/bin/sh\nexec sleep 3600\n", f"{TOOL}: gave no answer within 0.5 s", id="hangs", marks=pytest.mark.slow
        ),
        pytest.param("#!/bin/sh\necho 'ERR 42'\n", f"{TOOL}: cannot be read (no device in it): ERR 42", id="garbage"),
    ],
)
def test_a_tool_that_fails_is_named_once_a_host_and_stops_nothing(
    lab: TestCluster, tmp_path: Path, tool: str | None, said: str
) -> None:
    user = with_acme(User(lab, tmp_path, steps=True))
    vendor = user.config_dir / "vendor/acme.yaml"
    vendor.write_text(vendor.read_text() + "    timeout: 0.5\n")
    for host in lab.hosts:
        host.output("rm", TOOL) if tool is None else install(host, tool)
    done = user.run(*WORDS, *FAKE, "max_steps=10", "monitor.interval=0.3")
    assert done.exit_code == 0, done.output
    for host in lab.hosts:
        assert done.log.count(f"{host.name}: monitor acme: not available: {said}") == 1, done.log
        (log,) = done.folder.glob(f"*/round1/{host.name}_*/acme_monitor.log")
        assert log.read_text().count(said) == 1
        assert host.run("pgrep", "-af", "[s]leep 3600|[@]begin").stdout == ""


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_code_of_the_vendors_own_on_two_nodes(acme: User) -> None:
    """From its proof, made in a container of a host, to the report of a closed run without docker."""
    shutil.copytree(KERNELS, acme.config_dir, dirs_exist_ok=True, ignore=shutil.ignore_patterns("proofs"))
    words = ("vendor=acme", "hardware=A1", f"runtime.python={sys.executable}")
    checked = acme.run("check", "model=resnet50", "cluster=lab", f"result_dir={word(acme.home)}", *words, OPEN)
    assert checked.exit_code == 0, checked.output
    assert "largest difference: 0 (batches), in 20 steps in fp32 on " in checked.output

    code = KERNELS / "vendors/acme/code"
    files = ("environment.sh", *(f"acme_kernels/{name}.py" for name in ("library", "loader", "network", "optimizer")))
    hashes = {name: hashlib.sha256((code / name).read_bytes()).hexdigest() for name in files}
    more = ("runtime=process", "size=tiny", "nnodes=2", "nproc=1", "max_steps=3", "num_workers=0")
    done = acme.run(*words, *more, run_name="own")
    assert done.exit_code == 0, done.output
    result = done.result("resnet50-pytorch-A1x2x1")
    assert (result["division"], result["verdict"], result["reasons"]) == ("closed", "VALID", [])
    assert result["built"]["optimizer"]["class"] == "acme_kernels.optimizer.FusedSGD"
    assert result["built"]["software"]["extension"] == hashes
    report = (done.folder / "report.md").read_text()
    assert "optimizer acme_kernels.optimizer.FusedSGD, loader acme_kernels.loader.AheadLoader" in report
    assert "shown to do what the case does, with a largest difference of 0;" in report
