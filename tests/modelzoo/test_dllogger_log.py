"""The reader of tcap_dllogger's log: on lines as its public description shows them, and on those of our sink."""

from __future__ import annotations

from pathlib import Path

import pytest
import toy

from flagperf.modelzoo.dllogger_log import Log, Value, read_log
from flagperf.modelzoo.log_rules import log_faults

TIMES = '"timestamp": "1.0", "datetime": "2026-01-01 00:00:00", "elapsedtime": "0.5"'
LOSS = '{"unit": "", "GOAL": "MINIMIZE", "STAGE": "TRAIN"}'


@pytest.mark.parametrize(
    ("lines", "log"),
    [
        pytest.param(
            [
                f'TCAPPDLL {{{TIMES}, "type": "METADATA", "metric": "train.loss", "metadata": {LOSS}}}',
                'INFO {"local_rank": 0, "type": "INFO", "data": "start training ..."}',
                f'TCAPPDLL {{{TIMES}, "type": "LOG", "step": [0, 3], '
                "\"data\": \"{'rank': '1', 'train.loss': '0.01', 'data.shape': '[16, 3]'}\"}",
            ],
            Log(
                {"train.loss": {"unit": "", "GOAL": "MINIMIZE", "STAGE": "TRAIN"}},
                (Value(3, "1", "train.loss", 0.01),),
                (),
            ),
            id="tcap_dllogger",
        ),
        pytest.param(
            [f'DLLL {{{TIMES}, "type": "LOG", "step": 3, "data": {{"loss": 0.5, "flag": true}}}}'],
            Log({}, (Value(1, "", "loss", 0.5),), ()),
            id="NVIDIA's",
        ),
        pytest.param(
            ['TCAPPDLL {"type"', "", "loss 0.5", 'TCAPPDLL {"type": "LOG", "data": "[1]"}'],
            Log(
                {},
                (),
                (
                    (1, "JSONDecodeError: Expecting ':' delimiter: line 1 column 8 (char 7)"),
                    (3, "ValueError: it begins with 'loss 0.5'"),
                    (4, "TypeError: its data is no mapping"),
                ),
            ),
            id="broken",
        ),
    ],
)
def test_what_is_read(lines: list[str], log: Log, tmp_path: Path) -> None:
    path = tmp_path / "log.json"
    path.write_text("\n".join(lines), encoding="utf-8")
    assert read_log(path) == log


@pytest.mark.torch
def test_the_log_of_our_sink_is_right(tmp_path: Path) -> None:
    """Of a real training, with evaluations: every metric is described, and the values are those of the PerfLog."""
    target = {"metric": "accuracy", "value": 2.0, "direction": "higher", "unit": ""}
    done = toy.start(toy.config(sinks=["dllogger"], max_steps=8, target=target), tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    log = read_log(tmp_path / "dllogger.json")
    assert list(log_faults("dllogger.json", log, 8)) == []
    told = toy.read_log(tmp_path / "rank0.out.log")
    assert [value.number for value in log.of("train.loss")] == toy.losses(told)
    assert [value.number for value in log.of("val.accuracy")] == [
        event.value["accuracy"] for event in told if event.event == "EVALUATE"
    ]
    assert log.metadata["val.accuracy"] == {"unit": "", "format": ":.6g", "GOAL": "MAXIMIZE", "STAGE": "VALID"}
