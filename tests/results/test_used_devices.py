"""Which of a node's devices a job used."""

from __future__ import annotations

from typing import Any

import pytest

from flagperf.results.used_devices import used_devices

ACME: dict[str, Any] = {
    "nproc": 2,
    "vendor": {
        "visible_devices": "ACME_VISIBLE_DEVICES",
        "device_files": "/dev/acme[0-9]*",
        "container": {"gpus": "all"},
    },
    "runtime": {"kind": "docker", "container": {"gpus": None, "devices": []}},
    "cluster": {},
}
PROCESS: dict[str, Any] = {"runtime": {"kind": "process"}}


FILES = ["/dev/acme_ctl", "/dev/acme10", "/dev/acme3:/dev/acme0:rw"]


def given(gpus: str | None, by: str = "vendor", **options: Any) -> dict[str, Any]:
    """The configuration whose container gets these devices."""
    return {by: ACME[by] | {"container": {"gpus": gpus, **options}}}


@pytest.mark.parametrize(
    ("config", "visible", "used"),
    [
        pytest.param({}, None, (0, 1), id="all: the first ones"),
        pytest.param({}, "2,3", (2, 3), id="some are seen"),
        pytest.param({}, "5, 3,1", (5, 3), id="more are seen than ranks, in their order"),
        pytest.param(given("device=2,3"), None, (2, 3), id="the container is given some"),
        pytest.param(given("device=4,6,7"), "2,0", (7, 4), id="some are seen of those given"),
        pytest.param(given("device=4,6", "runtime") | given("all"), None, (0, 1), id="vendor after runtime"),
        pytest.param(given("device=4,6", "cluster"), None, (4, 6), id="cluster after vendor"),
        pytest.param(given("2"), None, (0, 1), id="a count is given"),
        pytest.param(given(None, devices=FILES), None, (3, 10), id="the container is given files"),
        pytest.param(given(None, devices=FILES), "1,0", (10, 3), id="some are seen of those files"),
        pytest.param(given(None, devices=["/dev/acme_ctl"]), None, (0, 1), id="no file of one device"),
        pytest.param(given(None, devices=FILES, privileged=True), None, (0, 1), id="privileged: all"),
        pytest.param(given("device=2,3") | PROCESS, None, (0, 1), id="no container"),
    ],
)
def test_used(config: dict[str, Any], visible: str | None, used: tuple[int, ...]) -> None:
    assert used_devices(ACME | config, visible) == used


@pytest.mark.parametrize(
    ("config", "visible", "why"),
    [
        pytest.param(
            {}, "GPU-8f2e,GPU-77aa", "ACME_VISIBLE_DEVICES=GPU-8f2e,GPU-77aa does not name devices by their numbers",
            id="identifiers are seen",
        ),
        pytest.param({}, "", "ACME_VISIBLE_DEVICES= does not name devices by their numbers", id="none is seen"),
        pytest.param({}, "-1,0", "ACME_VISIBLE_DEVICES=-1,0 does not name devices by their numbers", id="not a device"),
        pytest.param(
            given("device=GPU-8f2e"), None, "container.gpus=GPU-8f2e does not name devices by their numbers",
            id="an identifier is given",
        ),
        pytest.param({}, "3", "2 ranks have fewer devices: [3]", id="too few are seen"),
        pytest.param(given("device=2"), None, "2 ranks have fewer devices: [2]", id="too few are given"),
    ],
)  # fmt: skip
def test_not_known(config: dict[str, Any], visible: str | None, why: str) -> None:
    with pytest.raises(ValueError) as caught:
        used_devices(ACME | config, visible)
    assert str(caught.value) == why
