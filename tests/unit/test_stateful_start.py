"""What a start asks of sinks and options of a query that keeps state."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from engine.base.options import EngineOptions
from engine.base.output_modes import ALL_MODES
from engine.errors import ConfigError
from engine.pipeline.pipeline import Watermark
from engine.query.stateful_start import (
    check_idle_streams,
    check_kept_partitions,
    check_key_groups,
    check_output_mode,
    refuse_options_of_exchanges,
    refuse_options_of_state,
)
from engine.query.write_request import WriteRequest


def asked(sink: str, mode: str) -> None:
    frame: Any = None
    check_output_mode(WriteRequest(frame, sink_format=sink, output_mode=mode))


@pytest.mark.parametrize(
    ("sink", "modes"),
    [
        ("parquet", ["append"]),
        ("CSV", ["append"]),
        ("delta", ["append"]),
        ("iceberg", ["append"]),
        ("postgres", ["append", "update"]),
        ("kafka", list(ALL_MODES)),
        ("memory", list(ALL_MODES)),
        ("console", list(ALL_MODES)),
        ("foreach", list(ALL_MODES)),
        ("foreachBatch", list(ALL_MODES)),
        ("somebody else's", ["append", "complete"]),
    ],
)
def test_rows_that_come_again(sink: str, modes: list[str]) -> None:
    for mode in ALL_MODES:
        if mode in modes:
            asked(sink, mode)
        else:
            with pytest.raises(ConfigError, match=f"does not support the output mode {mode}"):
                asked(sink, mode)


def test_options_of_state_without_state() -> None:
    refuse_options_of_state(EngineOptions())
    for name, text in (
        ("reducers", "2"),
        ("keyGroups", "64"),
        ("partialAggregation", "false"),
        ("stateMemoryMaxBytes", "9"),
        ("stateSpillAfterBytes", "9"),
        ("stateScratchFolder", "/x"),
        ("keysStayInPartitions", "true"),
    ):
        options, rest = EngineOptions.take({name: text})
        assert not rest
        with pytest.raises(ConfigError, match=f"Option {name} has no meaning"):
            refuse_options_of_state(options)


def test_options_of_exchanges_without_one() -> None:
    stays = {"keysStayInPartitions": "true"}
    options, _ = EngineOptions.take({**stays, "stateMemoryMaxBytes": "9"})
    refuse_options_of_exchanges(options)
    for name, text in (("reducers", "2"), ("keyGroups", "64"), ("partialAggregation", "false")):
        options, _ = EngineOptions.take({**stays, name: text})
        with pytest.raises(ConfigError, match=f"Option {name} has no meaning: with keysStay"):
            refuse_options_of_exchanges(options)


def test_partitions_that_are_handed_their_work_keep_no_keys() -> None:
    def check(hands_out: bool, kept: object) -> None:
        reader, pipeline = SimpleNamespace(handsOut=hands_out), SimpleNamespace(kept=kept)
        stream: Any = SimpleNamespace(reader=reader, pipeline=pipeline, description="files[in]")
        check_kept_partitions([stream])

    check(True, None)
    check(False, "a step")
    with pytest.raises(ConfigError, match=r"cannot be set for the source files\[in\]"):
        check(True, "a step")


def test_a_task_has_a_key_group_at_least() -> None:
    check_key_groups(EngineOptions())
    check_key_groups(EngineOptions(reducers=4, key_groups=4))
    with pytest.raises(ConfigError, match="reducers is 5 and keyGroups is 4"):
        check_key_groups(EngineOptions(reducers=5, key_groups=4))
    with pytest.raises(ConfigError, match="more than 32768"):
        check_key_groups(EngineOptions(key_groups=40_000))


def test_an_idle_stream_holds_others_back_or_the_option_is_refused() -> None:
    def check(after: str | None, marks: int, policy: str = "min") -> None:
        options, _ = EngineOptions.take({} if after is None else {"watermarkIdleAfter": after})
        pipeline = SimpleNamespace(steps=[Watermark(0, 1_000, number) for number in range(marks)])
        check_idle_streams(options, [pipeline], policy)  # type: ignore[list-item]

    check(None, 0)
    check("5 minutes", 2)
    for after, marks, policy, why in (
        ("5 minutes", 1, "min", "has 1 watermark"),
        ("5 minutes", 0, "min", "has no watermark"),
        ("5 minutes", 2, "max", "multipleWatermarkPolicy is max"),
        ("0 seconds", 2, "min", "is zero"),
    ):
        with pytest.raises(ConfigError, match=why):
            check(after, marks, policy)
