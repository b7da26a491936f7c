"""Two hosts with sshd and docker, and two nodes of Slurm, each made once for all cluster tests of a worker."""

from __future__ import annotations

from collections.abc import Iterator

import hosts
import pytest
import slurm_lab
from hosts import TestCluster
from slurm_lab import SlurmLab


@pytest.fixture(scope="session")
def _session_cluster() -> Iterator[TestCluster]:
    reason = hosts.why_not()
    if reason:
        pytest.skip(reason)
    with TestCluster() as cluster:
        yield cluster


@pytest.fixture
def lab(_session_cluster: TestCluster) -> TestCluster:
    """The cluster, with every host in order."""
    _session_cluster.repair()
    return _session_cluster


@pytest.fixture(scope="session")
def _session_slurm() -> Iterator[SlurmLab]:
    reason = slurm_lab.why_not()
    if reason:
        pytest.skip(reason)
    with SlurmLab() as cluster:
        yield cluster


@pytest.fixture
def slurm(_session_slurm: SlurmLab) -> SlurmLab:
    """Two nodes of Slurm, idle and in order."""
    _session_slurm.repair()
    return _session_slurm


@pytest.fixture
def docker_slurm(slurm: SlurmLab) -> SlurmLab:
    """The same, with a docker daemon on each."""
    reason = hosts.why_not()
    if reason:
        pytest.skip(reason)
    slurm.start_docker()
    return slurm
