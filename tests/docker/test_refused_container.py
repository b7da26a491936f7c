"""What flagperf advises where a daemon refuses a container."""

from __future__ import annotations

import pytest

from flagperf.config.schema.platform import ContainerOptions
from flagperf.docker.daemon import DockerRefusal
from flagperf.docker.runtime import OPTIONS, ROOTLESS, refusal
from flagperf.plan.values import Container

CONTAINER = Container("flagperf-1", "image:1", (), {}, {}, (), ContainerOptions())


@pytest.mark.parametrize(
    ("explanation", "advice"),
    [
        pytest.param(  # of docker 20.10 without root's rights
            'runc create failed: error mounting "mqueue" to rootfs at "/dev/mqueue": operation not permitted',
            ROOTLESS,
            id="the host's /dev/shm",
        ),
        pytest.param(
            "error setting rlimits for ready process: error setting rlimit type 8: operation not permitted",
            ROOTLESS,
            id="limits",
        ),
        pytest.param("invalid mount config", OPTIONS, id="another reason"),
    ],
)
def test_advice(explanation: str, advice: str) -> None:
    error = refusal("here", CONTAINER, DockerRefusal("here", 400, explanation))
    assert str(error) == f"here: docker refuses the container: {explanation}\n  do:      {advice}"
