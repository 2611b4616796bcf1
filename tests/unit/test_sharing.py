"""Which task reads which partitions."""

from __future__ import annotations

from collections import Counter
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.execution.shares import shares, tasks_among
from engine.execution.sharing import TaskSharing
from engine.execution.slots import Demand, Slots


def test_one_task_each_where_there_are_slots_enough() -> None:
    sharing = TaskSharing(0)
    assert sharing.split([2, 1], slots=3) == [(0, range(1)), (0, range(1, 2)), (1, range(1))]
    assert not sharing.spread(Slots(100, 100))
    assert len(TaskSharing().split([100], slots=None)) == 100


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
    assert not sharing.spread(Slots(2, 0))
    assert sharing.spread(Slots(3, 1))
    assert len(sharing.split([8], slots=3)) == 3
    assert sharing.spread(Slots(16, 13))
    assert len(sharing.split([8], slots=16)) == 8
    assert not sharing.spread(Slots(32, 24))


def test_added_slots_that_other_jobs_hold_are_left_to_them() -> None:
    sharing = TaskSharing(0)
    assert len(sharing.split([20], slots=16)) == 10
    assert not sharing.spread(Slots(20, 4))
    assert sharing.spread(Slots(20, 10))
    assert len(sharing.split([20], slots=20)) == 20


def test_what_is_free_is_shared_once_the_time_is_over() -> None:
    sharing = TaskSharing()
    assert len(sharing.split([20], slots=16)) == 10
    assert sharing.squeeze(6)
    assert len(sharing.split([20], slots=16)) == 5
    assert not sharing.spread(Slots(16, 1))
    assert sharing.spread(Slots(16, 6)), "others hold 5 still"
    assert len(sharing.split([20], slots=16)) == 10


def test_what_cannot_be_done_without() -> None:
    sharing = TaskSharing()
    sharing.split([4, 4], slots=8)
    assert not sharing.squeeze(1), "each stream has a task of its own"
    assert sharing.squeeze(2)
    assert not sharing.squeeze(0)
    asked = TaskSharing(per_task=2)
    asked.split([5], slots=3)
    assert not asked.squeeze(2)


def test_slots_that_nobody_counts_are_not_asked_for_again() -> None:
    sharing = TaskSharing()
    assert len(sharing.split([6], slots=None)) == 6
    assert sharing.squeeze(4)
    assert len(sharing.split([6], slots=None)) == 3
    assert not sharing.spread(None)


def test_slots_are_kept_free() -> None:
    sharing = TaskSharing(keep_free=2)
    assert len(sharing.split([10], slots=7)) == 5
    assert sharing.demand == Demand(tasks=5, spare=2)
    assert not sharing.squeeze(2)
    assert sharing.squeeze(3)
    assert len(sharing.split([10], slots=7)) == 1
    assert not sharing.spread(Slots(7, 2))
    assert sharing.spread(Slots(7, 3))
    assert len(sharing.split([10], slots=7)) == 2


@pytest.mark.parametrize(
    ("slots", "demand"), [(1, Demand(1)), (2, Demand(1, 1)), (3, Demand(2, 1))]
)
def test_a_slot_for_the_sink_where_there_is_one(slots: int, demand: Demand) -> None:
    sharing = TaskSharing(sink_slots=1)
    sharing.split([2], slots)
    assert sharing.demand == demand
    mine = TaskSharing(keep_free=0, sink_slots=1)
    mine.split([2], slots)
    assert mine.demand.spare == 0


def test_a_slot_that_changes_nothing_is_left_alone() -> None:
    sharing = TaskSharing(0)
    assert len(sharing.split([16], slots=8)) == 8
    assert not sharing.spread(Slots(9, 1))


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


def test_stages_are_named_with_the_slots_that_they_need() -> None:
    sharing = TaskSharing(1)
    sharing.split([2, 1], slots=4, stages=[4, 1])
    assert str(sharing.demand) == (
        "has 8 tasks (stream 0: 2, stream 1: 1, stage 2: 4, stage 3: 1) and needs as many free "
        "task slots"
    )
    alone = TaskSharing(1)
    alone.split([2], slots=4)
    assert str(alone.demand) == "has 2 tasks and needs as many free task slots"
    assert str(Demand(1)) == "has 1 task and needs a free task slot"
    assert (
        str(Demand(1, 1))
        == "has 1 task, keeps 1 slot free for other jobs and needs 2 free task slots"
    )
    assert Demand(1).needed == "1, and 1 free task slot is needed"
    assert (
        Demand(4, 1, ("stage 1: 4",)).needed == "4 (stage 1: 4), and 5 free task slots are needed"
    )


def test_stages_that_are_fixed_leave_the_rest_to_the_streams() -> None:
    sharing = TaskSharing(0)
    parts = sharing.split([4], 5, [4, 4], {2: 3})
    assert Counter(pipeline for pipeline, _ in parts) == {0: 1, 1: 1, 2: 3}
    assert not sharing.squeeze(4)
    assert sharing.squeeze(8)
    assert Counter(n for n, _ in sharing.split([4], 5, [4, 4], {2: 3})) == {0: 2, 1: 2, 2: 3}
    assert Counter(n for n, _ in TaskSharing(2).split([4], 1, [2], {1: 7})) == {0: 2, 1: 7}
    assert len(sharing.split([4], 5, [4])) == 8


@given(st.integers(1, 300), st.data())
def test_how_many_tasks_there_were_is_told_by_the_names_of_some(
    groups: int, data: st.DataObject
) -> None:
    tasks = data.draw(st.integers(1, groups))
    split = [(0, range(1)), *((1, range(0)) for _ in range(tasks))]
    names = [each.names[0] for each in shares([(None,)], split, groups)][1:]
    done = data.draw(st.sets(st.sampled_from(names), min_size=1))
    found = tasks_among({"0/groups 0-7", *done}, 1, groups)
    assert 1 <= found[1] <= tasks
    split = [(0, range(1)), *((1, range(0)) for _ in range(found[1]))]
    again = {each.names[0] for each in shares([(None,)], split, groups)}
    assert done <= again
    assert tasks_among(names, 1, groups) == {1: tasks}
    assert tasks_among([f"1/groups 0-{groups}"], 1, groups) == {}
