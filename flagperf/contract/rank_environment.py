"""What a rank is told by variables of its environment."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Place:
    """Where a rank is in the job: what a template of `environment` may name."""

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
