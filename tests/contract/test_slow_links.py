"""Who is measured with whom, and whom the figures of links blame."""

from __future__ import annotations

from itertools import permutations

import pytest

from flagperf.contract.slow_links import BOTH, RECEIVING, SENDING, Limits, Link, Suspect, rounds, slow_again, suspects
from flagperf.results.fabric import Searched, slow_lines

LIMITS = Limits(share=0.5, most_latency=0.002)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7, 16, 32])
def test_every_two_meet_once_and_nobody_is_in_two_pairs(count: int) -> None:
    made = rounds(range(count))
    met = [frozenset(pair) for pairs in made for pair in pairs]
    assert len(met) == len(set(met)) == count * (count - 1) // 2
    assert all(len({end for pair in pairs for end in pair}) == 2 * len(pairs) for pairs in made)


def test_of_many_hosts_each_meets_some() -> None:
    made = rounds(range(500))
    assert 25 <= len(made) <= 31
    assert all(len(pairs) == 250 for pairs in made)


def links(count: int, slow: dict[tuple[int | None, int | None], float] | None = None, **delays: float) -> list[Link]:
    """All links of some ranks at 1 GB/s and 0.1 ms; `slow`: (source, target), None: any, → bytes/s; rN: seconds."""

    def bandwidth(source: int, target: int) -> float:
        matching = [value for (a, b), value in (slow or {}).items() if a in (None, source) and b in (None, target)]
        return min(matching, default=1e9)

    return [
        Link(a, b, bandwidth(a, b), 1e-4 + delays.get(f"r{a}", 0.0) + delays.get(f"r{b}", 0.0))
        for a, b in permutations(range(count), 2)
    ]


OTHERS = "the others have 1 GB/s"
CASES = [
    pytest.param(links(4), [], id="healthy"),
    pytest.param(links(2), [], id="two healthy hosts"),
    pytest.param(
        links(4, {(2, None): 1e8}), [f"host h2: sending slow: bandwidth 100 MB/s, {OTHERS}"], id="a host sends slowly"
    ),
    pytest.param(
        links(4, {(None, 1): 1e8}),
        [f"host h1: receiving slow: bandwidth 100 MB/s, {OTHERS}"],
        id="a host receives slowly",
    ),
    pytest.param(
        links(3, {(0, None): 1e8, (None, 0): 2e8}),
        [
            f"host h0: sending slow: bandwidth 100 MB/s, {OTHERS}",
            f"host h0: receiving slow: bandwidth 200 MB/s, {OTHERS}",
        ],
        id="both directions of one of three",
    ),
    pytest.param(
        links(6, {(1, None): 1e8, (4, None): 1e8}),
        [f"host h{host}: sending slow: bandwidth 100 MB/s, {OTHERS}" for host in (1, 4)],
        id="two hosts",
    ),
    pytest.param(
        links(4, {(0, 3): 1e8}),
        [f"the link from host h0 to host h3 is slow: bandwidth 100 MB/s, {OTHERS}"],
        id="one link",
    ),
    pytest.param(
        links(2, {(0, 1): 1e8}),
        [f"the link from host h0 to host h1 is slow: bandwidth 100 MB/s, {OTHERS}"],
        id="one direction of two hosts",
    ),
    pytest.param(
        links(4, r3=0.02),
        ["host h3: both directions slow: latency 20.1 ms, the others have 100 us"],
        id="a host answers late",
    ),
    pytest.param(
        links(2, r1=0.02),
        ["the link between host h0 and host h1 is slow: latency 20.1 ms, the others have 20.1 ms"],
        id="two hosts: above most_latency",
    ),
    pytest.param(links(4, {(0, None): 6e8}), [], id="a little slower"),
    pytest.param(
        links(8, {(a, b): 1e8 for a, b in permutations(range(8), 2) if a // 4 != b // 4}),
        [],
        id="two racks: the shape of the network",
    ),
]


@pytest.mark.parametrize(("measured", "expected"), CASES)
def test_who_is_named(measured: list[Link], expected: list[str]) -> None:
    search = Searched("nodes", 1, 0, (), tuple(suspects(measured, LIMITS)))
    assert slow_lines([search], [f"h{host}" for host in range(8)], 1) == expected


SLOW = "is slow: bandwidth 100 MB/s, the others have 1 GB/s"
OF_DEVICES = [  # hosts, slow senders, sentences
    pytest.param(2, [1], [f"the link from device 1 of host h0 to host h1 {SLOW}"], id="a device of two hosts"),
    pytest.param(2, [0, 1], [f"the link from host h0 to host h1 {SLOW}"], id="all devices of one of two hosts"),
    pytest.param(
        3, [4], ["device 0 of host h2: sending slow: bandwidth 100 MB/s, the others have 1 GB/s"], id="a device"
    ),
    pytest.param(
        3, [4, 5], ["host h2: sending slow: bandwidth 100 MB/s, the others have 1 GB/s"], id="all devices of a host"
    ),
]


@pytest.mark.parametrize(("hosts", "slow", "expected"), OF_DEVICES)
def test_devices_and_hosts(hosts: int, slow: list[int], expected: list[str]) -> None:
    """Nodes of two devices: each device is measured with the devices of the same number."""
    every = links(2 * hosts, {(rank, None): 1e8 for rank in slow})
    measured = [link for link in every if link.source % 2 == link.target % 2]
    search = Searched("nodes", 1, 0, (), tuple(suspects(measured, LIMITS, lists=2)))
    assert slow_lines([search], ["h0", "h1", "h2"], 2) == expected


AGAIN = [  # direction, links before and again, slow again
    pytest.param(SENDING, {(0, 1): 1e8}, {(0, 1): 1e8}, True, id="still slow"),
    pytest.param(SENDING, {(0, 1): 1e8}, {}, False, id="fast"),
    pytest.param(SENDING, {(0, 1): 4e8}, {(0, 1): 4e8, (1, 0): 4e8}, False, id="other work began on the host"),
    pytest.param(SENDING, {(0, 1): 1e8}, {(0, 1): 5e7, (1, 0): 4e8}, True, id="slow beside other work"),
    pytest.param(RECEIVING, {(1, 0): 1e8}, {(1, 0): 1e8}, True, id="receives slowly"),
    pytest.param(SENDING, {(0, 1): 1e8, (1, 0): 2e8}, {(0, 1): 1e8, (1, 0): 1.5e8}, True, id="slow in both directions"),
]


@pytest.mark.parametrize(("direction", "before", "again", "expected"), AGAIN)
def test_a_suspect_is_measured_again(
    direction: str, before: dict[tuple[int, int], float], again: dict[tuple[int, int], float], expected: bool
) -> None:
    suspect = Suspect("bandwidth", direction, rank=0, peer=1, value=1e8, others=1e9)
    assert slow_again(suspect, (0, 1), links(3, {**before}), links(3, {**again}), LIMITS) is expected


@pytest.mark.parametrize(
    ("latency", "expected"),
    [
        pytest.param(5e-3, True, id="still late"),
        pytest.param(3.5e-5, True, id="20 us above the others"),
        pytest.param(2.5e-5, False, id="another path through the switches"),
    ],
)
def test_a_late_suspect_is_measured_again(latency: float, expected: bool) -> None:
    suspect = Suspect("latency", BOTH, rank=0, peer=1, value=5e-3, others=1e-5)
    measured = [Link(source, 1 - source, 1e9, latency) for source in (0, 1)]
    assert slow_again(suspect, (0, 1), links(2), measured, LIMITS) is expected
