"""Copy: fork a checkpoint, so that another query goes on from where this one is.

::

    control/copy    {"source":...,"source_id":...,"to_epoch":7,"query_id":...,"asked_by":...}
    offsets/<epoch>  commits/<epoch>    the last epochs up to ``to_epoch``, as they are
    sources/  state/                    what is kept beside the logs: Spark's files, and those of
                                       the snapshots that these epochs need
    metadata        {"id":"<a new id>"}, last: without it no query starts here

The query may run, be pruned and be rewound meanwhile: the entries are read before anything is
written, and again if it was rewound in between. An entry that retention takes while they are read,
or while the state is copied, ends the copy's history there: an entry is copied behind the state
that it needs, and retention removes it first.

Left behind: the lease and requests, the fingerprint (the copy's query writes its own, to a sink of
its own), prepared epochs, progress, the history, pins, and what rewinds have moved. The sink's rows
are not copied: the copy's query writes what comes after ``to_epoch``.

A copy that was interrupted is no checkpoint yet; the same call goes on with it.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final

from engine.base.daemon_threads import together
from engine.base.json_text import dump
from engine.checkpoint.copy_record import CopyRecord, read_copy
from engine.checkpoint.first_offsets import is_first_offset
from engine.checkpoint.folder import COPY_RECORD
from engine.checkpoint.noted_state import noted_in
from engine.checkpoint.retention import KEEP_EPOCHS_DEFAULT
from engine.checkpoint.rewind import read_intent
from engine.checkpoint.rewound import last_rewind
from engine.checkpoint.storage.contract import Storage
from engine.checkpoint.whose_state import refuse_lone_batch, version_of_spark
from engine.errors import CheckpointError, ConfigError, ContinuousError
from engine.snapshots.names import FOLDER as STATE
from engine.snapshots.names import SnapshotName
from engine.snapshots.retention import removable

if TYPE_CHECKING:
    from engine.checkpoint.checkpoint import Checkpoint

_METADATA = "metadata"
_TREES = ("sources", STATE)
_TRIES_MAX = 5
_TOGETHER_BYTES: Final = 64 << 20


@dataclass(frozen=True)
class CopyReport:
    """What was copied.

    :param source: where from; ``source_id`` is the id of its query, if it has one.
    :param target: where to; ``query_id`` is its own.
    :param from_epoch: the oldest epoch in the copy's logs.
    :param to_epoch: the newest; the copy's query goes on behind it.
    :param files: so many were copied by this call; ``bytes`` is their size.
    :param left_behind: what the copy does not have.
    """

    source: str
    source_id: str | None
    target: str
    query_id: str
    from_epoch: int
    to_epoch: int
    files: int
    bytes: int
    left_behind: str = (
        "the sink's rows, prepared epochs, lease, requests, fingerprint, progress, history, pins"
    )

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)


def copy_checkpoint(
    source: Checkpoint,
    target: Checkpoint,
    to_epoch: int | None = None,
    *,
    asked_by: str | None = None,
) -> CopyReport:
    """Fork a checkpoint, of this engine or of Spark itself, while its query runs or not.

    :param target: does not exist yet, or is this very copy, interrupted.
    :param to_epoch: a committed epoch, the last in the copy; None: the last committed one.
    :param asked_by: who asks, if a second call is to find what the first has made: it returns the
        copy that was made for the same asker.
    :raises ConfigError: there is something at the target, or the epoch is not there, or is the
        oldest that is kept of a query of Spark's.
    :raises CheckpointError: an entry is unreadable, or the storage cannot be read or written.
    """
    _check_apart(source, target)
    known = read_copy(target)
    if known is None and target.storage.files_below(""):
        raise _target_exists(target)
    if known is not None:
        if known.source != source.url or to_epoch not in (None, known.to_epoch):
            raise _target_exists(target)
        there = target.query_id()
        if there is not None:
            if there != known.query_id or asked_by is None or asked_by != known.asked_by:
                raise _target_exists(target)
            return _report(known, target, min(target.epochs(), default=known.to_epoch))
        to_epoch = known.to_epoch
    entries = _consistent_entries(source, to_epoch)
    to_epoch = max(epoch for epoch, _, _ in entries)
    refuse_lone_batch(source, to_epoch, entries[0][1], has_earlier=len(entries) > 1)
    record = known or CopyRecord(
        source.url, source.query_id(), to_epoch, str(uuid.uuid4()), asked_by
    )
    if known is None and not target.storage.create(COPY_RECORD, dump(asdict(record)).encode()):
        raise _target_exists(target)  # another copy has just begun
    writer = _Writer(target)
    unneeded = _unneeded_state(source, entries)
    for tree in _TREES:
        _copy_tree(source, writer, tree, to_epoch, unneeded)
    entries = _still_there(source, entries)
    _check_still_there(source, *entries[0])
    writer.write(*((f"{target.offsets.name}/{epoch}", offsets) for epoch, offsets, _ in entries))
    writer.write(*((f"{target.commits.name}/{epoch}", commit) for epoch, _, commit in entries))
    writer.write((_METADATA, dump({"id": record.query_id}).encode()))
    oldest = min(epoch for epoch, _, _ in entries)
    return _report(record, target, oldest, writer.files, writer.bytes)


def _report(
    record: CopyRecord, target: Checkpoint, from_epoch: int, files: int = 0, size: int = 0
) -> CopyReport:
    return CopyReport(
        source=record.source,
        source_id=record.source_id,
        target=target.url,
        query_id=record.query_id,
        from_epoch=from_epoch,
        to_epoch=record.to_epoch,
        files=files,
        bytes=size,
    )


# -- reading --------------------------------------------------------------------------------------


def _consistent_entries(source: Checkpoint, to_epoch: int | None) -> list[tuple[int, bytes, bytes]]:
    """Epoch, entry of the offset log, entry of the commit log; newest first, without a gap."""
    for _ in range(_TRIES_MAX):
        before = last_rewind(source.storage)
        rewinding = read_intent(source)
        if rewinding is not None and (to_epoch is None or to_epoch > rewinding.to_epoch):
            raise CheckpointError(
                f"{source.url} is being rewound to epoch {rewinding.to_epoch}.",
                hint="Copy it when the rewind is over; if that cannot be finished, copy it up to "
                f"epoch {rewinding.to_epoch} (--to-epoch).",
                epoch=rewinding.to_epoch,
            )
        last = source.committed_epoch() if to_epoch is None else to_epoch
        entries = _entries(source, last)
        if (last_rewind(source.storage), read_intent(source)) != (before, rewinding):
            continue
        if entries:
            return entries
        if to_epoch is not None or last < 0:
            raise _not_committed(source, last)
    raise CheckpointError(
        f"{source.url} changed all the time while it was read.", hint="Copy it again."
    )


def _entries(source: Checkpoint, last: int) -> list[tuple[int, bytes, bytes]]:
    entries: list[tuple[int, bytes, bytes]] = []
    wanted = range(last, max(-1, last - KEEP_EPOCHS_DEFAULT), -1)
    at_once = source.storage.at_once_max
    for start in range(0, len(wanted), at_once):
        some = wanted[start : start + at_once]
        for entry in source.storage.together(*(partial(_entry, source, each) for each in some)):
            if isinstance(entry, ContinuousError):
                raise entry
            if entry is None:
                return entries
            entries.append(entry)
    return entries


def _entry(source: Checkpoint, epoch: int) -> tuple[int, bytes, bytes] | ContinuousError | None:
    """None: it is not there. An error is told: it may be of one behind a gap."""
    try:
        # Read as entries too: a damaged one is not copied.
        if source.commits.get(epoch) is None or source.offsets.get(epoch) is None:
            return None
        offsets, commit = (
            source.storage.read(f"{log.name}/{epoch}") for log in (source.offsets, source.commits)
        )
    except FileNotFoundError:
        return None
    except ContinuousError as error:
        return error
    return epoch, offsets, commit


def _unneeded_state(source: Checkpoint, entries: Sequence[tuple[int, bytes, bytes]]) -> set[str]:
    """The snapshots that none of the entries needs."""
    names = [f"{STATE}/{name}" for name in source.storage.files_below(STATE)]
    oldest, offsets, _ = entries[-1]
    return set(removable(names, oldest, noted_in(offsets)))


def _still_there(
    source: Checkpoint, entries: list[tuple[int, bytes, bytes]]
) -> list[tuple[int, bytes, bytes]]:
    """Those whose state retention has left alone, or that never had any; without a gap."""
    if not any(noted_in(offsets) for _, offsets, _ in entries):
        return entries
    kept = set(source.commits.ids())
    last, *earlier = entries
    return [last, *takewhile(lambda each: each[0] in kept, earlier)]


def _check_still_there(source: Checkpoint, epoch: int, offsets: bytes, commit: bytes) -> None:
    """What is kept for an epoch is there as long as the epoch is in the logs; behind a rewind there
    may be another one of its number."""
    logged = ((source.offsets, offsets), (source.commits, commit))
    with suppress(FileNotFoundError):
        if all(source.storage.read(f"{log.name}/{epoch}") == entry for log, entry in logged):
            return
    kept = (f"{tree}/{name}" for tree in _TREES for name in source.storage.files_below(tree))
    if not all(map(is_first_offset, kept)):
        raise CheckpointError(
            f"{source.url} has dropped epoch {epoch} while it was copied.",
            hint="Remove the unfinished copy, and copy a later epoch.",
            epoch=epoch,
        )


# -- writing --------------------------------------------------------------------------------------


class _Writer:
    def __init__(self, target: Checkpoint) -> None:
        self._storage = target.storage
        self.files = self.bytes = 0

    def write(self, *files: tuple[str, bytes]) -> None:
        """Again, if the copy goes on, and then they must be the same."""
        self._count(self._storage.together(*(partial(self._write, *file) for file in files)))

    def copy(self, source: Storage, sizes: Mapping[str, int]) -> None:
        """Likewise files of another storage, in order; what is not there is left out."""

        def copy(name: str) -> int | None:
            try:
                data = source.read(name)
            except FileNotFoundError:  # no longer needed since the listing
                return None
            return self._write(name, data)

        at_once = max(source.at_once_max, self._storage.at_once_max)
        for some in _parts(sizes, at_once):
            self._count(together([partial(copy, name) for name in some], at_once))

    def _write(self, name: str, data: bytes) -> int:
        if not self._storage.create(name, data) and self._storage.read(name) != data:
            raise ConfigError(
                f"{self._storage.path(name)} holds something else than what is copied.",
                hint="The unfinished copy there is another one: remove it, and copy again.",
            )
        return len(data)

    def _count(self, sizes: Sequence[int | None]) -> None:
        written = [size for size in sizes if size is not None]
        self.files += len(written)
        self.bytes += sum(written)


def _parts(sizes: Mapping[str, int], at_once: int) -> Iterator[Sequence[str]]:
    """The names, in order, in parts that are in memory together: a large file alone."""
    some: list[str] = []
    room = _TOGETHER_BYTES
    for name, size in sizes.items():
        if some and (size > room or len(some) >= at_once):
            yield some
            some, room = [], _TOGETHER_BYTES
        some.append(name)
        room -= size
    if some:
        yield some


def _copy_tree(
    source: Checkpoint, writer: _Writer, tree: str, to_epoch: int, unneeded: Collection[str]
) -> None:
    wanted = {}
    for name, size in sorted(source.storage.files_below(tree).items()):
        base = name.rpartition("/")[2]
        version = version_of_spark(base)
        # Later ones are not copied: the copy's query would take them for the state that its own
        # epochs have made.
        if tree == STATE and version is not None and version > to_epoch + 1:
            continue
        snapshot = SnapshotName.parse(f"{tree}/{name}")
        if snapshot is not None and (snapshot.epoch > to_epoch or str(snapshot) in unneeded):
            continue
        if base.startswith(".") and base.endswith((".tmp", ".crc")):
            continue  # half-written files, and checksums of files, which Hadoop can do without
        wanted[f"{tree}/{name}"] = size
    writer.copy(source.storage, wanted)


def _check_apart(source: Checkpoint, target: Checkpoint) -> None:
    one, other = (f"{each.url.rstrip('/')}/" for each in (source, target))
    if one.startswith(other) or other.startswith(one):
        raise ConfigError(
            f"{source.url} cannot be copied to {target.url}: one is inside of the other.",
            hint="Choose a folder of its own for the copy.",
        )


def _target_exists(target: Checkpoint) -> ConfigError:
    return ConfigError(
        f"There is something at {target.url} already.",
        hint="Choose another folder for the copy, or remove that one.",
    )


def _not_committed(source: Checkpoint, epoch: int) -> ConfigError:
    kept: Sequence[int] = source.epochs()
    listed = f"{kept[0]} to {kept[-1]}" if kept else "none"
    return ConfigError(
        f"Epoch {epoch} is not among the committed epochs that {source.url} has kept."
        if epoch >= 0
        else f"{source.url} has no committed epoch yet: there is nothing to go on from.",
        hint=f"Available: {listed}.",
        epoch=epoch,
    )
