"""Which task reads which partitions."""

from __future__ import annotations

from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.execution.sharing import TaskSharing
from engine.execution.slots import Slots


def test_one_task_each_where_there_are_slots_enough() -> None:
    sharing = TaskSharing(0)
    assert sharing.split([2, 1], slots=3) == [(0, range(1)), (0, range(1, 2)), (1, range(1))]
    assert not sharing.could_spread(Slots(100, 100))
    assert len(sharing.split([100], slots=None)) == 100


def test_as_few_to_a_task_as_it_takes() -> None:
    assert TaskSharing(0).split([5], slots=2) == [(0, range(2)), (0, range(2, 5))]
    assert TaskSharing(0).split([6, 2], slots=3) == [
        (0, range(3)),
        (0, range(3, 6)),
        (1, range(2)),
    ]


def test_each_stream_has_a_task_of_its_own_though_there_are_fewer_slots() -> None:
    assert TaskSharing(0).split([4, 4], slots=1) == [(0, range(4)), (1, range(4))]


def test_what_was_asked_for_counts_more_than_the_slots() -> None:
    assert len(TaskSharing(2).split([5], slots=1)) == 3
    assert len(TaskSharing(1).split([5], slots=2)) == 5
    assert len(TaskSharing(5).split([5], slots=100)) == 1


def test_a_lost_executor_is_waited_for() -> None:
    sharing = TaskSharing(0)
    assert len(sharing.split([8], slots=4)) == 4
    assert len(sharing.split([8], slots=2)) == 4


def test_more_slots_are_taken_up() -> None:
    sharing = TaskSharing(0)
    sharing.split([8], slots=2)
    assert not sharing.could_spread(Slots(2, 0))
    assert sharing.could_spread(Slots(3, 1))
    assert sharing.could_spread(None)
    assert len(sharing.split([8], slots=16)) == 8
    assert not sharing.could_spread(Slots(32, 24))


def test_added_slots_that_other_jobs_hold_are_left_to_them() -> None:
    sharing = TaskSharing(0)
    assert len(sharing.split([20], slots=16)) == 10
    assert not sharing.could_spread(Slots(20, 4))
    assert sharing.could_spread(Slots(20, 10))


def test_a_slot_that_changes_nothing_is_left_alone() -> None:
    sharing = TaskSharing(0)
    assert len(sharing.split([16], slots=8)) == 8
    assert not sharing.could_spread(Slots(9, 1))


@given(
    partitions=st.lists(st.integers(1, 300), min_size=1, max_size=4),
    slots=st.none() | st.integers(0, 50),
    per_task=st.integers(0, 7),
)
@pytest.mark.filterwarnings("error")
def test_every_partition_is_read_by_one_task(
    partitions: list[int], slots: int | None, per_task: int
) -> None:
    split = TaskSharing(per_task).split(partitions, slots)
    for stream, count in enumerate(partitions):
        parts = [part for of, part in split if of == stream]
        assert list(chain(*parts)) == list(range(count))
        assert max(map(len, parts)) - min(map(len, parts)) <= 1
    if per_task:
        assert max(len(part) for _, part in split) <= per_task
    elif slots is not None:
        assert len(split) <= max(slots, len(partitions))
