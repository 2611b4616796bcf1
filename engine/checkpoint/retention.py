"""Retention: which entries of the logs may go, and deleting them.

Nothing that a restart could need ever goes: the last two committed epochs, and everything newer
than the last commit, stay whatever is asked for. Entries go oldest first, a commit before its
offsets, so a crash in between leaves neither a gap nor a commit without offsets; and the newest
entries are never touched, so a running query does not notice. On an object store the commits of
some epochs go at the same time, then their offsets: a crash may leave a gap among the oldest
entries, which no restart looks at and the next time removes. After a rewind a gap may tell which
entries came late (:mod:`engine.checkpoint.rewound`): as long as it does, entries go one by one.

On Spark's own checkpoints the same holds for ``offsets`` and ``commits``, which Spark purges
itself; ``sources`` and ``state``, of which only Spark knows what it needs, are left alone. Our own
files in ``state`` go when no entry that is kept needs them, nor a pin, see
:mod:`engine.checkpoint.state_retention`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from engine.base.clock import Clock, SystemClock
from engine.checkpoint.logs.metadata_log import entry_id
from engine.checkpoint.rewound import INTENT, is_rewound_since, last_rewind, may_come_late
from engine.checkpoint.state_retention import removable_state, state_stages
from engine.checkpoint.storage.contract import FileInfo, checksum_twin
from engine.errors import ConfigError
from engine.snapshots.names import stage_folder

if TYPE_CHECKING:
    from engine.checkpoint.checkpoint import Checkpoint

_Told = tuple[int, int | None]
"""Of a file: its size, and the epoch that it is of."""
KEEP_EPOCHS_MIN = 2
KEEP_EPOCHS_DEFAULT = 100
LEFTOVER_AGE_S = 3600.0
# In the order of deletion within an epoch.
_LOGS = ("commits", "offsets", "prepared")
# Listed in this order. The commits first: epochs that are committed after that listing are unknown
# here, and only what is older than known ones is removed.
_FOLDERS = (
    *_LOGS, "", "progress", "pins", "control", "control/generations", "control/requests"
)  # fmt: skip
# ".7.<uuid>.tmp" of ours and of Spark, "..7.<uuid>.tmp.crc" of Hadoop.
_TEMPORARY = re.compile(r"\.(?:.+\.tmp|\..+\.tmp\.crc)")
_TWIN = re.compile(r"\.(.+)\.crc")


@dataclass(frozen=True)
class PruneReport:
    """What was removed, or would be.

    :param removed_files: checksum twins and leftover temporary files included.
    :param removed_epochs: how many epochs.
    :param kept_from: the oldest epoch that is kept; None if nothing was ever committed.
    """

    removed_files: int
    removed_bytes: int
    removed_epochs: int
    kept_from: int | None
    dry_run: bool

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)


def plan_prune(
    commits: Collection[int],
    *,
    keep_epochs: int | None = None,
    keep_from_ms: float | None = None,
    committed_at_ms: Mapping[int, float] | None = None,
    keep_bytes: int | None = None,
    sizes: Mapping[int, int] | None = None,
) -> int | None:
    """The oldest epoch that has to stay; all below may go. None: nothing may.

    An epoch stays if it is one of the last ``keep_epochs`` or was committed at ``keep_from_ms`` or
    later, and fits into ``keep_bytes`` with all that are newer. What a restart could need stays in
    any case.

    :param commits: the committed epochs.
    :param keep_epochs: at least 2; None: no such rule.
    :param committed_at_ms: when each was committed; needed for ``keep_from_ms``.
    :param keep_bytes: what the entries of all logs may take together. Without another rule, every
        epoch that fits stays.
    :param sizes: bytes of each epoch in all logs, of open ones too; needed for ``keep_bytes``.
    :raises ConfigError: ``keep_epochs`` is less than 2, or ``keep_bytes`` is negative.
    """
    if keep_bytes is not None:
        if keep_bytes < 0:
            raise ConfigError(f"keep_bytes is {keep_bytes}; a size is zero or more.")
        fitting = _fitting(commits, keep_bytes, sizes or {})
        if keep_epochs is None and keep_from_ms is None:
            return fitting
        wanted = plan_prune(
            commits,
            keep_epochs=keep_epochs,
            keep_from_ms=keep_from_ms,
            committed_at_ms=committed_at_ms,
        )
        return max((each for each in (wanted, fitting) if each is not None), default=None)
    if keep_epochs is None:
        keep_epochs = KEEP_EPOCHS_MIN
    if keep_epochs < KEEP_EPOCHS_MIN:
        raise ConfigError(
            f"keep_epochs is {keep_epochs}; a restart needs the last {KEEP_EPOCHS_MIN} epochs.",
            hint=f"Keep at least {KEEP_EPOCHS_MIN}.",
        )
    newest = sorted(commits)[-keep_epochs:]
    if len(newest) < keep_epochs:
        return None
    kept_from = newest[0]
    if keep_from_ms is not None:
        young = [
            epoch
            for epoch in commits
            if (committed_at_ms or {}).get(epoch, keep_from_ms) >= keep_from_ms
        ]
        kept_from = min([kept_from, *young])
    return kept_from


def _fitting(commits: Collection[int], keep_bytes: int, sizes: Mapping[int, int]) -> int | None:
    """The oldest committed epoch that fits with all that are newer; at least the last two."""
    newest_first = sorted(commits, reverse=True)
    if len(newest_first) < KEEP_EPOCHS_MIN:
        return None
    kept_from = newest_first[KEEP_EPOCHS_MIN - 1]
    left = keep_bytes - sum(size for epoch, size in sizes.items() if epoch >= kept_from)
    for epoch in newest_first[KEEP_EPOCHS_MIN:]:
        left -= sizes.get(epoch, 0)
        if left < 0:
            break
        kept_from = epoch
    return kept_from


def prune(
    checkpoint: Checkpoint,
    keep_epochs: int | None = None,
    keep_for_s: float | None = None,
    dry_run: bool = False,
    clock: Clock | None = None,
    keep_bytes: int | None = None,
) -> PruneReport:
    """Remove what no restart can need, and temporary files that crashes left an hour ago or more.

    Safe at any time, while the query runs too. Stops early if the query is rewound meanwhile, and
    reports what it has removed until then.

    :param keep_epochs: keep the last so many committed epochs; 100 if no rule is given.
    :param keep_for_s: keep every epoch that was committed less than so many seconds ago.
    :param dry_run: only tell what would be removed.
    :param keep_bytes: and of these, only the newest that take so many bytes together; of the
        others, if this is the only rule. The last two epochs stay however large they are.
    :raises ConfigError: ``keep_epochs`` is less than 2, or one of the others is negative.
    :raises CheckpointError: the storage cannot be read or written.
    """
    if keep_for_s is not None and keep_for_s < 0:
        raise ConfigError(f"keep_for_s is {keep_for_s}; an age is zero or more.")
    if keep_epochs is None and keep_for_s is None and keep_bytes is None:
        keep_epochs = KEEP_EPOCHS_DEFAULT
    storage, now_s = checkpoint.storage, (clock or SystemClock()).now_ms() / 1000
    rewound = last_rewind(storage)
    folders = (*_FOLDERS, *map(stage_folder, state_stages(storage)))
    found = {folder: storage.list(folder) for folder in folders}
    committed = _by_id(found["commits"])
    kept_from = plan_prune(
        committed,
        keep_epochs=keep_epochs,
        keep_from_ms=None if keep_for_s is None else (now_s - keep_for_s) * 1000,
        committed_at_ms={epoch: file.modified_s * 1000 for epoch, file in committed.items()},
        keep_bytes=keep_bytes,
        sizes=_sizes(found),
    )
    if storage.exists(INTENT):
        kept_from = None  # the epochs that were seen are being moved
    removed: dict[str, _Told] = {}
    for batch in _batches(checkpoint, kept_from, found, now_s):
        if not dry_run:
            if kept_from is not None and is_rewound_since(storage, rewound):
                kept_from = None  # the epochs that may go now are other ones
                committed = _by_id(storage.list("commits"))
                break
            storage.together(*(partial(storage.delete, name) for name in batch))
        removed.update(batch)
    return PruneReport(
        removed_files=len(removed),
        removed_bytes=sum(size for size, _ in removed.values()),
        removed_epochs=len({epoch for _, epoch in removed.values()} - {None}),
        kept_from=min(committed, default=None) if kept_from is None else kept_from,
        dry_run=dry_run,
    )


def _batches(
    checkpoint: Checkpoint,
    kept_from: int | None,
    found: Mapping[str, Collection[FileInfo]],
    now_s: float,
) -> Iterator[Mapping[str, _Told]]:
    """What may go at the same time, in the order of deletion: as many as the storage takes."""
    at_once, doomed = checkpoint.storage.at_once_max, set[str]()
    if kept_from is not None:
        no_gap = may_come_late(_by_id(found["commits"]), checkpoint.storage)
        entries_at_once = 1 if no_gap else at_once
        for files in _entries_below(kept_from, found, entries_at_once):
            doomed.update(files)
            yield from _parts(files, entries_at_once)
    left: dict[str, _Told] = {}
    for folder, listed in found.items():
        names = {file.name for file in listed}
        for file in listed:
            path = f"{folder}/{file.name}" if folder else file.name
            is_old = now_s - file.modified_s >= LEFTOVER_AGE_S
            if path not in doomed and is_old and _is_leftover(file, folder, names):
                left[path] = (file.size, None)
    yield from _parts(left, at_once)
    if kept_from is not None:  # behind the entries: see the module of state_retention
        state = removable_state(checkpoint, kept_from)
        yield from _parts({name: (size, None) for name, size in state.items()}, at_once)


def _parts(files: Mapping[str, _Told], length: int) -> Iterator[Mapping[str, _Told]]:
    names = list(files)
    for start in range(0, len(names), length):
        yield {name: files[name] for name in names[start : start + length]}


def _entries_below(
    kept_from: int, found: Mapping[str, Collection[FileInfo]], at_once: int
) -> Iterator[dict[str, _Told]]:
    """The files of so many epochs in a log, in the order of deletion."""
    sizes, ids = _by_name(found), {log: _by_id(found[log]) for log in _LOGS}
    epochs = sorted(epoch for epoch in set().union(*ids.values()) if epoch < kept_from)
    for start in range(0, len(epochs), at_once):
        for log in _LOGS:
            yield {
                name: (size, epoch)
                for epoch in epochs[start : start + at_once]
                if epoch in ids[log]
                for name, size in _with_twin(log, str(epoch), sizes[log]).items()
            }


def _by_id(files: Iterable[FileInfo]) -> dict[int, FileInfo]:
    ids = {entry_id(file.name): file for file in files}
    return {id: file for id, file in ids.items() if id is not None}


def _by_name(found: Mapping[str, Collection[FileInfo]]) -> dict[str, dict[str, int]]:
    return {log: {file.name: file.size for file in found[log]} for log in _LOGS}


def _with_twin(folder: str, name: str, sizes: Mapping[str, int]) -> dict[str, int]:
    both = (name, checksum_twin(name))
    return {f"{folder}/{each}": sizes[each] for each in both if each in sizes}


def _sizes(found: Mapping[str, Collection[FileInfo]]) -> dict[int, int]:
    """Bytes of each epoch in all logs, checksum twins included."""
    by_name, sizes = _by_name(found), dict[int, int]()
    for log in _LOGS:
        for epoch in _by_id(found[log]):
            both = _with_twin(log, str(epoch), by_name[log])
            sizes[epoch] = sizes.get(epoch, 0) + sum(both.values())
    return sizes


def _is_leftover(file: FileInfo, folder: str, names: Collection[str]) -> bool:
    """A temporary file of a crash, or the checksums of an entry that is gone.

    :param names: of all files in the folder.
    """
    if _TEMPORARY.fullmatch(file.name):
        return True
    twin_of = _TWIN.fullmatch(file.name) if folder in _LOGS else None
    return (
        twin_of is not None
        and entry_id(twin_of.group(1)) is not None
        and twin_of.group(1) not in names
    )
