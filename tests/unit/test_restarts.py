"""The policy that grants restarts in place."""

from __future__ import annotations

import pytest

from engine.base.options import EngineOptions
from engine.errors import (
    BadRecordError,
    CheckpointCorruptError,
    CheckpointError,
    CheckpointVersionError,
    ClusterEndedError,
    ConcurrentRunError,
    ConfigError,
    ContinuousError,
    EpochBacklogError,
    EpochStalledError,
    NotEnoughSlotsError,
    OffsetOutOfRangeError,
    ProtocolError,
    SinkAheadError,
    SinkCommitRejectedError,
    SinkCommitUnknownError,
    SinkUnavailableError,
    SourceChangedError,
    SourceError,
    SourceUnavailableError,
    StaleRunError,
    TaskLostError,
    TransformError,
)
from engine.execution.restart_budget import JITTER, Blame, RestartPolicy, blame

NO_JITTER = 0.5
STARTING_S = 0.5
MINUTE_S, HOUR_S, DAY_S = 60.0, 3_600.0, 86_400.0


class Policy:
    """A policy, and the time of its query.

    :ivar now_s: moves by the pauses that are granted.
    """

    def __init__(
        self, chance: float = NO_JITTER, *, interval_s: float = 0.0, **options: int
    ) -> None:
        self._policy = RestartPolicy(
            EngineOptions(**options), interval_ms=round(interval_s * 1000), chance=lambda: chance
        )
        self.now_s = 1_000.0

    @property
    def restarts(self) -> int:
        return self._policy.restarts

    def next_delay_s(
        self, error: ContinuousError, *, proven: bool = True, ran_s: float = 0.0
    ) -> float | None:
        """:param ran_s: the tasks run for so long first."""
        self.now_s += ran_s
        delay_s = self._policy.next_delay_s(error, now_s=self.now_s, proven=proven, ran_s=ran_s)
        self.now_s += delay_s or 0.0
        return delay_s

    def commit_for(self, seconds: float, epochs: int = 10) -> None:
        """All tasks run, and epochs are committed."""
        for _ in range(epochs):
            self.now_s += seconds / epochs
            self._policy.well(now_s=self.now_s, healthy_s=seconds / epochs)

    def wait(self, seconds: float) -> None:
        """For task slots."""
        self.now_s += seconds
        self._policy.waited(seconds)

    def bear(self, error: ContinuousError, seconds: float) -> None:
        """An outage of about so long."""
        until_s = self.now_s + seconds
        while self.now_s < until_s:
            assert self.next_delay_s(error) is not None
            self.now_s += STARTING_S

    def outage(self, error: ContinuousError, *, proven: bool = True) -> list[float]:
        """The pauses of an outage that does not end."""
        pauses: list[float] = []
        while (pause_s := self.next_delay_s(error, proven=proven)) is not None:
            pauses.append(pause_s)
        return pauses


def policy(*, interval_s: float = 0.0, **options: int) -> Policy:
    return Policy(interval_s=interval_s, **options)


@pytest.mark.parametrize(
    ("error", "culprit"),
    [
        (TaskLostError("x"), Blame.INFRASTRUCTURE),
        (EpochBacklogError("x"), Blame.INFRASTRUCTURE),
        (EpochStalledError("x"), Blame.INFRASTRUCTURE),
        (ContinuousError("x"), Blame.INFRASTRUCTURE),
        (SourceError("x"), Blame.SOURCE),
        (SourceUnavailableError("x"), Blame.SOURCE),
        (SinkUnavailableError("x"), Blame.SINK),
        (SinkCommitUnknownError("x"), Blame.SINK),
        (TransformError("x"), Blame.USER),
        (BadRecordError("x"), None),
        (OffsetOutOfRangeError("x"), None),
        (SourceChangedError("x"), None),
        (SinkCommitRejectedError("x"), None),
        (SinkAheadError("x"), None),
        (CheckpointCorruptError("x"), None),
        (ConcurrentRunError("x"), None),
        (StaleRunError("x"), None),
        (ProtocolError("x"), None),
        (ConfigError("x"), None),
        (NotEnoughSlotsError("x"), Blame.INFRASTRUCTURE),
        (CheckpointError("x"), Blame.STORAGE),
        (CheckpointVersionError("x"), None),
        (ClusterEndedError("x"), None),
    ],
)
def test_every_failure_is_somebodys_or_final(error: ContinuousError, culprit: Blame | None) -> None:
    assert blame(error) is culprit


def test_pauses_double_up_to_the_longest() -> None:
    granted = policy(restart_delay_ms=100, restart_delay_max_ms=500)
    delays = [granted.next_delay_s(SourceError("x")) for _ in range(5)]
    longest = 0.5 / (1 + JITTER)
    assert delays == pytest.approx([0.1, 0.2, 0.4, longest, longest])
    assert granted.restarts == 5


def test_a_pause_is_never_longer_than_the_longest() -> None:
    granted = Policy(0.999, restart_delay_ms=100, restart_delay_max_ms=500)
    delays = granted.outage(SourceError("x"))
    assert len(delays) > 5_000
    assert max(delays) <= 0.5
    assert min(delays[10:-1]) > 0.49


def test_a_task_that_is_lost_for_the_first_time_is_replaced_at_once() -> None:
    granted = policy(restart_delay_ms=100)
    delays = [granted.next_delay_s(TaskLostError("x")) for _ in range(3)]
    assert delays == pytest.approx([0.0, 0.2, 0.4])


@pytest.mark.parametrize(("chance", "delay_s"), [(0.0, 0.08), (0.5, 0.1), (1.0, 0.12)])
def test_jitter_spreads_the_pause(chance: float, delay_s: float) -> None:
    assert Policy(chance).next_delay_s(SourceError("x")) == pytest.approx(delay_s)


OUTAGES = [
    (TaskLostError("x"), "retry_infrastructure_for_ms"),
    (CheckpointError("x"), "retry_storage_for_ms"),
    (SourceUnavailableError("x"), "retry_source_for_ms"),
    (SinkUnavailableError("x"), "retry_sink_for_ms"),
]


@pytest.mark.parametrize(("error", "option"), OUTAGES)
def test_an_outage_is_borne_for_an_hour(error: ContinuousError, option: str) -> None:
    assert sum(policy().outage(error)) == pytest.approx(HOUR_S)
    assert sum(policy(**{option: 30_000}).outage(error)) == pytest.approx(30.0)
    assert policy(**{option: 0}).outage(error) == []


def test_a_database_that_fails_over_for_half_a_minute_ends_nothing() -> None:
    granted = policy()
    began_s = granted.now_s
    while granted.now_s - began_s < 30:
        assert granted.next_delay_s(SinkUnavailableError("failing over")) is not None
    assert granted.restarts < 12
    assert granted.now_s - began_s < 60


def test_each_outage_is_its_own() -> None:
    granted = policy(retry_source_for_ms=60_000)
    assert granted.outage(SourceUnavailableError("x"))
    assert granted.next_delay_s(SinkUnavailableError("x")) is not None
    assert granted.next_delay_s(SourceUnavailableError("x")) is None


def test_the_users_code_has_a_count() -> None:
    granted = policy(restarts_user=3)
    granted.now_s += 10 * HOUR_S
    assert len(granted.outage(TransformError("x"))) == 3


def test_a_healthy_time_ends_the_outage() -> None:
    granted = policy(retry_sink_for_ms=1_800_000, restart_reset_after_s=300, restarts_user=1)
    assert granted.outage(SinkUnavailableError("x"))
    assert granted.outage(TransformError("x"))
    granted.commit_for(299)
    assert granted.next_delay_s(TransformError("x")) is None
    granted.commit_for(1)  # it was the sink's 300th healthy second, and the user's first
    assert granted.next_delay_s(TransformError("x")) is None
    assert sum(granted.outage(SinkUnavailableError("x"))) == pytest.approx(1_800)
    granted.commit_for(300)
    assert granted.next_delay_s(SinkUnavailableError("x")) == pytest.approx(0.1)
    assert granted.next_delay_s(TransformError("x")) is not None


def test_failures_of_others_do_not_interrupt_a_healthy_time() -> None:
    granted = policy(restarts_user=1)
    assert granted.next_delay_s(TransformError("x")) is not None
    for _ in range(5):
        granted.commit_for(MINUTE_S)
        granted.bear(TaskLostError("x"), STARTING_S)
    assert granted.next_delay_s(TransformError("x")) is not None


@pytest.mark.parametrize("error", [error for error, _ in OUTAGES])
def test_a_short_loss_every_four_minutes_goes_on_for_a_day(error: ContinuousError) -> None:
    """Also if it begins with a long outage, and never are there five whole minutes."""
    granted = policy()
    granted.bear(error, 50 * MINUTE_S)
    while granted.now_s < DAY_S:
        granted.commit_for(4 * MINUTE_S)
        granted.bear(error, 2.0)
    granted.commit_for(4 * MINUTE_S)
    delay_s = granted.next_delay_s(error)
    assert delay_s is not None  # it has paid for the first one long ago
    assert delay_s <= 0.1


def test_an_hour_out_of_every_hour_and_five_minutes_is_borne() -> None:
    granted = policy()
    for _ in range(5):
        granted.bear(SinkUnavailableError("failing over"), 59 * MINUTE_S)
        granted.commit_for(5 * MINUTE_S)


def test_an_epoch_between_two_crashes_is_not_well() -> None:
    """Pauses get long, and the window is used up, although each attempt commits."""
    granted, pauses, began_s = policy(), [0.0], 1_000.0
    while True:
        pause_s = granted.next_delay_s(TaskLostError("it ran for two seconds"))
        if pause_s is None:
            break
        pauses.append(pause_s)
        granted.now_s += STARTING_S
        granted.commit_for(2.0, epochs=2)
    assert HOUR_S < granted.now_s - began_s < 1.1 * HOUR_S
    assert len(pauses) < 100


def test_a_poison_record_ends_a_query_promptly() -> None:
    """Also if what lies before it is committed."""
    granted = policy()
    for _ in range(3):
        assert granted.next_delay_s(TransformError("division by zero")) is not None
        granted.commit_for(1.0, epochs=1)
    assert granted.next_delay_s(TransformError("division by zero")) is None
    assert granted.now_s - 1_000.0 < 10.0


def test_a_users_failure_once_a_day_ends_nothing() -> None:
    granted = policy(restarts_user=1)
    for _ in range(30):
        assert granted.next_delay_s(TransformError("no such key")) == pytest.approx(0.1)
        granted.commit_for(DAY_S)


def test_what_has_never_committed_is_given_up_after_a_minute() -> None:
    """It is more likely wrong than its sink is down."""
    error = SinkUnavailableError("no such host")
    assert sum(policy().outage(error, proven=False)) == pytest.approx(60.0)
    assert sum(policy(retry_sink_for_ms=5_000).outage(error, proven=False)) == pytest.approx(5.0)


@pytest.mark.parametrize("proven", [True, False])
def test_waiting_for_slots_uses_nothing_up(proven: bool) -> None:
    granted = policy()
    assert granted.next_delay_s(TaskLostError("its machine is gone"), proven=proven) is not None
    granted.wait(2 * HOUR_S)
    pauses = granted.outage(TaskLostError("the next one, too"), proven=proven)
    assert sum(pauses) == pytest.approx(HOUR_S if proven else MINUTE_S)


@pytest.mark.parametrize("proven", [True, False])
def test_losses_within_an_epoch_of_hours_are_borne(proven: bool) -> None:
    granted = policy(interval_s=2 * HOUR_S)
    for _ in range(4):
        error = TaskLostError("its machine is gone")
        assert granted.next_delay_s(error, proven=proven, ran_s=0.4 * HOUR_S) is not None
    granted.commit_for(0.4 * HOUR_S, epochs=1)
    assert granted.next_delay_s(TaskLostError("another"), ran_s=HOUR_S) == 0.0


def test_a_crash_in_the_middle_of_every_long_epoch_is_given_up() -> None:
    granted, began_s = policy(interval_s=2 * HOUR_S), 1_000.0
    while granted.next_delay_s(TaskLostError("out of memory"), ran_s=40 * MINUTE_S) is not None:
        pass
    assert 3 * HOUR_S <= granted.now_s - began_s < 4.5 * HOUR_S


def test_a_long_epoch_gives_a_sink_that_is_down_no_more_time() -> None:
    granted = policy(interval_s=2 * HOUR_S)
    error = SinkUnavailableError("no such host")
    assert granted.next_delay_s(error, ran_s=2 * HOUR_S) is not None
    began_s = granted.now_s
    while granted.next_delay_s(error, ran_s=STARTING_S) is not None:
        pass
    assert granted.now_s - began_s == pytest.approx(HOUR_S, abs=MINUTE_S)


def test_a_final_error_uses_nothing_up() -> None:
    granted = policy()
    assert granted.next_delay_s(BadRecordError("x")) is None
    assert granted.restarts == 0
    assert granted.next_delay_s(SourceError("x")) is not None
