"""The policy that grants restarts in place."""

from __future__ import annotations

import pytest

from engine.base.options import EngineOptions
from engine.errors import (
    BadRecordError,
    CheckpointCorruptError,
    CheckpointError,
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
    SourceError,
    SourceUnavailableError,
    StaleRunError,
    TaskLostError,
    TransformError,
)
from engine.execution.restart_budget import JITTER, Blame, RestartPolicy, blame

NO_JITTER = 0.5


def policy(**options: int) -> RestartPolicy:
    return RestartPolicy(EngineOptions(**options), chance=lambda: NO_JITTER)


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
        (SinkCommitRejectedError("x"), None),
        (SinkAheadError("x"), None),
        (CheckpointCorruptError("x"), None),
        (ConcurrentRunError("x"), None),
        (StaleRunError("x"), None),
        (ProtocolError("x"), None),
        (ConfigError("x"), None),
        (NotEnoughSlotsError("x"), Blame.INFRASTRUCTURE),
        (CheckpointError("x"), Blame.INFRASTRUCTURE),
        (ClusterEndedError("x"), None),
    ],
)
def test_every_failure_is_somebodys_or_final(error: ContinuousError, culprit: Blame | None) -> None:
    assert blame(error) is culprit


def test_pauses_double_up_to_the_longest() -> None:
    granted = policy(restart_delay_ms=100, restart_delay_max_ms=500)
    delays = [granted.next_delay_s(SourceError("x"), 0.0) for _ in range(5)]
    longest = 0.5 / (1 + JITTER)
    assert delays == pytest.approx([0.1, 0.2, 0.4, longest, longest])
    assert granted.restarts == 5


def test_a_pause_is_never_longer_than_the_longest() -> None:
    options = EngineOptions(restart_delay_ms=100, restart_delay_max_ms=500, restarts_source=5_000)
    granted = RestartPolicy(options, chance=lambda: 0.999)
    delays = [granted.next_delay_s(SourceError("x"), 0.0) or 0.0 for _ in range(5_000)]
    assert max(delays) <= 0.5
    assert min(delays[10:]) > 0.49


def test_a_task_that_is_lost_for_the_first_time_is_replaced_at_once() -> None:
    granted = policy(restart_delay_ms=100)
    delays = [granted.next_delay_s(TaskLostError("x"), 0.0) for _ in range(3)]
    assert delays == pytest.approx([0.0, 0.2, 0.4])


@pytest.mark.parametrize(("chance", "delay_s"), [(0.0, 0.08), (0.5, 0.1), (1.0, 0.12)])
def test_jitter_spreads_the_pause(chance: float, delay_s: float) -> None:
    granted = RestartPolicy(EngineOptions(), chance=lambda: chance)
    assert granted.next_delay_s(SourceError("x"), 0.0) == pytest.approx(delay_s)


def test_each_budget_is_its_own() -> None:
    granted = policy(restarts_sink=2, restarts_source=1)
    assert granted.next_delay_s(SinkUnavailableError("x"), 0.0) is not None
    assert granted.next_delay_s(SinkUnavailableError("x"), 0.0) is not None
    assert granted.next_delay_s(SinkUnavailableError("x"), 0.0) is None
    assert granted.next_delay_s(SourceUnavailableError("x"), 0.0) is not None
    assert granted.next_delay_s(SourceUnavailableError("x"), 0.0) is None
    assert granted.restarts == 3


def test_a_healthy_time_gives_the_budgets_back() -> None:
    granted = policy(restarts_sink=1, restart_reset_after_s=60)
    assert granted.next_delay_s(SinkUnavailableError("x"), 0.0) == pytest.approx(0.1)
    assert granted.next_delay_s(SinkUnavailableError("x"), 59.9) is None
    assert granted.next_delay_s(SinkUnavailableError("x"), 60.0) == pytest.approx(0.1)


def test_a_final_error_uses_nothing_up() -> None:
    granted = policy(restarts_source=1)
    assert granted.next_delay_s(BadRecordError("x"), 0.0) is None
    assert granted.restarts == 0
    assert granted.next_delay_s(SourceError("x"), 0.0) is not None
