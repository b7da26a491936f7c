"""Two hosts with sshd and docker, made once for all cluster tests of a worker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hosts import TestCluster, why_not


@pytest.fixture(scope="session")
def _session_cluster() -> Iterator[TestCluster]:
    reason = why_not()
    if reason:
        pytest.skip(reason)
    with TestCluster() as cluster:
        yield cluster


@pytest.fixture
def lab(_session_cluster: TestCluster) -> TestCluster:
    """The cluster, with every host in order."""
    _session_cluster.repair()
    return _session_cluster
