"""The reader of tcap_dllogger's log, on lines as its public description shows them.

tests/trainer/sinks/test_sinks.py has it read what our sink writes.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flagperf.partners.modelzoo.dllogger_log import Log, Value, read_log

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


@given(
    st.lists(
        st.text() | st.text().map("TCAPPDLL {}".format) | st.text().map('DLLL {{"type": "LOG", "data": {}}}'.format)
    )
)
@settings(max_examples=50, deadline=None)
def test_any_text_is_read(tmp_path_factory: pytest.TempPathFactory, lines: list[str]) -> None:
    path = tmp_path_factory.mktemp("any") / "log.json"
    path.write_text("\n".join(lines), encoding="utf-8", errors="replace")
    assert read_log(path).metadata == {}
