"""Lines of a log, however it comes in."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from flagperf.contract.log_lines import LONGEST, Lines


@given(st.lists(st.binary(max_size=20)), st.data())
def test_lines_do_not_depend_on_how_the_bytes_came(lines: list[bytes], data: st.DataObject) -> None:
    text = b"".join(line.replace(b"\n", b"") + b"\n" for line in lines)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)))))
    reader = Lines()
    found = [line for start, end in pairwise([0, *cuts, len(text)]) for line in reader.feed(text[start:end])]
    assert found == text.split(b"\n")[:-1]
    assert (reader.end(), reader.dropped) == ([], 0)


def test_a_line_that_is_too_long_is_dropped_and_counted() -> None:
    reader, piece = Lines(), b"x" * (LONGEST // 2)
    assert [reader.feed(data) for data in (b"a\n", piece, piece, piece, b"y\nb\nc")] == [[b"a"], [], [], [], [b"b"]]
    assert reader.dropped == 1
    assert reader.end() == [b"c"]


def test_a_log_may_end_within_a_line_that_is_too_long() -> None:
    reader = Lines()
    reader.feed(b"x" * (LONGEST + 1))
    assert (reader.end(), reader.dropped) == ([], 1)
