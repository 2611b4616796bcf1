"""Offsets of the Kafka source, and how a micro-batch is kept small."""

from __future__ import annotations

from typing import Any

import pytest

from engine.base.json_text import dump
from engine.sources.kafka.offsets import TopicPartition, limited, offset_of, positions_of
from engine.sources.offset_order import distance, lag_of, reached

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def test_an_offset_is_written_as_spark_does() -> None:
    positions = {B0: 3, TopicPartition("a", 10): 1, TopicPartition("a", 2): 345}
    text = '{"a":{"2":345,"10":1},"b":{"0":3}}'
    assert dump(offset_of(positions.items())) == text
    assert positions_of(offset_of(positions.items())) == positions


def test_an_offset_of_no_partition_is_one() -> None:
    assert offset_of([]) == {}
    assert positions_of({}) == {}


@pytest.mark.parametrize(
    "offset",
    [None, 5, [], {"a": 5}, {"a": [5]}, {"a": {"0": "5"}}, {"a": {"0": True}}, {"a": {"x": 5}},
     {"a": {"-1": 5}}, {"a": {"٣": 5}}],
)  # fmt: skip
def test_what_is_no_offset_is_refused(offset: Any) -> None:
    with pytest.raises(ValueError, match=r"is no|has no"):
        positions_of(offset)


def test_a_micro_batch_shares_its_limit_by_what_there_is() -> None:
    assert limited({A0: 0, A1: 10, B0: 5}, {A0: 300, A1: 110, B0: 5}, 40) == {A0: 30, A1: 20, B0: 5}


def test_a_micro_batch_with_room_for_all_takes_all() -> None:
    assert limited({A0: 0, A1: 10}, {A0: 20, A1: 30}, 40) == {A0: 20, A1: 30}


def test_no_partition_waits_for_ever() -> None:
    many = {TopicPartition("a", number): 0 for number in range(100)}
    ends = dict.fromkeys(many, 1) | {A0: 1_000_000}
    end = limited(many, ends, 10)
    assert all(end[at] > 0 for at in many)


def test_an_end_before_the_start_is_no_reason_to_go_back() -> None:
    assert limited({A0: 50, A1: 0}, {A0: 40, A1: 100}, 10) == {A0: 40, A1: 10}


def test_lag_is_told_by_partition() -> None:
    committed, head = {"a": {"0": 5}}, {"a": {"0": 7, "1": 4}, "b": {"0": 0}}
    assert lag_of(committed, head) == {"a": {"0": 2, "1": 4}, "b": {"0": 0}}
    assert lag_of(None, head) == head
    assert distance(committed, head) == 6
    assert not reached(committed, head)


def test_what_was_read_behind_the_end_that_was_seen_is_no_lag() -> None:
    assert lag_of({"a": {"0": 9}}, {"a": {"0": 7}}) == {"a": {"0": 0}}
