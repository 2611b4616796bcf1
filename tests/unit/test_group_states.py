"""``applyInPandasWithState`` in a stage, without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Any

import pandas as pd
import pytest
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from engine.errors import TransformError
from tests.custom_states import Task, group_step

EVENTS = "k string, v long"
COUNTS = "k string, n long"
TOLD = "k string, told string"


def count(key: Any, frames: Any, state: GroupState) -> Iterator[pd.DataFrame]:
    (before,) = state.getOption or (0,)
    total = before + sum(len(frame) for frame in frames)
    state.update((total,))
    yield pd.DataFrame({"k": [key[0]], "n": [total]})


def test_each_key_is_called_once_for_a_batch() -> None:
    task = Task(group_step(count, EVENTS, COUNTS, "n long"))
    rows = [("a", 1), (None, 2), ("a", 3)]
    assert task.epoch(rows, [("a", 4)]) == [("a", 2), (None, 1), ("a", 3)]
    assert task.rows("state") == [("a", {"n": 3}), (None, {"n": 1})]
    assert task.restarted().epoch([("a", 5), (None, 1)]) == [("a", 4), (None, 2)]
    assert task.restarted(whole=True).epoch([("a", 5)]) == [("a", 4)]


def told(key: Any, state: GroupState, *more: Any) -> pd.DataFrame:
    text = f"{'timeout' if state.hasTimedOut else 'rows'} {state.getOption}"
    return pd.DataFrame({"k": [key[0]], "told": [" ".join([text, *map(str, more)])]})


def scripted(key: Any, frames: Any, state: GroupState) -> Iterator[pd.DataFrame]:
    """Does what the last row says; at a timeout it tells, and removes what is odd."""
    if state.hasTimedOut:
        (frame,) = frames
        yield told(key, state, list(frame.columns), len(frame), state.getCurrentProcessingTimeMs())
        if state.exists and state.get[0] % 2:
            state.remove()
        return
    (frame,) = frames
    for do, v in zip(frame["do"], frame["v"], strict=True):
        if do == "update":
            state.update((v,))
        elif do == "remove":
            state.remove()
        elif do == "within":
            state.setTimeoutDuration(v)
        elif do == "at":
            state.setTimeoutTimestamp(v)
        elif do == "behind":
            state.setTimeoutTimestamp(v + 1)
    yield told(key, state)


def scripted_task(timeout: str) -> Task:
    columns = "k string, do string, v long, t timestamp"
    step = group_step(scripted, columns, TOLD, "n long", timeout=timeout, event_time=3)
    return Task(step)


def row(key: str, do: str, v: int = 0, seconds: int = 10**6) -> tuple[Any, ...]:
    return key, do, v, datetime.fromtimestamp(seconds, timezone.utc)


def test_timeouts_of_processing_time() -> None:
    task = scripted_task(GroupStateTimeout.ProcessingTimeTimeout)
    task.epoch([row("a", "update", 3), row("a", "within", 100)], at_ms=1000)
    task.epoch([row("b", "within", 50)], at_ms=1000)
    assert task.rows("state") == [("a", {"n": 3}, 1100), ("b", None, 1050)]
    # The moment itself is not enough.
    assert task.epoch(at_ms=1050) == []
    assert task.clock.due_ms == 1051
    task = task.restarted()
    columns = ["k", "do", "v", "t"]
    assert task.epoch(at_ms=1101) == [
        ("b", f"timeout None {columns} 0 1101"),
        ("a", f"timeout (3,) {columns} 0 1101"),
    ]
    # The one was removed; of the other nothing was said, so its timeout stays, as in Spark.
    assert task.rows("state") == [("b", None, 1050)]
    assert [key for key, _ in task.epoch(at_ms=1102)] == ["b"]
    assert task.clock.due_ms is None, "no epoch is made for it alone"
    task.epoch([row("a", "within", 100)], at_ms=1103)
    assert task.clock.due_ms == 1204


def test_many_timeouts_come_some_at_a_time() -> None:
    task = scripted_task(GroupStateTimeout.ProcessingTimeTimeout)
    keys = [f"key {number}" for number in range(2_000)]
    task.epoch([row(key, "within", 1) for key in keys], at_ms=0)
    task.clock.opened_ms = 2
    results = list(task.stage(iter(())))
    assert max(result.num_rows for result in results) <= len(keys) * 3 // 4
    assert [key for result in results for key in result.column(0).to_pylist()] == keys


def test_what_is_written() -> None:
    task = scripted_task(GroupStateTimeout.ProcessingTimeTimeout)
    task.epoch([row("a", "update", 2), row("a", "within", 100)], at_ms=0)
    task.epoch([row("a", "look")], at_ms=1)
    assert task.rows("state") == [("a", {"n": 2}, 100)]
    task.epoch([row("a", "update", 4)], at_ms=2)  # which sets no timeout: there is none any more
    assert task.rows("state") == [("a", {"n": 4}, None)]
    task.epoch([row("a", "remove"), row("a", "within", 9)], at_ms=3)
    assert task.rows("state") == [("a", None, 12)]
    task.epoch([row("a", "remove")], at_ms=4)
    assert task.rows("state") == []
    task.epoch([row("a", "remove")], at_ms=5)
    assert task.rows("state") == []


def test_timeouts_of_event_time() -> None:
    task = scripted_task(GroupStateTimeout.EventTimeTimeout)
    task.epoch([row("a", "update", 1), row("a", "at", 5_000)], watermark_ms=5_000)
    assert task.rows("state") == [("a", {"n": 1}, 5_000)]
    late = row("a", "update", 9, seconds=5)
    found = task.epoch([late], at_ms=77, watermark_ms=5_001)
    assert found == [("a", "timeout (1,) ['k', 'do', 'v', 't'] 0 77")]
    assert task.clock.late == {"custom": 1}
    assert task.rows("state") == []
    with pytest.raises(TransformError, match="INVALID_TIMEOUT_TIMESTAMP"):
        task.epoch([row("a", "at", 5_000)])


@pytest.mark.parametrize(
    ("timeout", "do"),
    [
        (GroupStateTimeout.ProcessingTimeTimeout, "within"),
        (GroupStateTimeout.EventTimeTimeout, "behind"),
    ],
)
def test_a_timeout_that_cannot_be_kept(timeout: str, do: str) -> None:
    task = scripted_task(timeout)
    with pytest.raises(TransformError, match=r"scripted failed.*timeout"):
        task.epoch([row("a", do, 2**63 - 1)], at_ms=1)
    task = scripted_task(timeout)
    task.epoch([row("a", "within" if do == "within" else "at", 2**63 - 1)], at_ms=0)
    assert task.rows("state") == [("a", None, 2**63 - 1)]


def bad(key: Any, frames: Any, state: GroupState) -> Any:
    (frame,) = frames
    kind = frame["k"][0]
    if kind == "frame":
        return frame
    if kind == "number":
        return 5
    if kind == "numbers":
        return iter([5])
    if kind == "columns":
        return iter([pd.DataFrame({"k": ["a"]})])
    if kind == "nothing":
        return iter([pd.DataFrame()])
    return iter(())


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("frame", "Return type of the user-defined function should be iterable of pandas.Data"),
        ("number", "should be iterable, but is int"),
        ("numbers", "should be iterator of pandas.DataFrame, but is iterator of int"),
        ("columns", r"\[RESULT_COLUMN_SCHEMA_MISMATCH\]"),
    ],
)
def test_what_a_function_may_not_return(kind: str, error: str) -> None:
    task = Task(group_step(bad, EVENTS, COUNTS, "n long"))
    with pytest.raises(
        TransformError, match=f"bad failed, called for the key k='{kind}': .*{error}"
    ):
        task.epoch([("none", 1), (kind, 1)])


def test_a_function_may_return_nothing() -> None:
    task = Task(group_step(bad, EVENTS, COUNTS, "n long"))
    assert task.epoch([("nothing", 1), ("none", 1)]) == []
