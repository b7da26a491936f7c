"""The values that a rank gets as environment variables."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RankEnvironment:
    """The position of a rank in its job. Templates of `environment` may use these fields."""

    rank: int
    local_rank: int
    node_rank: int
    nnodes: int
    nproc: int  # ranks of a node
    world_size: int
    address: str  # of node 0
    port: int  # free on node 0: for a store or a scheduler
    endpoint: str  # address:port of this rank, free there
    endpoints: str  # those of all ranks in their order, with commas
    endpoints_json: str  # the same as a list of JSON
    threads: int  # this rank's share of the node's cores
