"""A run that slept through a rewind wakes up in the middle of a write."""

from __future__ import annotations

import json
from typing import Any

import pytest

from engine.base.clock import ManualClock
from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.lease import Lease
from engine.checkpoint.logs.commit_log import CommitEntry
from engine.checkpoint.logs.metadata_log import MetadataLog
from engine.checkpoint.logs.offset_log import OffsetEntry, carried_on
from engine.checkpoint.logs.prepared_log import PreparedEntry
from engine.checkpoint.query_state import QueryState
from engine.checkpoint.rewind import finish_rewind
from engine.checkpoint.rewound import INTENT, Rewound
from engine.coordinator.epoch_runner import EpochRunner, QueryEnds
from engine.coordinator.late_entries import late_entries
from engine.coordinator.restart_table import COMMITS, OFFSETS, PREPARED, RestartPlan
from engine.errors import ConfigError
from engine.execution.survey import plan_restart
from tests.model import Feed, ModelMessage, ModelReader, ModelSink, model_binding

TARGET, LAST = 5, 9
REWOUND = Rewound(TARGET, LAST, generation=1, reach=LAST + 1, offsets="", commit="")


class Query:
    """Ten epochs were committed by generation 0, which sleeps; then it was rewound to epoch 5."""

    def __init__(self, checkpoint: Checkpoint, clock: ManualClock) -> None:
        self.checkpoint, self.clock = checkpoint, clock
        self.sink = ModelSink()
        checkpoint.create_or_read_query_id("query")
        self.go_on(LAST, seq=10)
        checkpoint.rewind(TARGET, accept_repeats=True)

    def go_on(self, to_epoch: int, seq: int) -> None:
        """A run commits up to ``to_epoch``; ``seq`` records an epoch."""
        lease = self.lease()
        runner = self.runner(lease)
        for epoch in range(self.checkpoint.committed_epoch() + 1, to_epoch + 1):
            end = [0, (epoch + 1) * seq]
            runner.commit(epoch, [[end]], [ModelMessage([])])
        lease.release(QueryState.STOPPED)

    def prepares(self, epoch: int, seq: int, *, logs: bool) -> None:
        """A run dies before it has told the sink."""
        lease = self.lease()
        offsets = OffsetEntry(({"0": seq},))
        text = self.checkpoint.offsets.text(offsets)
        entry = PreparedEntry(lease.generation, lease.run_id, (ModelMessage([]),), text)
        self.checkpoint.prepared.add(epoch, entry)
        if logs:
            self.checkpoint.offsets.add(epoch, offsets)
        lease.release(QueryState.FAILED)

    def wakes(self, log: str, epoch: int) -> None:
        """The sleeper carries out the write that it was suspended in."""
        offsets = OffsetEntry(({"0": (epoch + 1) * 10},))
        text = self.checkpoint.offsets.text(offsets)
        logs: Any = {
            OFFSETS: (self.checkpoint.offsets, offsets),
            COMMITS: (self.checkpoint.commits, CommitEntry()),
            PREPARED: (
                self.checkpoint.prepared,
                PreparedEntry(0, "sleeper", (ModelMessage([]),), text),
            ),
        }
        where, entry = logs[log]
        assert where.add(epoch, entry)

    def restarts(self) -> RestartPlan:
        sink = self.sink
        binding = model_binding(sink)
        return plan_restart(self.checkpoint, binding)

    def runner(self, lease: Lease, retain: int = 100) -> EpochRunner:
        ends = QueryEnds("query", [ModelReader(Feed(1))], model_binding(self.sink))
        return EpochRunner(self.checkpoint, lease, ends, min_epochs_to_retain=retain)

    def lease(self) -> Lease:
        return Lease.acquire(self.checkpoint, run_id="run", clock=self.clock)


@pytest.fixture
def query(checkpoint: Checkpoint, clock: ManualClock) -> Query:
    return Query(checkpoint, clock)


@pytest.mark.parametrize("log", [OFFSETS, COMMITS, PREPARED])
@pytest.mark.parametrize("epoch", [TARGET + 1, 8, LAST + 1])
def test_a_late_entry_right_behind_the_rewind(query: Query, log: str, epoch: int) -> None:
    query.wakes(log, epoch)
    assert query.restarts() == RestartPlan(TARGET + 1, TARGET, set_aside=((log, epoch),))
    query.go_on(LAST + 3, seq=7)
    assert query.restarts() == RestartPlan(LAST + 4, LAST + 3)


@pytest.mark.parametrize("log", [OFFSETS, COMMITS, PREPARED])
def test_a_late_entry_just_ahead_of_a_new_history(query: Query, log: str) -> None:
    """Its offsets end an epoch of the old history, and may lie before the end of the new one."""
    query.go_on(7, seq=20)
    query.wakes(log, 8)
    assert query.restarts() == RestartPlan(8, 7, set_aside=((log, 8),))


def test_a_late_commit_does_not_make_a_prepared_epoch_committed(query: Query) -> None:
    """The sink never got it: to believe the entry would lose the epoch's records."""
    query.go_on(7, seq=20)
    query.prepares(8, seq=180, logs=True)
    query.wakes(COMMITS, 8)
    assert query.restarts() == RestartPlan(9, 8, recommit=(8,), set_aside=((COMMITS, 8),))


@pytest.mark.parametrize("prepared", [True, False])
def test_behind_a_rewind_the_sink_compares_the_epoch_that_it_has(
    query: Query, prepared: bool
) -> None:
    """It may have got it from a sleeper, with the rows of the old history."""
    query.go_on(7, seq=20)
    query.prepares(8, seq=180, logs=True)
    if not prepared:  # nothing can be compared: the sink is believed
        query.checkpoint.prepared.delete(8)
    query.sink.latestEpoch = lambda: 8  # type: ignore[attr-defined]
    plan = query.restarts()
    assert plan.recommit == (8,)
    assert plan.skip_sink_commit == (frozenset() if prepared else {8})


def test_nobody_rewinds_to_an_epoch_that_only_a_late_commit_calls_committed(query: Query) -> None:
    query.go_on(7, seq=20)
    query.prepares(8, seq=180, logs=True)
    query.wakes(COMMITS, 8)
    with pytest.raises(ConfigError, match="Epoch 8 is not committed"):
        query.checkpoint.rewind(8, accept_repeats=True)
    query.checkpoint.rewind(7, accept_repeats=True)
    assert query.restarts() == RestartPlan(8, 7)


def test_late_offsets_give_way_to_those_that_go_with_the_messages(query: Query) -> None:
    query.go_on(7, seq=20)
    query.prepares(8, seq=180, logs=False)
    query.wakes(OFFSETS, 8)
    assert query.restarts() == RestartPlan(9, 8, recommit=(8,))
    assert query.checkpoint.offsets.get(8) == OffsetEntry(({"0": 180},))


@pytest.mark.parametrize("log", [OFFSETS, COMMITS])
def test_a_sleeper_in_its_retention_removes_the_only_epoch_that_is_left(
    query: Query, log: str
) -> None:
    for name in (COMMITS, OFFSETS, PREPARED):
        for epoch in range(TARGET):
            query.checkpoint.storage.delete(f"{name}/{epoch}")
    query.checkpoint.storage.delete(f"{log}/{TARGET}")
    assert query.restarts() == RestartPlan(TARGET + 1, TARGET)
    assert query.checkpoint.status().offsets == ({"0": 60},)


def test_retention_stops_when_the_query_is_rewound_meanwhile(
    query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It sleeps in the middle of one removal, and does no other when it wakes."""
    lease = query.lease()
    runner = query.runner(lease, retain=2)
    delete, woken = MetadataLog.delete, []

    def sleep(log: MetadataLog[Any], epoch: int) -> None:
        if not woken:
            query.clock.advance(60)
            query.checkpoint.rewind(TARGET, accept_repeats=True)
        woken.append((log.name, epoch))
        delete(log, epoch)

    monkeypatch.setattr(MetadataLog, "delete", sleep)
    runner.commit(TARGET + 1, [[[0, 99]]], [ModelMessage([])])
    assert woken == [(COMMITS, 0)]


def test_a_reader_does_not_believe_a_late_commit(query: Query) -> None:
    query.wakes(COMMITS, 8)
    status = query.checkpoint.status()
    assert (status.epoch, status.offsets) == (TARGET, ({"0": 60},))
    assert query.checkpoint.epochs() == list(range(TARGET + 1))


def test_what_spark_goes_on_with_after_a_rewind_is_believed(query: Query) -> None:
    """Spark tells no generation, and prepares nothing."""
    for epoch in (6, 7):
        query.checkpoint.offsets.add(epoch, OffsetEntry(({"0": 100 + epoch},)))
        query.checkpoint.commits.add(epoch, CommitEntry())
    micro_batch = OffsetEntry(({"0": 200},), {"batchWatermarkMs": 0})
    query.checkpoint.offsets.add(8, micro_batch)
    assert query.restarts() == RestartPlan(8, 7, replay=8)


def test_what_is_carried_on_of_micro_batches_vouches_for_nothing(query: Query) -> None:
    late = OffsetEntry(({"0": 200},), carried_on({"batchWatermarkMs": 0}))
    query.checkpoint.offsets.add(8, late)
    assert query.restarts() == RestartPlan(TARGET + 1, TARGET, set_aside=((OFFSETS, 8),))


def test_a_sleeper_from_before_an_earlier_rewind(query: Query) -> None:
    """The last rewind has taken nothing back; the one before it has."""
    query.checkpoint.rewind(TARGET, accept_repeats=True)
    query.wakes(COMMITS, 8)
    assert query.restarts() == RestartPlan(TARGET + 1, TARGET, set_aside=((COMMITS, 8),))


@pytest.mark.parametrize("log", [OFFSETS, COMMITS, PREPARED])
def test_a_sleeper_wakes_while_a_rewind_is_interrupted(query: Query, log: str) -> None:
    """The entry of that number was moved before, and another one is there again."""
    checkpoint = query.checkpoint
    record = json.loads(checkpoint.storage.read("control/rewound"))
    late = f"{log}/8"
    checkpoint.storage.replace(INTENT, json.dumps(record).encode())
    checkpoint.storage.create(late, b"late")
    lease = Lease.acquire(checkpoint, run_id="next", clock=query.clock)
    finish_rewind(checkpoint, lease, None)
    assert not checkpoint.storage.exists(late)
    assert checkpoint.storage.read(f"rewound/{record['generation']}/{late}") != b"late"
    assert checkpoint.storage.read(f"rewound/{lease.generation}/{late}") == b"late"


def test_the_late_intent_of_a_rewind_that_slept_through_another_one_is_dropped(
    query: Query,
) -> None:
    checkpoint = query.checkpoint
    record = json.loads(checkpoint.storage.read("control/rewound"))
    late = {**record, "to_epoch": 3, "generation": record["generation"] - 1}
    checkpoint.storage.replace(INTENT, json.dumps(late).encode())
    finish_rewind(checkpoint, Lease.acquire(checkpoint, run_id="next", clock=query.clock), None)
    assert not checkpoint.storage.exists(INTENT)
    assert checkpoint.epochs() == list(range(TARGET + 1))


def test_entries_are_spark_s_to_the_byte_until_there_was_a_rewind(query: Query) -> None:
    query.go_on(6, seq=20)
    before, after = (query.checkpoint.commits.text_of(epoch) for epoch in (5, 6))
    assert before == 'v1\n{"nextBatchWatermarkMs":0}'
    assert after == 'v1\n{"nextBatchWatermarkMs":0,"generation":2}'
    assert query.checkpoint.commits.get(6) == CommitEntry(generation=2)


def test_what_the_sink_has_vouches_for_its_offsets() -> None:
    logs: dict[str, Any] = {"offsets": [5, 6], "commits": [5], "prepared_by": {}}
    assert late_entries(REWOUND, committed_by={}, **logs) == {(OFFSETS, 6)}
    assert late_entries(REWOUND, committed_by={}, vouched=[6], **logs) == set()


def test_nothing_is_late_once_a_run_has_committed_beyond() -> None:
    found = late_entries(
        REWOUND,
        offsets=[2, *range(8, 14)],
        commits=list(range(8, 13)),
        prepared_by=dict.fromkeys(range(8, 14), 0),
        committed_by={},
    )
    assert found == set()


def test_a_torn_prepared_entry_is_not_taken_for_a_late_one() -> None:
    found = late_entries(
        REWOUND, offsets=[5, 6], commits=[5], prepared_by={6: None}, committed_by={}
    )
    assert found == set()
