"""Many short runs over two docker hosts, each with a fault drawn at random that strikes at a random moment.

    python benchmarks/soak.py [RUNS] [SEED] [FAULT…]      200 runs, seed 0, all faults

A run of 40 steps (tests/cluster/workload/steps.py in place of a training) is started, the fault strikes in one of its
phases, and the run must end by itself within LIMIT seconds. Checked after each: nothing is left on the hosts (where a
host was lost or the launcher killed: after `flagperf clean`), no traceback was printed, the exit code is one that the
docs name, and the run has a report. At the end the launcher's temporary folder must be empty. A line a run is printed,
then a table; exit status 1 where anything was found. Needs what docker_start.py needs.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "cluster"))
from flagperf_run import DOCKER, FAKE, OPEN, User, assert_nothing_left
from hosts import OURS, TestCluster

LIMIT = 180.0  # seconds until a run has ended after its fault
SETTLE = 60.0  # seconds for hosts to end what a dead launcher left running
CODES = {0, 3, 5, 130}  # docs/when-a-run-fails.md
KILLED = {-signal.SIGKILL, -signal.SIGINT, -signal.SIGTERM, -signal.SIGHUP}  # where it struck before there was a run
PROCESS = ("runtime=process", f"runtime.python={sys.executable}", OPEN)
WORDS = ("nnodes=2", "max_steps=40", "deadlines.stall=15", "deadlines.connect=5")

Launcher = subprocess.Popen[str]
Happens = Callable[[TestCluster, Launcher], object]


@dataclass(frozen=True)
class Fault:
    """What strikes a run: something that happens to it, or a scenario of its ranks."""

    happens: Happens = lambda _lab, _launcher: None
    scenario: str = "fine"
    cleans: bool = False  # whether a host or the launcher may be lost, so that `flagperf clean` has work left
    runtimes: tuple[tuple[str, ...], ...] = (DOCKER, PROCESS)


def sent(number: signal.Signals) -> Happens:
    return lambda _, launcher: launcher.send_signal(number)


def container(action: str) -> Happens:
    return lambda lab, _: lab.hosts[1].run("sh", "-c", f"docker ps -q | xargs -r docker {action}")


def stopped(program: str, number: signal.Signals) -> Happens:
    return lambda lab, _: lab.hosts[1].stop(program, number)


def outage(lab: TestCluster, _: Launcher) -> None:
    """A cable that is unplugged for less than ssh.reconnect."""
    lab.hosts[1].cut()
    time.sleep(1.5)
    lab.hosts[1].mend()


def asleep(_: TestCluster, launcher: Launcher) -> None:
    """The lid of the launcher's machine is closed for longer than ssh.reconnect."""
    launcher.send_signal(signal.SIGSTOP)
    time.sleep(6)
    launcher.send_signal(signal.SIGCONT)


def twice(_: TestCluster, launcher: Launcher) -> None:
    launcher.send_signal(signal.SIGINT)
    time.sleep(0.5)
    launcher.send_signal(signal.SIGINT)


FAULTS = {
    "none": Fault(),
    "a rank raises": Fault(scenario="raise@1"),
    "a rank exits with 7": Fault(scenario="exit@0"),
    "a rank is killed": Fault(scenario="kill@1"),
    "a rank hangs": Fault(scenario="hang@0"),
    "Ctrl-C": Fault(sent(signal.SIGINT)),
    "Ctrl-C twice": Fault(twice),
    "SIGTERM": Fault(sent(signal.SIGTERM)),
    "SIGHUP": Fault(sent(signal.SIGHUP)),
    "launcher killed": Fault(sent(signal.SIGKILL), cleans=True),
    "launcher asleep": Fault(asleep, cleans=True),
    "network out for 1.5 s": Fault(outage, cleans=True),
    "network cut": Fault(lambda lab, _: lab.hosts[1].cut(), cleans=True),
    "power lost": Fault(lambda lab, _: lab.hosts[1].power_off(), cleans=True),
    "sshd killed": Fault(stopped("sshd", signal.SIGKILL), cleans=True),
    "docker daemon stopped": Fault(stopped("dockerd", signal.SIGTERM), cleans=True, runtimes=(DOCKER,)),
    "docker daemon killed": Fault(stopped("dockerd", signal.SIGKILL), cleans=True, runtimes=(DOCKER,)),
    "container removed": Fault(container("rm -f"), runtimes=(DOCKER,)),
    "container stopped": Fault(container("stop -t 1"), runtimes=(DOCKER,)),
    "container frozen": Fault(container("pause"), runtimes=(DOCKER,)),
}


@dataclass
class Tally:
    """What the runs with one fault came to."""

    codes: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)  # from the fault to the end of the command
    problems: list[str] = field(default_factory=list)  # what should not be


def settle(lab: TestCluster) -> str:
    """Give the hosts back what they lost, and wait for what a dead launcher left; what still runs."""
    for host in lab.hosts:
        host.bring_back()
        host.run("sh", "-c", "docker ps -q --filter status=paused | xargs -r docker unpause")
    end = time.monotonic() + SETTLE
    while running := [
        f"{host.name}: {problems}" for host in lab.hosts if (problems := host.run("pgrep", "-af", OURS).stdout)
    ]:
        if time.monotonic() > end:
            return "; ".join(running)
        time.sleep(0.2)
    return ""


def wrong_with(user: User, name: str, output: str, code: int) -> list[str]:
    """What the user of the ended run would complain about."""
    folder = user.home / "result" / name
    log = folder / "flagperf_run.log"
    text = output + (log.read_text() if log.exists() else "")
    (user.home / f"{name}.out").write_text(output)
    problems = [f"exit code {code}"] if code not in CODES | KILLED else []
    problems += ["a traceback"] if re.search(r"^Traceback", text, re.MULTILINE) else []
    if not log.exists():
        return problems  # it ended before it had a folder
    if not (folder / "report.md").exists() or code == -signal.SIGKILL:
        done = user.run("report", str(folder))
        problems += [f"no report: {done.output}"] if not (folder / "report.md").exists() else []
        problems += ["a traceback of report"] if "Traceback" in done.output else []
    return problems


def one_run(
    lab: TestCluster, user: User, number: int, fault: Fault, chance: random.Random
) -> tuple[int, float, list[str]]:
    """One run with its fault: exit code, seconds from the fault to its end, and what was wrong."""
    name = f"run{number}"
    process = user.start(*FAKE, *chance.choice(fault.runtimes), *WORDS, scenario=fault.scenario, run_name=name)
    time.sleep(chance.uniform(0.5, 20))
    struck = time.monotonic()
    if process.poll() is None:
        fault.happens(lab, process)
    try:
        output, _ = process.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait(), LIMIT, [f"did not end within {LIMIT:g} s"]
    seconds = time.monotonic() - struck
    problems = wrong_with(user, name, output, process.returncode)
    if running := settle(lab):
        problems.append(f"still running: {running[:300]}")
    if fault.cleans:
        cleaned = user.run("clean", "cluster=lab")
        problems += [f"clean: {cleaned.output}"] if cleaned.exit_code else []
    try:
        assert_nothing_left(lab)
    except AssertionError as left:
        problems.append(f"left behind: {left}")
        lab.repair()
    return process.returncode, seconds, problems


def main(runs: int, seed: int, *only: str) -> int:
    chance, tallies = random.Random(seed), defaultdict[str, Tally](Tally)
    home = Path(tempfile.mkdtemp(prefix="soak-"))
    with tempfile.TemporaryDirectory() as temporary, TestCluster() as lab:
        os.environ["TMPDIR"] = temporary  # of the launchers
        for number in (signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)  # nohup and a shell in the background ignore them for all they start
        user = User(lab, home, steps=True)
        for number in range(1, runs + 1):
            name = chance.choice([*(only or FAULTS)])
            code, seconds, problems = one_run(lab, user, number, FAULTS[name], chance)
            tally = tallies[name]
            tally.codes.append(code)
            tally.seconds.append(seconds)
            tally.problems += [f"run {number}: {problem}" for problem in problems]
            print(
                f"{number:4} {name:22} exit code {code:4} {seconds:6.1f} s  {'; '.join(problems) or 'ok'}", flush=True
            )
        user.run(*FAKE, *DOCKER, *WORDS, "max_steps=1", run_name="last")
        left = sorted(path.name for path in Path(temporary).iterdir())
    if print_summary(tallies, left):
        print(f"outputs and result folders: {home}")
        return 1
    shutil.rmtree(home)
    return 0


def print_summary(tallies: dict[str, Tally], left: list[str]) -> bool:
    """Print the table; whether anything was wrong."""
    print("\n| fault | runs | exit codes | seconds to the end: median, most | wrong |\n|---|---|---|---|---|")
    for name, tally in sorted(tallies.items()):
        codes = ", ".join(f"{code} ({tally.codes.count(code)})" for code in sorted(set(tally.codes)))
        seconds = f"{statistics.median(tally.seconds):.1f}, {max(tally.seconds):.1f}"
        print(f"| {name} | {len(tally.codes)} | {codes} | {seconds} | {len(tally.problems)} |")
    wrong = [problem for tally in tallies.values() for problem in tally.problems]
    print(*wrong, f"left in the launcher's temporary folder: {', '.join(left) or 'nothing'}", sep="\n")
    return bool(wrong or left)


if __name__ == "__main__":
    words = [*sys.argv[1:], *("200", "0")[len(sys.argv) - 1 :]]
    sys.exit(main(int(words[0]), int(words[1]), *words[2:]))
