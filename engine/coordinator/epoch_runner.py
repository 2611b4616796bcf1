"""Carries out the commit of an epoch, step by step and in order.

1. ``prepared/<epoch>``: the writers' messages, so that a restart can finish the epoch
2. ``offsets/<epoch>``: the write-ahead offset log
3. ``sink.commit(messages, epoch)``
4. ``commits/<epoch>``: the commit log

A sink that commits several epochs together gets the first two steps of each as it ends, and the
others of all of them at once.

And then, while the next epoch is committed perhaps:

5. ``source.commit(offset)``
6. retention

A crash between any two steps leaves a state that :mod:`engine.coordinator.restart_table` resolves.
Before each step that others can see, the lease is checked: a run that was fenced writes nothing
more. For a log a recent look is enough, because it takes each entry once: what a fenced run writes
there is refused. A sink cannot refuse it, so the lease is looked at anew between offset log and
sink. A run that takes the checkpoint over behind that look finds steps 1 and 2 done, and tells the
sink the same messages for the same epoch. That makes four requests to an object store until the
epoch is committed: three entries and one look.

Source: Spark's EpochCoordinator ("commit to the writer before recording the commit").
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from engine.base.background import Later, at_once
from engine.base.failpoints import reach
from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.epoch_state import EpochState
from engine.checkpoint.lease import Lease
from engine.checkpoint.logs.commit_log import CommitEntry
from engine.checkpoint.logs.offset_log import OffsetEntry
from engine.checkpoint.logs.prepared_log import PreparedEntry
from engine.checkpoint.retention import KEEP_EPOCHS_MIN
from engine.checkpoint.rewind import was_rewound
from engine.checkpoint.state_retention import StatePurge
from engine.errors import (
    CheckpointError,
    ConfigError,
    ContinuousError,
    PreparedEpochLostError,
    ProtocolError,
    SinkCommitUnknownError,
    SourceError,
)
from engine.redaction.logs import log_failure, redact
from engine.sinks.contract import SinkBinding
from engine.sources.contract import DataSourceContinuousReader, Offset
from engine.wire.messages import LettersAlone, SunkEpoch

logger = logging.getLogger(__name__)
_NOTHING = EpochState()


@dataclass(frozen=True)
class CommittedEpoch:
    """What a commit did.

    :param offsets: the end offset of each stream of the query.
    :param duration_ms: step → milliseconds.
    :param watermark_ms: during the epoch; ``next_watermark_ms`` behind it.
    """

    epoch: int
    offsets: tuple[Offset, ...]
    duration_ms: dict[str, int]
    watermark_ms: int = 0
    next_watermark_ms: int = 0


@dataclass(frozen=True)
class QueryEnds:
    """Where the records of a query come from and where they go, on the driver.

    :param query_id: the checkpoint's.
    :param sources: one per stream of the query, in the order of the offset log's lines.
    :param sink: bound to the run.
    """

    query_id: str
    sources: Sequence[DataSourceContinuousReader]
    sink: SinkBinding


@dataclass(frozen=True)
class _Logged:
    """An epoch that is prepared and logged, and not committed.

    :param watermark_ms: during it; ``next_watermark_ms`` behind it.
    :param duration_ms: of the steps so far.
    :param sink_has_it: the sink says that it has committed it.
    """

    epoch: int
    messages: Sequence[Any]
    offsets: tuple[Offset, ...] = ()
    watermark_ms: int = 0
    next_watermark_ms: int = 0
    duration_ms: dict[str, int] = field(default_factory=dict)
    sink_has_it: bool = False


class EpochRunner:
    """Commits epochs of one run, one at a time.

    :param lease: the run's hold on the checkpoint.
    :param later: gets steps 5 and 6. If they are late, those of several epochs are done at once.
    :ivar rewound: whether the checkpoint was ever rewound; None: it is looked for.
    :ivar tasks: the names of the partitions that each task of the run reads.
    :ivar metadata: what the entries of the offset log carry on, see
        :mod:`engine.checkpoint.logs.offset_log`.
    :ivar keeps_time: whether they tell the watermark.
    :ivar key_groups: how many the query has; None if it keeps no state.
    :ivar partitions: of the streams whose tasks keep state, see
        :class:`~engine.checkpoint.epoch_state.EpochState`.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        lease: Lease,
        ends: QueryEnds,
        *,
        min_epochs_to_retain: int,
        later: Later = at_once,
    ) -> None:
        self._checkpoint = checkpoint
        self._lease = lease
        self._query_id = ends.query_id
        self._sources = tuple(ends.sources)
        self._sink = ends.sink.driver
        self._prepared = checkpoint.prepared_with(ends.sink.codec)
        self._keeps_letters = ends.sink.letters is not None
        self._retain = min_epochs_to_retain
        self._later = later
        self._purge_state = StatePurge(checkpoint)
        self._logged: list[_Logged] = []
        self.rewound: bool | None = None
        self.tasks: Sequence[tuple[str, ...]] = ()
        self.metadata: dict[str, Any] | None = None
        self.keeps_time = False
        self.key_groups: int | None = None
        self.partitions: Mapping[int, tuple[str, ...]] = {}

    def commit(
        self,
        epoch: int,
        offsets: Sequence[Sequence[Offset]],
        messages: Sequence[Any],
        state: EpochState = _NOTHING,
        *,
        replayed: bool = False,
    ) -> list[CommittedEpoch]:
        """Make a complete epoch durable, and those that are only logged. As :meth:`log` and
        :meth:`publish`."""
        self.log(epoch, offsets, messages, state, replayed=replayed)
        return self.publish()

    def log(
        self,
        epoch: int,
        offsets: Sequence[Sequence[Offset]],
        messages: Sequence[Any],
        state: EpochState = _NOTHING,
        *,
        replayed: bool = False,
    ) -> None:
        """Steps 1 and 2: whatever comes, a restart finishes the epoch.

        :param offsets: per stream: the end offset of each of its partitions, in their order.
        :param messages: the message of each task that writes to the sink, in their order; behind
            them what others have of dead letters.
        :param state: what the offset log tells beside the offsets, if it does.
        :param replayed: the epoch was run again to its end in the offset log, which stays.
        :raises SourceError: a source cannot merge its offsets.
        :raises StaleRunError: this run was fenced; nothing more was written.
        :raises CheckpointError: a log could not be written.
        """
        steps = _Stopwatch()
        self._lease.check(recent=True)  # a source may keep a log of its own
        end, text = self._merged(epoch, offsets, state)
        # Step 1 and 2: what will be done.
        self._lease.check(recent=True)
        offset_log = self._checkpoint.offsets
        if replayed:
            end, text = self._logged_end(epoch, end.offsets)
        lost = self._lost(epoch) if replayed else None
        entry = self._entry(
            messages=tuple(messages),
            offsets=text,
            tasks=tuple(self.tasks) if self._sink.may_drop_prepared else (),
            done=frozenset() if lost is None else lost.done,
        )
        reach("prepare.before")
        if lost is None:
            self._add(self._prepared, epoch, entry)
        else:
            self._prepared.restore(epoch, self._prepared.text(entry))
        steps.done("prepare")
        reach("prepare.after")
        self._lease.check(recent=True)
        if not replayed:
            self._add(offset_log, epoch, end, text)
        steps.done("walCommit")
        reach("walCommit.after")
        # The entry of one that was run again goes on naming the files of before.
        self._purge_state.note(epoch + replayed, state.handles)
        times_ms = state.watermark_ms, state.next_watermark_ms if self.keeps_time else 0
        self._logged.append(_Logged(epoch, messages, end.offsets, *times_ms, steps.duration_ms))

    def publish(self) -> list[CommittedEpoch]:
        """Steps 3 and 4 of all that is logged; what is committed by that.

        :raises StaleRunError: this run was fenced; nothing more was written.
        :raises SinkError: the sink refused, or may or may not have committed.
        :raises CheckpointError: a log could not be written.
        """
        logged = self._logged
        self._finish(logged)
        self._logged = []  # not before: what was refused is never left out
        committed = [
            CommittedEpoch(
                each.epoch,
                each.offsets,
                each.duration_ms,
                each.watermark_ms,
                each.next_watermark_ms,
            )
            for each in logged
        ]
        if committed and committed[-1].offsets:
            last = committed[-1]
            self._later("cleaning up", partial(self._clean_up, last.epoch, last.offsets))
        return committed

    def _merged(
        self, epoch: int, offsets: Sequence[Sequence[Offset]], state: EpochState
    ) -> tuple[OffsetEntry, str]:
        """The end offset of each stream, as an entry of the offset log, and its text."""
        try:
            ends = tuple(
                source.mergeOffsets(list(parts))
                for source, parts in zip(self._sources, offsets, strict=True)
            )
            metadata = self.metadata
            if self.keeps_time:
                known = replace(state, key_groups=self.key_groups, partitions=self.partitions)
                metadata = known.added_to(metadata)
            entry = OffsetEntry(ends, metadata)
            return entry, self._checkpoint.offsets.text(entry)
        except ContinuousError:
            raise
        except Exception as exc:
            raise SourceError(
                f"A source cannot merge its offsets of epoch {epoch}: {type(exc).__name__}: {exc}",
                epoch=epoch,
                hint="Its mergeOffsets(offsets) must return what JSON can hold.",
            ) from exc

    def commit_again(self, epochs: Sequence[int], sink_has: Collection[int]) -> None:
        """Finish epochs that an earlier run has prepared and logged, but not committed; together if
        the sink can.

        :param epochs: in their order.
        :param sink_has: those that the sink says it has committed.
        :raises CheckpointCorruptError: prepared messages cannot be read.
        :raises ConfigError: they hold bad records, which this run does not keep.
        """
        logged: list[_Logged] = []
        for epoch in epochs:
            logger.info("committing epoch %d again", epoch)
            behind_ms = self._watermark_behind(epoch)
            if epoch in sink_has:
                logged.append(_Logged(epoch, (), next_watermark_ms=behind_ms, sink_has_it=True))
            else:
                entry = self._prepared.get(epoch)
                assert entry is not None, f"prepared/{epoch} vanished"
                messages = [self._fitting(epoch, message) for message in entry.messages]
                logged.append(_Logged(epoch, messages, next_watermark_ms=behind_ms))
            if self._sink.commit_together is None:
                self._finish(logged)
                logged = []
        self._finish(logged)

    def _watermark_behind(self, epoch: int) -> int:
        """What the offset log says of it."""
        entry = self._checkpoint.offsets.get(epoch) if self.keeps_time else None
        return 0 if entry is None else EpochState.of(entry).next_watermark_ms

    def _entry(self, **content: Any) -> PreparedEntry:
        return PreparedEntry(
            generation=self._lease.generation,
            run_id=self._lease.run_id,
            query_id=self._query_id,
            **content,
        )

    def _fitting(self, epoch: int, message: Any) -> Any:
        """The message of a run for which there may have been dead letters, or none."""
        is_with_letters = isinstance(message, SunkEpoch | LettersAlone)
        if self._keeps_letters:
            return message if is_with_letters else SunkEpoch(message, None)
        if not is_with_letters:
            return message
        if message.dead_letters is not None:
            raise ConfigError(
                f"Epoch {epoch} was prepared with bad records, or late ones, to be kept as dead "
                "letters, and this start keeps none.",
                hint='Start the query once more with onBadRecord, or onLateRecord, "dead-letter" '
                "and the same deadLetterPath; drain it, and then change the option.",
            )
        return message.written

    def abort(self, epoch: int, messages: Sequence[Any]) -> None:
        """Drop what tasks have prepared of an epoch that will not be committed by this run."""
        try:
            self._lease.check()
            self._sink.abort(list(messages), epoch)
        except Exception as exc:
            logger.warning("epoch %d was not aborted cleanly: %s", epoch, redact(str(exc)))

    def _finish(self, logged: Sequence[_Logged]) -> None:
        if not logged:
            return
        steps = _Stopwatch()
        # Step 3: sink before commit log, or a crash between the two would lose the epoch.
        self._lease.check()
        reach("commitSink.before")
        self._commit_sink([each for each in logged if not each.sink_has_it])
        steps.done("commitSink")
        reach("commitSink.after")
        # Step 4
        for each in logged:
            self._lease.check(recent=True)
            entry = CommitEntry(each.next_watermark_ms, generation=self._told_generation)
            self._add(self._checkpoint.commits, each.epoch, entry)
            steps.done("commitOffsets")
            each.duration_ms.update(steps.duration_ms)
            reach("commitOffsets.after")

    def _clean_up(self, epoch: int, ends: Sequence[Offset]) -> None:
        """Step 5 and 6: what is no longer needed. The epoch is committed, so a failure is only
        logged. A run that was fenced fails here, and removes nothing: if the query was rewound
        meanwhile, what it would remove is needed again."""
        try:
            self._lease.check()
            for source, end in zip(self._sources, ends, strict=True):
                self._acknowledge(source, epoch, end)
            reach("sourceCommit.after")
            checkpoint = self._checkpoint
            # Commits first: a reader must not find a committed epoch without its offsets. The lease
            # is checked before each deletion: a rewind may make the oldest epoch the newest.
            for log in (checkpoint.commits, checkpoint.offsets):
                log.purge(epoch + 1 - self._retain, self._lease.check)
            # Only a restart needs the messages, and those of memory, console and foreachBatch hold
            # all rows of an epoch: they would fill the storage.
            retained = KEEP_EPOCHS_MIN if self._sink.ships_rows else self._retain
            checkpoint.prepared.purge(epoch + 1 - retained, self._lease.check)
            if self.key_groups is not None:
                self._purge_state(max(epoch + 1 - self._retain, 0), self._lease.check)
        except Exception:
            log_failure(logger, "cleaning up after epoch %d failed", epoch)
        reach("retention.after")

    @staticmethod
    def _acknowledge(source: DataSourceContinuousReader, epoch: int, end: Offset) -> None:
        """Step 5. The next epoch tells more than this one: nobody else waits for one that fails."""
        try:
            source.commit(end)
        except BaseException:  # SystemExit of a user's source, too
            log_failure(logger, "the source's commit of epoch %d failed", epoch)

    @property
    def _told_generation(self) -> int | None:
        """What our entries of the commit log say about who wrote them. None until the query was
        rewound: then they are Spark's to the byte. After that it tells them from the late entry
        of a run that slept through the rewind."""
        if self.rewound is None:
            self.rewound = was_rewound(self._checkpoint)
        return self._lease.generation if self.rewound else None

    def _commit_sink(self, logged: Sequence[_Logged]) -> None:
        if not logged:
            return
        epochs = [(each.epoch, list(each.messages)) for each in logged]
        epoch = epochs[-1][0]
        try:
            if len(epochs) > 1 and self._sink.commit_together is not None:
                self._sink.commit_together(epochs)
            else:
                ((_, messages),) = epochs
                self._sink.commit(messages, epoch)
        except PreparedEpochLostError as exc:
            # The first one runs again, and those behind it, whose offsets are set aside then.
            self._note_lost(epochs[0][0], exc)
            raise
        except ContinuousError as exc:
            exc.epoch = epoch if exc.epoch is None else exc.epoch
            raise
        except Exception as exc:
            raise SinkCommitUnknownError(
                f"The sink failed to commit epoch {epoch}: {type(exc).__name__}: {exc}",
                epoch=epoch,
                hint="A restart commits it again: the sink must skip what it already has.",
            ) from exc

    def _lost(self, epoch: int) -> PreparedEntry | None:
        """What was noted of an epoch that the sink has dropped."""
        entry = self._prepared.get(epoch)
        return entry if entry is not None and entry.lost else None

    def _note_lost(self, epoch: int, error: PreparedEpochLostError) -> None:
        """Let the next attempt run the epoch again, without what the sink has of it."""
        error.epoch = epoch
        self._lease.check()  # another run may have noted it, or have gone on
        entry = self._prepared.get(epoch)
        assert entry is not None, f"prepared/{epoch} vanished"
        done = {name for task in error.done for name in entry.tasks[task]}
        lost = self._entry(
            messages=(), offsets=entry.offsets, done=entry.done.union(done), lost=True
        )
        self._lease.check()
        self._prepared.restore(epoch, self._prepared.text(lost))
        reach("lost.after")

    def _logged_end(self, epoch: int, ends: tuple[Offset, ...]) -> tuple[OffsetEntry, str]:
        """Of an epoch that was run again to these ends."""
        entry = self._checkpoint.offsets.get(epoch)
        logged = () if entry is None else entry.offsets
        # Of a source that had no data none is logged.
        if (
            entry is None
            or len(logged) != len(ends)
            or not all(
                each is None or source.hasComeTo(each, end)
                for source, each, end in zip(self._sources, logged, ends, strict=True)
            )
        ):
            raise ProtocolError(
                f"Epoch {epoch} was run again to {ends}, but the offset log says {logged}.",
                epoch=epoch,
            )
        known = tuple(end if each is None else each for each, end in zip(logged, ends, strict=True))
        return replace(entry, offsets=known), self._checkpoint.offsets.text_of(epoch)

    def _add(self, log: Any, epoch: int, entry: Any, text: str | None = None) -> None:
        if log.add(epoch, entry, text):
            return
        # It is our own entry if it was written and only the storage's answer was lost. Else a
        # fenced run was suspended in the middle of its write, and has just finished it: this
        # attempt fails, and the next one looks at the disk and goes on from what is there.
        self._lease.check()
        if log.text_of(epoch) != log.text(entry):
            raise CheckpointError(
                f"Epoch {epoch} is already in {log.name} of {self._checkpoint.url}: another run "
                "has written to this checkpoint.",
                epoch=epoch,
                hint="Find it with `python -m engine status`, and stop one of the two.",
            )


class _Stopwatch:
    def __init__(self) -> None:
        self.duration_ms: dict[str, int] = {}
        self._lap = time.perf_counter()

    def done(self, step: str) -> None:
        now = time.perf_counter()
        self.duration_ms[step] = round((now - self._lap) * 1000)
        self._lap = now
