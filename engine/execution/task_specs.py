"""What each task of a run is made of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from engine.base.options import DEAD_LETTER
from engine.checkpoint.epoch_state import EpochState
from engine.errors import ConfigError
from engine.execution.definition import QueryDefinition
from engine.execution.shares import Share
from engine.sinks.contract import WriterContext
from engine.snapshots.handles import SnapshotHandle
from engine.sources.contract import Offset
from engine.state.scratch import Scratch
from engine.task.spec import Kept, Reading, Receiving, TaskSpec, Time, Writing


@dataclass(frozen=True)
class Beginning:
    """Where the tasks of a run begin.

    :param handles: of the state behind the epoch before.
    :param time: what they know of time.
    :param until: the first epoch ends exactly here; None: when the driver says.
    :param done: the names of partitions, or of tasks, whose rows of the first epoch the sink has.
    """

    epoch: int
    handles: tuple[SnapshotHandle, ...]
    time: Time
    until: tuple[Offset, ...] | None = None
    done: frozenset[str] = frozenset()

    @classmethod
    def behind(cls, state: EpochState, epoch: int, now_ms: int) -> Beginning:
        """With a new epoch.

        :param state: behind the epoch before.
        """
        time = Time(state.next_watermark_ms, now_ms, marks=state.marks)
        return cls(epoch, state.handles, time)

    def replayed(
        self, logged: EpochState, until: tuple[Offset, ...], done: frozenset[str]
    ) -> Beginning:
        """With the same epoch, whose end is logged."""
        time = self.time
        if logged.opened_ms:
            time = Time(logged.watermark_ms, logged.opened_ms, logged.next_watermark_ms)
        return replace(self, time=time, until=until, done=done)


def task_specs(
    definition: QueryDefinition,
    shares: Sequence[Share],
    identity: WriterContext,
    beginning: Beginning,
    groups: int,
) -> list[TaskSpec]:
    """A task for each share.

    :param identity: of the run; the number of the task, and of those that write, is filled in.
    :param groups: how many key groups the query has.
    :raises ConfigError: the sink has rows of partitions, or of key groups, that are not there.
    """
    pipelines, options = definition.pipelines, definition.options
    unknown = beginning.done.difference(name for share in shares for name in share.names)
    if unknown:
        raise ConfigError(
            f"The sink has some rows of epoch {beginning.epoch} already, of {', '.join(unknown)}, "
            "and this start has no such partitions, or key groups.",
            hint="Start the query once more with the partitions, and the option keyGroups, that it "
            "had, and drain it; then change it.",
            epoch=beginning.epoch,
        )
    senders = Counter(share.stage for share in shares)
    writes = [pipelines[share.stage].exchange is None for share in shares]
    made = []
    for index, share in enumerate(shares):
        reading = receiving = None
        if share.stage < len(definition.streams):
            reading = _reading(definition, share, beginning)
        else:
            receiving = Receiving(
                pipeline=pipelines[share.stage],
                senders=senders,
                discards=not beginning.done.isdisjoint(share.names),
            )
        spec = TaskSpec(
            identity=replace(identity, task=sum(writes[:index]), tasks=sum(writes)),
            index=index,
            stage=share.stage,
            share=share.place,
            reading=reading,
            receiving=receiving,
            kept=_kept(definition, share, beginning),
            writing=Writing(
                writer=definition.sink.writer,
                on_bad_record=options.on_bad_record,
                letters=definition.sink.letters,
                keeps_late=options.on_late_record == DEAD_LETTER,
            ),
            first_epoch=beginning.epoch,
            is_bounded=beginning.until is not None,
            groups=groups,
            exchanges=any(pipeline.exchange is not None for pipeline in pipelines),
            time=beginning.time,
            silence_max_s=options.task_timeout_s,
            query=definition.name,
        )
        made.append(spec)
    return made


def _kept(definition: QueryDefinition, share: Share, beginning: Beginning) -> Kept | None:
    if definition.pipelines[share.stage].kept is None:
        return None
    return Kept(
        owned=share.owned,
        storage=definition.checkpoint.storage,
        restored=tuple(h for h in beginning.handles if h.stage == share.stage),
        memory_max_bytes=definition.options.state_memory_max_bytes,
        spill_after_bytes=definition.options.state_spill_after_bytes,
        scratch=Scratch(
            definition.options.state_scratch_folder or None,
            definition.options.state_spill_after_bytes or None,
        ),
    )


def _reading(definition: QueryDefinition, share: Share, beginning: Beginning) -> Reading:
    stream = definition.streams[share.stage]
    return Reading(
        reader=stream.reader,
        partitions=share.partitions,
        pipeline=stream.pipeline,
        first_partition=share.first,
        source=stream.description,
        until=None if beginning.until is None else beginning.until[share.stage],
        done=share.numbers_of(beginning.done),
        tells_arrivals=definition.options.empty_epoch_interval_ms > 0,
        tells_commits=definition.tells_sources,
    )
