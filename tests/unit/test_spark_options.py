"""Mistyped options of sinks that Spark itself has."""

from __future__ import annotations

import pytest

from engine.query.spark_options import OF_SINKS, mistyped


@pytest.mark.parametrize(
    ("sink", "option", "meant"),
    [
        ("parquet", "compresion", "compression"),
        ("CSV", "HEDAER", "header"),
        ("csv", "null_value", "nullValue"),
        ("json", "timestampformt", "timestampFormat"),
        ("console", "trucate", "truncate"),
        ("kafka", "topc", "topic"),
        ("orc", "checkpointLocaton", "checkpointLocation"),
        ("noop", "leaseHartbeatMs", "leaseHeartbeatMs"),
        ("foreachBatch", "on_bad_record", "onBadRecord"),
    ],
)
def test_the_option_that_was_meant_is_found(sink: str, option: str, meant: str) -> None:
    assert mistyped(sink, [option]) == {option: meant}


def test_no_known_option_is_mistyped() -> None:
    for sink, names in OF_SINKS.items():
        assert mistyped(sink, [*names, *map(str.upper, names), "path", "queryName"]) == {}
        assert not any("." in name for name in names)


@pytest.mark.parametrize(
    ("sink", "option"),
    [
        ("parquet", "parquet.compresion"),
        ("kafka", "kafka.bootstrap.server"),
        ("csv", "something"),
        ("somebodys", "metricsPrt"),
        ("console", "rows"),
    ],
)
def test_nothing_is_said_of_what_may_be_right(sink: str, option: str) -> None:
    assert mistyped(sink, [option]) == {}
