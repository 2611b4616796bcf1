"""Rewind: take a query back to an epoch that it has committed.

::

    control/rewind                        what is being done, until it is done
    control/rewound                       the last one that was done
    rewound/<generation>/offsets/<epoch>  the entries behind that epoch: moved, never deleted
    rewound/<generation>/commits/<epoch>
    rewound/<generation>/prepared/<epoch>
    rewound/<generation>/pins/<name>      the pins of such epochs

The lease is held all the time, so no run can start, and the steps are these:

1. write ``control/rewind``: from now on the rewind will be finished, by the next rewind or by the
   next start of the query, whoever comes first;
2. put the entries of the epoch back if retention has removed them since it was pinned, offsets
   before commit;
3. move the later entries of the commit log, newest first;
4. tell the sink: ``writer.rewind(epoch)``;
5. move the later entries of the offset log and then of the prepared log, newest first;
6. drop the later progress reports, mark the history; move the pins of later epochs; write
   ``control/rewound``, delete ``control/rewind``.

Snapshots of state stay where they are: the entries of later epochs alone name those that the epoch
does not need, and those of the runs behind the rewind have other names. Spark's have not: where it
keeps state of later epochs, a rewind is refused. So it is where Spark has run them and the sink is
not known to forget their numbers: Spark's sinks skip batches that they have.

Each step can be done again. Nor does a reader that knows nothing of rewinds meet a state that is
wrong: until step 5 is over, the restart table finds epochs that are logged and prepared, and
commits them again; a pinned epoch is a gap to it, which it refuses. A run from before the rewind
may wake up behind it, in the middle of a write: :mod:`engine.coordinator.late_entries`.

What a stream writer has to offer for it: :mod:`engine.checkpoint.rewindable`.
"""

from __future__ import annotations

import logging
import uuid
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from engine.base.clock import Clock
from engine.base.json_text import JSON, dump, load_object
from engine.checkpoint.copy_record import read_copy
from engine.checkpoint.folder import CheckpointFolder
from engine.checkpoint.lease import Lease
from engine.checkpoint.logs.metadata_log import MetadataLog
from engine.checkpoint.noted_state import noted_in
from engine.checkpoint.pins import FOLDER as PINS
from engine.checkpoint.pins import Pin, committed_entries, move_later_pins, not_available
from engine.checkpoint.query_state import QueryState
from engine.checkpoint.rewindable import RewindableSink
from engine.checkpoint.rewound import DONE, INTENT, read_rewound
from engine.checkpoint.sink_context import BoundContext, Inherited
from engine.checkpoint.storage.contract import Storage
from engine.checkpoint.whose_state import (
    refuse_lone_batch,
    refuse_sparks_later_batches,
    refuse_sparks_later_state,
)
from engine.errors import (
    CheckpointCorruptError,
    ConcurrentRunError,
    ConfigError,
    ContinuousError,
    SinkUnavailableError,
)
from engine.history.folding import Mark

logger = logging.getLogger(__name__)

ASIDE = "rewound"
# One step may take this long times the intervals of a lease: a sink may have much to take back.
_HEARTBEAT_MS = 3_000


@dataclass(frozen=True)
class RewindReport:
    """What was done.

    :param from_epoch: the last committed epoch before, -1 if there was none.
    :param generation: of the lease that the rewind took: later runs have higher ones.
    :param aside: where the later entries are now.
    :param taken_back: False: the sink keeps its rows, and they will be written again, as repeats or
        over what was upserted.
    """

    to_epoch: int
    from_epoch: int
    generation: int
    aside: str
    taken_back: bool

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Intent:
    """``control/rewind``.

    :param offsets: the epoch's entry in the offset log; ``commit`` that in the commit log.
    :param reach: see :class:`engine.checkpoint.rewound.Rewound`.
    :param take_back: the sink takes the later rows back, to this ``position`` if it gave one.
    """

    to_epoch: int
    from_epoch: int
    generation: int
    offsets: str
    commit: str
    take_back: bool
    position: JSON = None
    reach: int | None = None


def rewind(
    checkpoint: CheckpointFolder,
    target: int | Pin,
    *,
    sink: Any = None,
    accept_repeats: bool = False,
    expected_epoch: int | None = None,
    clock: Clock | None = None,
) -> RewindReport:
    """Take a query that does not run back to the end of an epoch.

    :param target: the epoch, or a pin.
    :param sink: its stream writer, to take the rows of later epochs back.
    :param accept_repeats: go on with a sink that cannot: it gets those rows again.
    :param expected_epoch: the last committed one when the caller looked; None: whichever it is.
    :raises ConfigError: the epoch is not there, or the sink cannot take back; nothing has changed.
    :raises ConcurrentRunError: a run holds the checkpoint, or has committed since the caller
        looked, or another rewind was done.
    :raises ContinuousError: it failed in between; call it again, or start the query.
    """
    offer = RewindableSink.of(sink)

    def check() -> Pin:
        _check_expected(checkpoint, expected_epoch)
        return _check(checkpoint, target, offer, accept_repeats)

    if read_intent(checkpoint) is None:  # else finish that rewind first: entries are being moved
        check()
    lease = Lease.acquire(
        checkpoint,
        run_id=str(uuid.uuid4()),
        heartbeat_interval_ms=_HEARTBEAT_MS,
        clock=clock,
    )
    try:
        bind(checkpoint, lease, offer)
        if finish_rewind(checkpoint, lease, offer):
            bind(checkpoint, lease, offer)
        pin = check()
        committed = checkpoint.committed_epoch()
        earlier = read_rewound(checkpoint.storage)
        if earlier is not None and pin.epoch in earlier.taken_back:
            _check_commit(checkpoint, pin.epoch, earlier.generation)
        intent = Intent(
            to_epoch=pin.epoch,
            from_epoch=committed,
            generation=lease.generation,
            offsets=pin.offsets,
            commit=pin.commit,
            take_back=offer.rewind is not None,
            position=pin.sink_position,
            reach=max(_newest(checkpoint) + 1, -1 if earlier is None else earlier.reach),
        )
        lease.check()
        checkpoint.storage.replace(INTENT, dump(asdict(intent)).encode())
        _check_kept(checkpoint, pin, lease)
        finish_rewind(checkpoint, lease, offer)
    except BaseException as exc:
        lease.release(QueryState.FAILED, error=f"The rewind failed: {exc}", cause=exc)
        raise
    lease.release(QueryState.STOPPED)
    return RewindReport(
        to_epoch=intent.to_epoch,
        from_epoch=intent.from_epoch,
        generation=intent.generation,
        aside=checkpoint.storage.path(f"{ASIDE}/{intent.generation}"),
        taken_back=intent.take_back and not offer.keeps_rows,
    )


def bind(checkpoint: CheckpointFolder, lease: Lease, sink: RewindableSink) -> None:
    """Tell a sink that wants to know whose epochs it has, as the run that holds the lease."""
    if sink.bind is not None:
        sink.bind(sink_context(checkpoint, lease))


def _newest(checkpoint: CheckpointFolder) -> int:
    """The last epoch that a run has written an entry of; a sink may commit several together."""
    logs = (checkpoint.commits, checkpoint.offsets, checkpoint.prepared)
    return max(each.latest_id() or 0 for each in logs)


def finish_rewind(checkpoint: CheckpointFolder, lease: Lease, sink: Any) -> bool:
    """Do the steps from 2 on of a rewind that has begun, if one has.

    :param sink: as for :func:`rewind`; bound, if it wants to be.
    :returns: whether this was done: then its timeline is over, and the sink is to be bound anew.
    :raises ConfigError: the sink of the rewind could take rows back, and this one cannot.
    """
    storage, intent = checkpoint.storage, read_intent(checkpoint)
    if intent is None:
        return False
    earlier = read_rewound(storage)
    if earlier is not None and earlier.generation > intent.generation:
        # The late write of a rewind that was suspended in it, while another one was done.
        lease.check()
        storage.delete(INTENT)
        return False
    take_back = RewindableSink.of(sink).rewind
    if intent.take_back and take_back is None:
        raise ConfigError(
            f"A rewind of {checkpoint.url} to epoch {intent.to_epoch} was interrupted, and this "
            "sink cannot finish it: it cannot take rows back.",
            hint="Start the query with the sink that it had, or rewind again with that one.",
            epoch=intent.to_epoch,
        )
    logger.info("rewinding %s to epoch %d", checkpoint.url, intent.to_epoch)
    epoch = intent.to_epoch
    lease.heartbeat(epoch=epoch)
    # Step 2: who slept meanwhile may find them removed by those who went on.
    put_back = {checkpoint.offsets.name: intent.offsets, checkpoint.commits.name: intent.commit}
    for name, entry in put_back.items():
        lease.check()
        storage.create(f"{name}/{epoch}", entry.encode())
    # Step 3: commits before their offsets, as everywhere.
    _move_later(checkpoint.commits, intent, lease)
    # Step 4
    lease.check()
    if intent.take_back and take_back is not None:
        try:
            take_back(epoch, *_position(intent.position))
        except ContinuousError:
            raise
        except Exception as exc:
            raise SinkUnavailableError(
                f"The sink failed to take back what is behind epoch {epoch}: "
                f"{type(exc).__name__}: {exc}",
                epoch=epoch,
                hint="Rewind again, or start the query: the rewind goes on where it was.",
            ) from exc
    # Step 5
    _move_later(checkpoint.offsets, intent, lease)
    _move_later(checkpoint.prepared, intent, lease)
    # Step 6: nothing of what was moved comes back once the intent is gone.
    for log in (checkpoint.commits, checkpoint.offsets, checkpoint.prepared):
        storage.sync(log.name)
    reports = checkpoint.progress.read()
    kept = [report for report in reports if report.get("batchId", -1) <= epoch]
    if kept != reports:
        checkpoint.progress.write(kept)
    text = f"from epoch {intent.from_epoch} back to the end of epoch {epoch}"
    checkpoint.history.mark(Mark(lease.record.heartbeat_at_ms, "rewound", text))
    move_later_pins(storage, epoch, f"{ASIDE}/{intent.generation}")
    lease.check()
    storage.replace(DONE, dump(asdict(intent)).encode())
    storage.delete(INTENT)
    return True


def sink_context(checkpoint: CheckpointFolder, lease: Lease) -> BoundContext:
    """What a sink is told of the run that holds the lease; of a rewind once it is finished: until
    then the sink is asked about the timeline that it takes back."""
    storage = checkpoint.storage
    query_id, prepared, intent, rewound = storage.together(
        checkpoint.query_id,
        checkpoint.prepared.ids,
        partial(read_intent, checkpoint),
        partial(read_rewound, storage),
    )
    inherited = None
    if not prepared and intent is None and rewound is None:
        copied = read_copy(checkpoint)
        source = None if copied is None else copied.source_id
        inherited = Inherited(source, max(checkpoint.offsets.ids(), default=-1))
    return BoundContext(
        query_id=query_id or "",
        run_id=lease.run_id,
        generation=lease.generation,
        timeline=0 if rewound is None else rewound.generation,
        inherited=inherited,
    )


def was_rewound(checkpoint: CheckpointFolder) -> bool:
    """Whether a rewind of this checkpoint was ever finished."""
    return checkpoint.storage.exists(DONE)


def find_target(checkpoint: CheckpointFolder, target: int | Pin) -> Pin:
    """The epoch with its entries, as a pin of no name unless it is one.

    :raises ConfigError: it is not there, or the state behind it is not.
    """
    if isinstance(target, Pin):
        pin = target
        _check_pin(checkpoint, pin)
    else:
        pin = Pin("", target, 0, *committed_entries(checkpoint, target))
    _check_state(checkpoint, pin)
    return pin


def check_later(checkpoint: CheckpointFolder, pin: Pin, sink: RewindableSink) -> None:
    """Look whether what later epochs have left elsewhere would hinder those that run again.

    :raises ConfigError: the sink does not find the epoch again, or Spark keeps what is later.
    """
    refuse_sparks_later_state(checkpoint, pin.epoch)
    refuse_sparks_later_batches(checkpoint, pin.epoch, sink.has_batch)
    earlier = f"{checkpoint.offsets.name}/{pin.epoch - 1}"
    has_earlier = checkpoint.storage.exists(earlier)
    refuse_lone_batch(checkpoint, pin.epoch, pin.offsets.encode(), has_earlier=has_earlier)
    if sink.check is not None:
        sink.check(pin.epoch, *_position(pin.sink_position))


def _check_expected(checkpoint: CheckpointFolder, expected: int | None) -> None:
    """:raises ConcurrentRunError: another epoch is the last committed one."""
    if expected is not None and (committed := checkpoint.committed_epoch()) != expected:
        raise ConcurrentRunError(
            f"The query is now at epoch {committed}, the preview was of epoch {expected}.",
            hint="Look at it again: it has gone on since, or was rewound by somebody else.",
            epoch=committed,
        )


def _check(
    checkpoint: CheckpointFolder, target: int | Pin, sink: RewindableSink, accept_repeats: bool
) -> Pin:
    """The epoch with its entries.

    :raises ContinuousError: the rewind is not possible.
    """
    pin = find_target(checkpoint, target)
    check_later(checkpoint, pin, sink)
    if sink.rewind is not None:
        return pin
    if sink.remembers:
        raise ConfigError(
            "The sink remembers the epochs that it has and cannot take them back: after a rewind "
            "it would refuse the query.",
            hint="Start a new query with a new sink, from this checkpoint's offsets.",
        )
    if not accept_repeats:
        raise ConfigError(
            "The sink cannot take back the rows of later epochs, or it is not known which sink the "
            "query has: after a rewind those rows would be in it twice.",
            hint="Name the query with --spec if its sink can take rows back. If the rows may "
            "repeat, or you have removed them yourself, accept that: --accept-repeats.",
        )
    return pin


def _check_pin(checkpoint: CheckpointFolder, pin: Pin) -> None:
    """:raises ConfigError: the query does not come from the pinned epoch: it was rewound to an
    earlier one since."""
    committed = checkpoint.committed_epoch()
    try:
        logged = checkpoint.offsets.text_of(pin.epoch)
    except FileNotFoundError:
        logged = pin.offsets  # removed by retention
    if pin.epoch <= committed and logged == pin.offsets:
        return
    reason = (
        f"the last committed epoch is {committed} now"
        if pin.epoch > committed
        else "the query has committed other offsets under that number since"
    )
    raise ConfigError(
        f"The pin {pin.name!r} is at epoch {pin.epoch}, and {reason}: the query was rewound to "
        "before the pin.",
        hint=f"Remove it: python -m engine unpin {checkpoint.url} {pin.name}",
        epoch=pin.epoch,
    )


def _check_state(checkpoint: CheckpointFolder, pin: Pin) -> None:
    """:raises ConfigError: the state behind the epoch is not there."""
    for handle in noted_in(pin.offsets):
        if handle.file is not None and not checkpoint.storage.exists(handle.file):
            raise ConfigError(
                f"The state behind epoch {pin.epoch} is not there: "
                f"{checkpoint.storage.path(handle.file)} is missing.",
                hint="Restore the file from a copy of the checkpoint, or choose another epoch.",
                epoch=pin.epoch,
            )


def _check_kept(checkpoint: CheckpointFolder, pin: Pin, lease: Lease) -> None:
    """Retention heeds the intent, and removes entries before their state: was the intent too late?

    :raises ConfigError: it was, and is gone again.
    """
    if not noted_in(pin.offsets):
        return
    exists = checkpoint.storage.exists
    is_pinned = bool(pin.name) and exists(f"{PINS}/{pin.name}")
    if not is_pinned and not exists(f"{checkpoint.commits.name}/{pin.epoch}"):
        lease.check()
        checkpoint.storage.delete(INTENT)
        raise not_available(checkpoint, pin.epoch)


def _check_commit(checkpoint: CheckpointFolder, epoch: int, rewound_by: int) -> None:
    """:raises ConfigError: the entry is the late write of a run that slept through an earlier
    rewind (:mod:`engine.coordinator.late_entries`): who has prepared the epoch since has not
    committed it."""
    commit = checkpoint.commits.get(epoch)
    prepared = checkpoint.prepared_heads.get(epoch)
    told = None if commit is None else commit.generation
    since = prepared is not None and prepared.generation > rewound_by
    if since and (told is None or told <= rewound_by):
        raise ConfigError(
            f"Epoch {epoch} is not committed: its entry is of a run from before the last rewind.",
            hint="Start the query once: it finishes the epoch. Or rewind to an earlier one.",
            epoch=epoch,
        )


def read_intent(checkpoint: CheckpointFolder) -> Intent | None:
    try:
        data = checkpoint.storage.read(INTENT)
    except FileNotFoundError:
        return None
    try:
        return Intent(**load_object(data))
    except (ValueError, TypeError) as exc:
        raise CheckpointCorruptError(
            f"{checkpoint.storage.path(INTENT)} cannot be read: {exc}.",
            hint="Restore the checkpoint from a copy.",
        ) from exc


def _move_later(log: MetadataLog[Any], intent: Intent, lease: Lease) -> None:
    for epoch in reversed(log.ids()):
        if epoch > intent.to_epoch:
            lease.heartbeat()
            name = f"{log.name}/{epoch}"
            log.storage.move(name, _place_aside(log.storage, name, intent, lease))


def _place_aside(storage: Storage, name: str, intent: Intent, lease: Lease) -> str:
    """Where an entry is moved to. If the rewind was interrupted, another entry of this name may
    have been moved before: this one is the late write of a run that was suspended in it."""
    place = f"{ASIDE}/{intent.generation}/{name}"
    try:
        if storage.read(place) != storage.read(name):
            place = f"{ASIDE}/{lease.generation}/{name}"
    except FileNotFoundError:
        pass
    return place


def _position(position: JSON) -> tuple[JSON, ...]:
    return () if position is None else (position,)
