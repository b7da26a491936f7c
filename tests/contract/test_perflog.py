"""One writer and one parser: what is written comes back, whatever it holds, and nothing else does."""

from __future__ import annotations

import io
import json
import math
import os
import sys
import threading
from pathlib import Path
from types import FrameType, MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from flagperf.config.compose import compose
from flagperf.config.schema.limits import Deadlines
from flagperf.contract.perflog import EVENTS, PREFIX, Event, PerfLog, parse
from flagperf.results.evidence import Evidence
from flagperf.results.fabric import curves_of, searches_of, slow_lines
from flagperf.results.operators import operators_of
from flagperf.results.probe import probed_devices
from flagperf.results.rank_log import RankLog, read_rank_logs
from flagperf.results.stragglers import stragglers
from flagperf.results.verdict import judge
from flagperf.results.waits import Waits
from flagperf.run.progress import Progress
from flagperf.run.times import PhaseTimes
from flagperf.run.watch import Watch

VALUES = {
    "numbers": {"step": 7, "loss": 0.1 + 0.2, "big": 2**60, "none": None, "flag": True},
    "nested": {"config": {"list": [1, [2.5, "three"], {}], "empty": []}},
    "non-ascii": {"title": "训练 été ☃", "emoji": "🔥"},
    "line ends of every kind": {"text": "a\nb\rc\u0085d\u2028e\u2029f\x1cg\x0bh"},
    "the prefix itself": {"text": PREFIX + '{"event": "FINISHED"}'},
    "quotes and shell": {"text": "\"'`$(reboot)`'\" \\ \\n"},
    "bytes that are no text": {"path": os.fsdecode(b"/data/\xff\xfe")},
    "not finite": {"loss": math.inf, "list": [-math.inf]},
}


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES.keys())
def test_comes_back(value: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "log"
    fd = os.open(path, os.O_WRONLY | os.O_CREAT)
    PerfLog(3, fd).log("TRAIN_START", value, time_ms=12)
    os.close(fd)
    lines = path.read_text(encoding="utf-8").splitlines()
    assert len(lines) == 1
    event = parse(lines[0])
    assert event is not None
    assert (event.event, event.value, event.time_ms, event.rank) == ("TRAIN_START", value, 12, 3)
    assert event.file == __file__


def test_a_line_that_is_no_event_costs_one_look(tmp_path: Path) -> None:
    """Counted in calls of Python, as a rank may print gigabytes: one to hand over the line."""
    lines, calls = 1000, 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    log = tmp_path / "host_noderank0" / "rank0.out.log"
    log.parent.mkdir()
    log.write_text("a line of a library\n" * lines + Event("TRAIN_START").line())
    sys.setprofile(count)
    try:
        (found,) = read_rank_logs(tmp_path)
    finally:
        sys.setprofile(None)
    assert ([event.event for event in found.events], calls < 2 * lines) == (["TRAIN_START"], True)
    assert parse("a line of a library") is None


def test_nan_comes_back() -> None:
    event = parse(Event("TRAIN_START", {"loss": math.nan, "deep": [{"x": math.nan}]}).line())
    assert event is not None
    assert math.isnan(event.value["loss"])
    assert math.isnan(event.value["deep"][0]["x"])


def test_line_is_plain_json() -> None:
    """Other languages' parsers accept it: no NaN literals, keys in the order of the protocol."""
    line = Event("STEP_END", {"loss": math.nan}, "train.py", 4, 5, 6).line()
    assert line == (
        '[PerfLog] {"event": "STEP_END", "value": {"loss": "nan"}, '
        '"metadata": {"file": "train.py", "lineno": 4, "time_ms": 5, "rank": 6}}'
    )
    assert Event("TRAIN_END").line() == (
        '[PerfLog] {"event": "TRAIN_END", "metadata": {"file": "", "lineno": 0, "time_ms": 0, "rank": 0}}'
    )


def test_the_end_of_a_training_with_adapters_can_be_read() -> None:
    finished = {"converged": True, "frozen_checksum": "bafea0007e769983"}
    event = parse(Event("FINISHED", finished).line())
    assert event is not None
    assert event.value == finished


def test_mappings_of_any_kind() -> None:
    event = parse(Event("FINISHED", MappingProxyType({"target": MappingProxyType({"value": (1, 2)})})).line())
    assert event is not None
    assert event.value == {"target": {"value": [1, 2]}}


WHOLE = Event("STEP_END", {"step": 1, "loss": 2.5}).line()


def wrong(event: object = "STEP_END", value: object = None, **metadata: object) -> str:
    """A line with a field of a wrong type."""
    place = {"file": "", "lineno": 0, "time_ms": 0, "rank": 0, **metadata}
    return PREFIX + json.dumps({"event": event, "value": {} if value is None else value, "metadata": place})


NO_EVENTS = {
    "an event of another name": wrong("STEP"),
    "an event that is no name": wrong(["STEP_END"]),
    "a step that is text": wrong(value={"step": "7"}),
    "a step below 0": wrong(value={"step": -1}),
    "a step that is no whole number": wrong(value={"step": 1.5}),
    "a step beyond all numbers": wrong(value={"step": 10**400}),
    "a loss that is text": wrong(value={"step": 1, "loss": "low"}),
    "a metric that is a list": wrong("EVALUATE", {"step": 1, "acc1": [1]}),
    "a rendezvous that is text": wrong("INIT_END", {"rendezvous": "long"}),
    "a rendezvous that is not known": wrong("INIT_END", {"rendezvous": None}),
    "an epoch before the first": wrong("EPOCH_END", {"epoch": 0, "step": 1}),
    "an operator that takes no time": wrong("OPERATOR", {"name": "mm", "format": "fp32", "shapes": [], "seconds": 0}),
    "a note on checkpoints that is no list": wrong("INIT_END", {"resume_notes": "damaged"}),
    "a time that is text": wrong(time_ms="now"),
    "a time that no calendar has": wrong(time_ms=10**18),
    "a rank that is none": wrong(rank=None),
    "ranks that are no list": wrong("FINISHED", {"ranks": {"0": {}}}),
    "a rank without its number": wrong("FINISHED", {"ranks": [{"samples": 1}]}),
    "a rank whose samples are text": wrong("FINISHED", {"ranks": [{"rank": 0, "samples": "1"}]}),
    "a reason that is a number": wrong("FINISHED", {"stop_reason": 1}),
    "deep beyond measure": PREFIX + "[" * 100_000,
    "deep beyond measure, as an event": PREFIX + '{"event": ' + "[" * 100_000,
    "nothing but prefixes": PREFIX * 100_000,
    "ordinary output": "step 1 loss 2.5",
    "empty": "",
    "prefix alone": PREFIX,
    "not JSON": PREFIX + "hello",
    "a list": PREFIX + "[1, 2]",
    "a number": PREFIX + "1",
    "no metadata": PREFIX + '{"event": "STEP_END"}',
    "value is no mapping": PREFIX + json.dumps({"event": "STEP_END", "value": [1], "metadata": {}}),
    **{f"torn after {length} characters": WHOLE[:length] for length in (12, 30, 60, len(WHOLE) - 1)},
}


@pytest.mark.parametrize("line", NO_EVENTS.values(), ids=NO_EVENTS.keys())
def test_is_no_event(line: str) -> None:
    assert parse(line) is None


def test_event_after_a_torn_one() -> None:
    """A killed process leaves half a line; the next writer's line follows it."""
    event = parse(WHOLE[:40] + WHOLE)
    assert event is not None
    assert event.value == {"step": 1, "loss": 2.5}


@given(
    st.text() | st.text().map(lambda text: PREFIX + text) | st.binary().map(lambda data: data.decode(errors="replace"))
)
def test_any_text_can_be_read(text: str) -> None:
    assert parse(text) is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(EVENTS),
    lambda deeper: st.lists(deeper, max_size=3) | st.dictionaries(st.text(max_size=9), deeper, max_size=3),
    max_leaves=8,
)
RUN = compose([])
NAMES = st.sampled_from(("step", "epoch", "loss", "ranks", "rank", "config", "stop_reason", "rendezvous", "acc1"))
SUSPECT = {"figure": "bandwidth", "direction": "both", "rank": 0, "peer": 1, "value": 1.0, "others": 9.0}
LINK = {"source": 0, "target": 1, "bandwidth": 1e9, "latency": 1e-6}
WHOLE_VALUES: dict[str, dict[str, Any]] = {
    "SUBMIT_INFO": {"vendor": "cpu", "case": "resnet50", "visible_devices": "0", "config": {"seed": 1}},
    "BUILT": {"device_name": "a CPU", "software": {"modules": {}}, "network": {}, "optimizer": {}, "schedule": {}},
    "INIT_EVALUATION": {"acc1": 0.1, "time": 1.0},
    "INIT_END": {"rendezvous": 0.5, "resume_notes": ["damaged"]},
    "EPOCH_BEGIN": {"epoch": 1},
    "STEP_BEGIN": {"step": 5},
    "STEP_END": {"step": 5, "epoch": 1, "loss": 0.5, "throughput": 9.0, "step_time": 1.0, "own_time": 1.0}
    | {"data_wait": 0.1, "communication_wait": 0.1, "end_training": True},
    "CHECKSUMS": {"step": 5, "loss": "a", "gradients": "b", "parameters": "c"},
    "EVALUATE": {"step": 5, "samples": 9, "acc1": 0.5, "time": 1.0},
    "EPOCH_END": {"epoch": 1, "step": 5},
    "HEARTBEAT": {"phase": "evaluate", "step": 5},
    "WAITING": {"collective": "ALLREDUCE", "number": 1, "ranks": [0, 1], "seconds": 5.0},
    "PROBE": {"device": "a CPU", "fp32": 1e9},
    "FABRIC": {"kind": "all_reduce", "group": "node", "ranks": 2, "per_node": 2, "reason": ""}
    | {"sizes": [8, 32], "seconds": [0.1, 0.2]},
    "LINKS": {"part": "node", "rounds": 1, "measured": 2, "links": [LINK], "suspects": [SUSPECT]},
    "OPERATOR": {"name": "mm", "format": "fp32", "shapes": [[2, 2]], "first": 1.0, "seconds": 0.5, "operations": 8}
    | {"bytes": 48, "error": 0.0, "reason": ""},
    "FINISHED": {"stop_reason": "max_steps", "global_steps": 5, "peak_memory": 1.0, "ranks": [{"rank": 0}]},
}
INSTEAD = {"missing": ..., "null": None, "0": 0, "NaN": math.nan, "infinite": math.inf, "text": "x", "a list": []}


@pytest.mark.parametrize("name", WHOLE_VALUES)
@pytest.mark.parametrize("instead", INSTEAD.values(), ids=INSTEAD.keys())
def test_an_event_without_a_field_is_refused_or_harmless(name: str, instead: object) -> None:
    """Code of a rank may print anything. An event that is read must not end the launcher or the report."""
    value = WHOLE_VALUES[name]
    assert parse(Event(name, value).line()) is not None
    for field in value:
        changed = {key: old if key != field else instead for key, old in value.items()}
        said = {key: given for key, given in changed.items() if given is not ...}
        if (found := parse(Event(name, said).line())) is not None:
            use(found)


def use(event: Event) -> None:
    """All that the launcher and the report make of an event."""
    watch = Watch([0, 1], Deadlines(1, 1, 1, 1, 1), 0.0)
    watch.observe(event.rank, event, 1.0)
    phases, waits = PhaseTimes(), Waits()
    phases.observe(event)
    terminal = Console(file=io.StringIO())
    with Progress(RUN, terminal) as progress:
        progress.event(event)
        progress.event(event)
    if event.event == "WAITING":
        list(waits.observe(0, event.value, 1.0))
        list(waits.observe(0, event.value, 2.0))
    (log,) = logs = (RankLog(0, "node", 0, (event,)),)
    judge(Evidence("finished", 1, logs))
    stragglers(((rank, entry.value) for rank in (0, 1) for entry in log.all("STEP_END")), 2, 0)
    [curve.line for curve in curves_of(logs)]
    slow_lines(searches_of(logs), ["node"], 2)
    [(operator.rate, operator.share({"fp32": 1.0}, 1.0)) for operator in operators_of(logs)]
    probed_devices(logs)


METADATA = st.fixed_dictionaries(dict.fromkeys(("file", "lineno", "time_ms", "rank"), JSON | st.integers(0, 9)))


@given(st.sampled_from(EVENTS) | JSON, st.dictionaries(NAMES, JSON) | JSON, METADATA | JSON)
def test_what_is_read_fits_the_protocol(event: object, value: object, metadata: object) -> None:
    """Whoever reads an event may rely on its types: here, all that the launcher makes of one."""
    found = parse(PREFIX + json.dumps({"event": event, "value": value, "metadata": metadata}))
    if found is None:
        return
    assert parse(found.line()) is not None
    use(found)


def test_event_behind_other_output() -> None:
    assert parse("12% done\r" + WHOLE + "\n") == Event("STEP_END", {"step": 1, "loss": 2.5})


def test_unknown_event_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown PerfLog event 'STEP', one of: SUBMIT_INFO, "):
        Event("STEP").line()


@pytest.mark.parametrize("name", EVENTS)
def test_every_event_has_a_place_in_the_reference(name: str) -> None:
    reference = Path(__file__).parents[2] / "docs" / "perflog.md"
    assert name in reference.read_text(encoding="utf-8")


def test_lines_of_writers_never_mix(tmp_path: Path) -> None:
    path = tmp_path / "log"
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def write(rank: int) -> None:
        perflog = PerfLog(rank, fd)
        for step in range(200):
            perflog.log("HEARTBEAT", {"step": step, "phase": "x" * 500})

    writers = [threading.Thread(target=write, args=(rank,)) for rank in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    os.close(fd)
    events = [parse(line) for line in path.read_text().splitlines()]
    assert len(events) == 800
    for rank in range(4):
        steps = [event.value["step"] for event in events if event is not None and event.rank == rank]
        assert steps == list(range(200))


def test_sinks_get_every_event(tmp_path: Path) -> None:
    seen: list[Event] = []

    class Sink:
        def write(self, event: Event) -> None:
            seen.append(event)

    fd = os.open(tmp_path / "log", os.O_WRONLY | os.O_CREAT)
    PerfLog(1, fd, sinks=[Sink()]).log("EPOCH_BEGIN", {"epoch": 1}, time_ms=3)
    os.close(fd)
    assert [(event.event, event.value, event.rank) for event in seen] == [("EPOCH_BEGIN", {"epoch": 1}, 1)]
