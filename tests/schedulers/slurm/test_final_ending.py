"""What became of a job that was still being ended when it was asked about: a script says what scontrol said."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from flagperf.schedulers.slurm.job import final_ending

SCONTROL = """\
#!/bin/sh
line=$(head -n 1 {folder}/said)
sed -i 1d {folder}/said
case $line in "") echo "slurm_load_jobs error: Invalid job id specified" >&2; exit 1 ;; esac
echo "$line"
"""
JOB = "JobId=40 JobName=flagperf-a JobState={} Reason=None Dependency=(null) TimeLimit=UNLIMITED ExitCode=0:9"


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("states", "why"),
    [
        pytest.param(["COMPLETING", "CANCELLED"], "it was cancelled (scancel) (CANCELLED)", id="after a while"),
        pytest.param(["NODE_FAIL"], "a node failed (NODE_FAIL)", id="at once"),
        pytest.param([], None, id="forgotten"),
        pytest.param(["RUNNING"], None, id="it goes on"),
    ],
)
async def test_the_final_state_is_waited_for(
    states: list[str], why: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "said").write_text("".join(f"{JOB.format(state)}\n" for state in states))
    (tmp_path / "scontrol").write_text(SCONTROL.format(folder=tmp_path))
    (tmp_path / "sacct").write_text("#!/bin/sh\necho Slurm accounting storage is disabled >&2\nexit 1\n")
    for name in ("scontrol", "sacct"):
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert await final_ending(40) == why
