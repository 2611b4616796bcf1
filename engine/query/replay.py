"""``replay_epoch()``: what came into an epoch, what each step made of it, and what went out.

The records are read again, exactly those of the epoch, beside the query if it runs; neither its
sink nor its checkpoint is touched. The pipeline is that of the query which is given, for a
checkpoint holds none; another one may stand beside it, and is run on the same records.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

import pyarrow as pa

from engine.base.text_tables import count
from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.epoch_state import EpochState
from engine.checkpoint.fingerprint_file import read_fingerprint
from engine.checkpoint.first_offsets import first_offsets_folder
from engine.checkpoint.logs.offset_log import OffsetEntry
from engine.errors import BadRecordError, ConfigError, SourceChangedError, SourceError
from engine.execution.replay import ReplayedEpoch, checkpoint_before, replay
from engine.pipeline.fingerprint import compare, fingerprint, without_tuning
from engine.pipeline.identity import Change
from engine.query.planned import PlannedQuery, plan_request
from engine.query.replay_notes import notes_on
from engine.query.replay_text import describe_epoch, describe_out, describe_rows, epoch_to_dict
from engine.query.row_difference import RowDifference, difference
from engine.query.stateful_start import shuffle_partitions
from engine.query.write_request import DEFAULT_INTERVAL, pop_storage
from engine.query.writer import ContinuousStreamWriter

ROWS: Final = 20
"""So many rows are shown of each step."""
_NO_LOSS: Final[Mapping[str, str]] = MappingProxyType(
    {"failondataloss": "true", "ignoremissingfiles": "false"}
)
"""Records that are gone are never passed over: it would be another epoch."""
_OPEN: Final = (
    "It is open, as that of a record which the query fails on is. With onBadRecord=dead-letter "
    "such a record is put aside, and `continuous dead-letters CHECKPOINT` shows it."
)


@dataclass(frozen=True)
class EpochReplay:
    """What came of it; ``print()`` shows it.

    :param epoch: what the query did.
    :param changed: what the changed one did, if there is one.
    :param difference: of what went out of the two.
    :param notes: why it need not be what the epoch was.
    :param rows: so many are shown of each step.
    """

    epoch: ReplayedEpoch
    changed: ReplayedEpoch | None
    difference: RowDifference | None
    notes: tuple[str, ...]
    rows: int = ROWS

    @property
    def out(self) -> pa.Table:
        """The first rows that went out; all of them if there is a changed query."""
        return self.epoch.out

    def to_dict(self) -> dict[str, object]:
        """As JSON."""
        told: dict[str, object] = {**epoch_to_dict(self.epoch, self.rows), "notes": [*self.notes]}
        if self.changed is not None and self.difference is not None:
            found = self.difference
            told["changed"] = epoch_to_dict(self.changed, self.rows)
            told["difference"] = {
                "only_before": describe_rows(found.only_before, self.rows),
                "only_after": describe_rows(found.only_after, self.rows),
                "columns_before": list(found.columns_before),
                "columns_after": list(found.columns_after),
            }
        return told

    def __str__(self) -> str:
        parts = [describe_epoch(self.epoch, self.rows)]
        if self.changed is not None and self.difference is not None:
            parts.append("== The changed query ==\n" + describe_epoch(self.changed, self.rows))
            parts.append("== The difference ==\n" + describe_out(self.difference, self.rows))
        return "\n\n".join([*parts, *(f"Note: {note}" for note in self.notes)])


def replay_epoch(
    checkpoint: str | Checkpoint,
    epoch: int,
    query: ContinuousStreamWriter,
    *,
    changed: ContinuousStreamWriter | Callable[[], ContinuousStreamWriter] | None = None,
    rows: int = ROWS,
) -> EpochReplay:
    """Run an epoch again, in this process.

    :param checkpoint: its location; or an open one.
    :param epoch: one that is committed, or the next one if its end is logged.
    :param query: the query, as it was when it ran the epoch: ``write_stream(df)``, not started. Its
        sink and its own checkpoint location are not looked at.
    :param changed: another query over the same sources, to be compared; or what builds it, called
        when ``query`` has been run: two versions of a program have modules of the same names.
    :param rows: so many are kept of each step.
    :raises ConfigError: the epoch is not there, its source cannot be read again, its state is gone,
        or this is not the query of the checkpoint: says what differs.
    :raises SourceError: the source has no longer all that the epoch has read.
    :raises ContinuousError: the query fails on the epoch.
    """
    if not isinstance(checkpoint, Checkpoint):
        settings = pop_storage(dict(query.request.sink_options))
        checkpoint = Checkpoint(checkpoint, settings or None)
    planned = _planned(query)
    if not checkpoint.exists():
        raise ConfigError(
            f"There is no checkpoint at {checkpoint.url}.", hint="Check the location."
        )
    _refuse_what_is_gone(planned)
    before = _refuse_epoch(checkpoint, epoch)
    notes = _refuse_other_query(checkpoint, planned)
    _refuse_without_state(checkpoint, epoch, before, planned)
    other = None
    if isinstance(changed, ContinuousStreamWriter):  # refused before anything is run
        other = _planned_beside(changed, planned, epoch)
    partitions = shuffle_partitions(query.request.df.sparkSession)
    found = _run(checkpoint, epoch, planned, partitions, rows, keeps_all=changed is not None)
    _compare_with_report(checkpoint, found)
    if changed is None:
        return EpochReplay(found, None, None, (*notes, *notes_on(planned.pipelines)), rows)
    if not isinstance(changed, ContinuousStreamWriter):
        other = _planned_beside(changed(), planned, epoch)
    assert other is not None, "it is planned by now"
    told = dict.fromkeys([*notes, *notes_on(planned.pipelines), *notes_on(other.pipelines)])
    then = _run(checkpoint, epoch, other, partitions, rows, keeps_all=True)
    return EpochReplay(found, then, difference(found.out, then.out), tuple(told), rows)


def _planned_beside(
    changed: ContinuousStreamWriter, planned: PlannedQuery, epoch: int
) -> PlannedQuery:
    other = _planned(changed)
    _refuse_what_is_gone(other)
    _refuse_other_records(planned, other, epoch)
    return other


def _planned(query: ContinuousStreamWriter) -> PlannedQuery:
    """Of a query that Spark runs, what the engine would make of it."""
    request = query.request
    if not query.runs_here():
        request = replace(request, trigger_kind="continuous", trigger_value=DEFAULT_INTERVAL)
    return plan_request(request, _NO_LOSS)


def _run(
    checkpoint: Checkpoint,
    epoch: int,
    planned: PlannedQuery,
    partitions: int,
    rows: int,
    *,
    keeps_all: bool,
) -> ReplayedEpoch:
    try:
        return replay(
            planned.streams,
            planned.stages,
            checkpoint_before(checkpoint.storage, epoch),
            epoch,
            planned.options,
            watermark_policy=planned.watermark_policy,
            shuffle_partitions=partitions,
            rows=rows,
            keeps_all=keeps_all,
        )
    except (BadRecordError, SourceChangedError):
        raise
    except SourceError as exc:
        if exc.retryable:
            raise
        # Its hint is for the query, which may go on without what is gone.
        raise SourceError(
            f"Epoch {epoch} of {checkpoint.url} cannot be run again: {exc.message}",
            hint="What the source does not keep cannot be replayed, whatever its options: choose a "
            "later epoch, or put back what is gone. How long records stay is the source's own "
            "setting, of a topic of Kafka retention.ms for example.",
            epoch=epoch,
        ) from exc


# -- what is refused ------------------------------------------------------------------------------


def _refuse_what_is_gone(planned: PlannedQuery) -> None:
    for stream in planned.streams:
        if not stream.reader.keepsCommitted:
            raise ConfigError(
                f"The source {stream.description} cannot be read again: it lets go of what is "
                "committed, or has one reader at a time, which is the query.",
                hint="Replay works with sources that keep their records: Kafka, Redis, files, "
                "tables of a lake, rate.",
            )


def _refuse_epoch(checkpoint: Checkpoint, epoch: int) -> OffsetEntry | None:
    """The entry of the epoch before, None of the first one."""
    kept = checkpoint.epochs()
    known = {*kept, max(kept, default=-1) + 1}.intersection(checkpoint.offsets.ids())
    found = sorted(each for each in known if each == 0 or each - 1 in kept)
    before = None if epoch == 0 else checkpoint.offsets.get(epoch - 1)
    if epoch not in found or (epoch and before is None):
        shown = f"{found[0]} to {found[-1]}" if found else "none"
        where, hint = "begins and ends", "Option minEpochsToRetain says how many a query keeps."
        if epoch == max(kept, default=-1) + 1:
            where, hint = "ends", _OPEN
        raise ConfigError(
            f"Epoch {epoch} of {checkpoint.url} cannot be run again: where it {where} is not in "
            f"the logs. Of those that are kept these can: {shown}.",
            hint=hint,
            epoch=epoch,
        )
    return before


def _refuse_other_query(checkpoint: Checkpoint, planned: PlannedQuery) -> list[str]:
    """Notes, if it cannot be told."""
    old = read_fingerprint(checkpoint.storage)
    if old is None:
        return ["The checkpoint does not tell its query: whether it was this one is not known."]
    tuning = [stream.reader.tuningOptions for stream in planned.streams]
    new = _fingerprint(planned, old["sink"]["format"])
    changes = [c for c in compare(without_tuning(old, tuning, ()), new) if not _of_sink(c)]
    if changes:
        raise ConfigError(
            f"This is not the query that {checkpoint.url} belongs to. Different: "
            f"{'; '.join(map(str, changes))}.",
            hint="Give the query as it ran the epoch; give a changed one beside it (--with).",
        )
    return []


def _refuse_other_records(planned: PlannedQuery, other: PlannedQuery, epoch: int) -> None:
    """A changed query has to read the same records, and to know what the first one remembers."""
    changes = compare(_fingerprint(planned, ""), _fingerprint(other, ""))
    unsafe = [each for each in changes if not (each.is_safe or _of_sink(each))]
    unsafe = [each for each in unsafe if each.part != "schema"]  # which is a matter of the sink
    if epoch == 0:  # nothing is remembered yet
        unsafe = [each for each in unsafe if each.part.startswith("source")]
    if unsafe:
        raise ConfigError(
            "The changed query cannot be run on this epoch: it reads something else, or remembers "
            f"something else: {'; '.join(map(str, unsafe))}.",
            hint="It may have other steps, and other columns. One that keeps other state can be "
            "run on epoch 0 alone.",
        )


def _of_sink(change: Change) -> bool:
    """Which is not there."""
    return change.part.startswith("sink")


def _fingerprint(planned: PlannedQuery, sink: str) -> dict[str, object]:
    return fingerprint(
        [(stream.pipeline, stream.reader.tuningOptions) for stream in planned.streams],
        planned.stages,
        sink_format=sink,
        sink_options={},
        sink_tuning=(),
    )


def _refuse_without_state(
    checkpoint: Checkpoint, epoch: int, before: OffsetEntry | None, planned: PlannedQuery
) -> None:
    storage = checkpoint.storage
    ends = (None,) * len(planned.streams) if before is None else before.offsets
    for number, (stream, end) in enumerate(zip(planned.streams, ends, strict=False)):
        name = f"{first_offsets_folder(number)}/0"
        if end is None and not stream.reader.keepsLog and not storage.exists(name):
            raise ConfigError(
                f"Epoch {epoch} of {checkpoint.url} cannot be run again: {name} is not there, "
                "which tells where the source began.",
                hint="Choose a later epoch.",
                epoch=epoch,
            )
    if before is None:
        return
    if not planned.stages:
        return
    handles = EpochState.of(before).handles
    gone = [each.file for each in handles if each.file and not storage.exists(each.file)]
    if gone or not handles:
        why = f"{gone[0]} is gone" if gone else f"epoch {epoch - 1} has none"
        raise ConfigError(
            f"Epoch {epoch} of {checkpoint.url} cannot be run again without the state that the "
            f"query had before it: {why}.",
            hint="Choose a later epoch.",
            epoch=epoch,
        )


def _compare_with_report(checkpoint: Checkpoint, found: ReplayedEpoch) -> None:
    """A source may have lost records without knowing of it."""
    for report in checkpoint.progress.read():
        is_ours = "latencyMs" in report  # Spark counts what its source has not left out itself
        read = report.get("numInputRows", found.rows_read)
        if is_ours and report.get("batchId") == found.epoch and read != found.rows_read:
            raise SourceError(
                f"Epoch {found.epoch} has read {count(read, 'record')}, and its source has "
                f"{found.rows_read:,} now: they were changed or removed since.",
                hint="What the source does not keep cannot be replayed.",
                epoch=found.epoch,
            )
