"""The way to a node by srun: what comes on it beside answers. A command stands for srun that runs the task here."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from flagperf.config.schema.schedulers import Slurm
from flagperf.errors import HostError
from flagperf.schedulers.slurm.channel import LONGEST, Channel
from flagperf.schedulers.slurm.job import SlurmJob

TASK = '#!/bin/sh\n{0}\nwhile [ "$1" != "-I" ]; do python=$1; shift; done\nexec "$python" "$@"\n'


@pytest.fixture
def channel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Channel:
    scontrol = "#!/bin/sh\necho JobId=1 JobState=RUNNING Reason=None\n"
    for name, text in {"srun": TASK.format(request.param), "scontrol": scontrol}.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    return Channel("n1", SlurmJob(1, ["n1"]), Slurm())


@pytest.mark.asyncio
@pytest.mark.parametrize("channel", ["printf '12\\nnull\\n[1]\\n{}\\n{\"number\":[]}\\nwelcome\\n'"], indirect=True)
async def test_what_a_prolog_prints_is_no_answer(channel: Channel) -> None:
    await channel.open()
    assert (await asyncio.wait_for(channel.ask("clock"), 20))["time"] > 0
    await channel.close()


@pytest.mark.asyncio
@pytest.mark.parametrize("channel", [f"head -c {LONGEST + 1} /dev/zero"], indirect=True)
async def test_a_line_without_end_ends_the_step_and_no_question_waits_for_ever(channel: Channel) -> None:
    await channel.open()
    with pytest.raises(HostError, match=f"n1: srun ended: more than {LONGEST} bytes came in one line"):
        await asyncio.wait_for(channel.ask("clock"), 20)
    await channel.close()
