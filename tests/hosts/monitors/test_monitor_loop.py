"""Samples are cut out of output that arrives in any pieces."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from flagperf.hosts.monitors import loop
from flagperf.hosts.monitors.loop import Sample, Samples

OUTPUT = b"""@begin 0 100
no such library

@end 1
@begin 1 101
one
two

@end 0
@begin 1 102

@end 124
@begin 1 103
half a"""

SAMPLES = [Sample(0, 100, 1, "no such library"), Sample(1, 101, 0, "one\ntwo"), Sample(1, 102, 124, "")]


@pytest.mark.parametrize("size", [1, 7, 20, 1000])
def test_pieces_of_any_size(size: int) -> None:
    samples = Samples()
    pieces = [OUTPUT[start : start + size] for start in range(0, len(OUTPUT), size)]
    assert [sample for piece in pieces for sample in samples.feed(piece)] == SAMPLES


def test_an_unfinished_sample_is_dropped_for_the_next_one() -> None:
    assert list(Samples().feed(b"@begin 0 1\nkilled he@begin 1 1\n@begin 1 2\nwhole\n\n@end 0\n")) == [
        Sample(1, 2, 0, "whole")
    ]


def test_bytes_that_are_no_text() -> None:
    assert list(Samples().feed(b"@begin 0 1\n\xff\xfe\x00\n\n@end 0\n")) == [Sample(0, 1, 0, "\ufffd\ufffd\x00")]


def test_a_host_whose_files_may_only_be_short(tmp_path: Path) -> None:
    """Its limit (ulimit -f) is lower than that of a sample: nothing about limits stands among the figures."""
    words = 'ulimit -f 100; . "$0"; sample "$1" 0 "" 0 0 60 sh -c "echo figures; exit 3"'
    argv = ["sh", "-c", words, str(Path(loop.__file__).with_suffix(".sh")), str(tmp_path / "log")]
    done = subprocess.run(argv, capture_output=True, check=False)
    assert [(sample.status, sample.text) for sample in Samples().feed(done.stdout)] == [(3, "figures")]
    assert done.stderr == b""
