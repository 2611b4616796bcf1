"""Commits the epochs of a run, one after the other, on a thread of its own.

Most sinks get each epoch as it is complete. A sink that asks for it gets several together
(:class:`engine.sinks.contract.CommitsTogether`): each epoch is logged as it is complete, so that a
restart finishes it, and the sink is told of all that are logged once the first of them has waited
for the sink's interval; earlier if somebody waits for one, and with the last epoch of a run that
drains. A run that is stopped, or fails, leaves them to the next one.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final, NamedTuple

from engine.base.clock import Clock
from engine.checkpoint.epoch_state import EpochState
from engine.coordinator.epoch_runner import CommittedEpoch, EpochRunner
from engine.coordinator.events import (
    CommitEpoch,
    CommitFailed,
    EpochCommitted,
    EpochLogged,
    Event,
)
from engine.errors import ContinuousError, ProtocolError
from engine.execution.wanted_epochs import WantedEpochs
from engine.progress.report import COMMIT_WAIT
from engine.redaction.logs import log_failure
from engine.wire.messages import EpochCommitMessage

logger = logging.getLogger(__name__)
TOGETHER_MAX: Final = 1_000
"""So many epochs at most."""
REPORTS_MAX: Final = 20_000
"""So many reports of tasks are kept meanwhile at most; one may have some kilobytes."""

Reports = list[list[EpochCommitMessage]]
"""Per pipeline of the query, one for each of its tasks."""


class CommittedTask(NamedTuple):
    """A task whose reports are committed.

    :param stage: the number of its pipeline.
    :param writes: whether its rows go to the sink.
    """

    stage: int
    writes: bool


def messages_of(reports: Iterable[tuple[bool, EpochCommitMessage]]) -> list[Any]:
    """What the sink gets of an epoch: a message of each task whose rows go to it, in their order;
    behind these the dead letters of others.

    :param reports: each with whether its task is one of the former.
    """
    reports = list(reports)
    written = [report.writer_message for writes, report in reports if writes]
    others = [report.writer_message for writes, report in reports if not writes]
    return [*written, *(each for each in others if each is not None)]


class _Logged(NamedTuple):
    """An epoch that is logged, by the monotonic clock, and not committed."""

    at_s: float
    reports: Reports


class Committer:
    """What fails ends it: nothing is committed behind what was not.

    :param tasks: all of the run.
    :param streams: how many pipelines read a source: the first ones.
    :param interval_ms: so long an epoch may be logged and not committed.
    :param wanted: the epochs that somebody waits for.
    :param heard: is told of each committed epoch, on this object's thread.
    :param tell: gets what has come of it; from any thread.
    """

    def __init__(
        self,
        runner: EpochRunner,
        tasks: Sequence[CommittedTask],
        streams: int,
        interval_ms: int,
        clock: Clock,
        wanted: WantedEpochs,
        heard: Callable[[CommittedEpoch, Reports], None],
        tell: Callable[[Event], None],
    ) -> None:
        self._runner = runner
        self._tasks, self._streams = tasks, streams
        self._interval_s = interval_ms / 1000
        self._clock, self._wanted, self._heard, self._tell = clock, wanted, heard, tell
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="epoch-commit")
        self._thread_id: int | None = None
        self._under_way: Future[None] | None = None
        self._logged: dict[int, _Logged] = {}
        """In their order. Only looked at while nothing is under way."""
        self._newest = -1
        self._has_failed = False

    @property
    def is_this_thread(self) -> bool:
        """Whether the caller is inside of a commit."""
        return threading.get_ident() == self._thread_id

    def commit(self, action: CommitEpoch, opened_ms: int = 0, *, replayed: bool) -> None:
        """Begin with an epoch; tells :class:`EpochCommitted`, :class:`EpochLogged` if the sink will
        get it later, or :class:`CommitFailed`.

        :param opened_ms: when it began, by the wall clock.
        """
        self._under_way = self._thread.submit(self._commit, action, opened_ms, replayed)

    def look(self) -> None:
        """Begin to tell the sink of what is due, though no other epoch comes."""
        if self._has_failed or (self._under_way is not None and not self._under_way.done()):
            return
        if self._is_due():
            self._under_way = self._thread.submit(self._publish_rest)

    def finish(self, *, warning_s: float) -> None:
        """Wait for what is under way.

        :param warning_s: what lasts longer says so.
        """
        while self._under_way is not None and wait([self._under_way], warning_s).not_done:
            logger.warning(
                "the end waits for the commit of epoch %s", max(self._logged, default="")
            )
        self._thread.shutdown()

    # -- on the thread --------------------------------------------------------------------------

    def _commit(self, action: CommitEpoch, opened_ms: int, replayed: bool) -> None:
        if self._has_failed:  # it was ordered before that was heard
            return
        epoch = self._newest = action.epoch
        reports: Reports = [[] for _ in range(max(task.stage for task in self._tasks) + 1)]
        for task, report in zip(self._tasks, action.reports, strict=True):
            reports[task.stage].append(report)
        read = reports[: self._streams]
        with self._failing(epoch):
            self._runner.log(
                epoch,
                [[offset for report in parts for offset in report.offsets] for parts in read],
                messages_of(
                    (task.writes, report)
                    for task, report in zip(self._tasks, action.reports, strict=True)
                ),
                state=EpochState(
                    action.watermark_ms,
                    action.next_watermark_ms,
                    opened_ms,
                    tuple(r.state for r in action.reports if r.state is not None),
                    marks=action.marks,
                ),
                replayed=replayed,
            )
            self._logged[epoch] = _Logged(self._clock.monotonic_s(), reports)
            if action.final or self._is_due():
                self._publish()
            else:
                self._tell(EpochLogged(epoch))

    def _publish_rest(self) -> None:
        with self._failing(self._newest):
            self._publish()

    def _publish(self) -> None:
        committed = self._runner.publish()
        now_s = self._clock.monotonic_s()
        for each in committed:
            logged, steps = self._logged.pop(each.epoch), each.duration_ms
            if self._interval_s:
                waited_ms = _waited_ms(steps, now_s - logged.at_s, len(committed))
                steps = {**steps, COMMIT_WAIT: waited_ms}
            self._heard(replace(each, duration_ms=steps), logged.reports)
        if committed:
            self._tell(EpochCommitted(committed[-1].epoch))

    def _is_due(self) -> bool:
        logged = self._logged
        if not logged:
            return False
        waited_s = self._clock.monotonic_s() - logged[min(logged)].at_s
        return (
            waited_s >= self._interval_s
            or len(logged) >= min(TOGETHER_MAX, REPORTS_MAX // len(self._tasks))
            or self._wanted.is_wanted(min(logged), max(logged))
        )

    @contextmanager
    def _failing(self, epoch: int) -> Iterator[None]:
        """What goes wrong inside is told."""
        self._thread_id = threading.get_ident()
        try:
            yield
        except ContinuousError as exc:
            self._has_failed = True
            self._tell(CommitFailed(epoch, exc))
        except BaseException as exc:  # SystemExit of a user's function, too: nobody else hears it
            self._has_failed = True
            log_failure(logger, "the commit of epoch %d failed", epoch)
            error = ProtocolError(
                f"The commit of epoch {epoch} failed: {type(exc).__name__}: {exc}", epoch=epoch
            )
            error.__cause__ = exc
            self._tell(CommitFailed(epoch, error))


def _waited_ms(steps: Mapping[str, int], since_logged_s: float, together: int) -> int:
    """How long a committed epoch was kept waiting, its own work left out.

    :param together: so many epochs were committed by the same commit, of which each has its share.
    """
    own_ms = steps.get("commitSink", 0) // together + steps.get("commitOffsets", 0)
    return max(0, round(since_logged_s * 1000) - own_ms)
