"""Keeps the folder of a files sink small: entries of its log, and data files of no epoch.

**The log.** Each compacted entry holds all files of the sink, so a long log is mostly old compacted
entries. Those go that no reader needs now, and no rewind to an epoch which the checkpoint keeps, or
has pinned without the sink's position. What stays is read, checksums and all, before anything goes.

**Data files.** A run that dies leaves files that no epoch names. One of them goes if

- its name tells the run's generation, so this engine has written it,
- neither the log nor what rewinds have moved out of it names it,
- no prepared epoch of the checkpoint names it: the next start would commit it,
- its run is over: a later run has the checkpoint, or it has said that it ended,
- and it is older than a day, or whatever else is asked for.

Files of Spark's own queries do not tell their run, and stay.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from typing import Any, Final

from engine.base.clock import Clock, SystemClock
from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.fingerprint_file import read_fingerprint
from engine.checkpoint.logs.compaction import COMPACT, compaction_before
from engine.checkpoint.rewind import ASIDE
from engine.checkpoint.rewound import INTENT
from engine.checkpoint.storage.contract import Storage
from engine.errors import ConfigError, SinkUnavailableError
from engine.sinks.builtin_sinks import sink_kind
from engine.sinks.files.file_sink_log import FOLDER, FileSinkLog
from engine.sinks.files.places import Place, place_of, recorded_place

ORPHAN_AGE_S: Final = 86_400.0
ORPHAN_AGE_MIN_S: Final = 3_600.0
DATA_FILE: Final = re.compile(r"part-\d{5,}-g(\d+)-[0-9a-f-]{36}-c\d{3}\.[A-Za-z0-9_.]+")
_NAMED: Final = re.compile(DATA_FILE.pattern.encode())
_PICKLE: Final = re.compile(rb'"pickle":"([A-Za-z0-9+/=]+)"')


@dataclass(frozen=True)
class SinkPruneReport:
    """What was removed from the folder of a sink, or would be.

    :param removed_entries: of the sink's log.
    :param removed_files: data files of no epoch.
    :param removed_bytes: of both together.
    """

    path: str
    removed_entries: int
    removed_files: int
    removed_bytes: int
    dry_run: bool

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)


def prune_sink(
    checkpoint: Checkpoint,
    path: str | None = None,
    *,
    sink: tuple[str, Mapping[str, str]] | None = None,
    compact: bool = True,
    orphans_older_than_s: float | None = None,
    dry_run: bool = False,
    clock: Clock | None = None,
) -> SinkPruneReport | None:
    """Remove from the folder of a files sink what nobody needs. Safe while the query runs.

    :param checkpoint: of the query, pruned already: the sink's log keeps what its epochs need.
    :param path: the sink's folder; None: the one that the query had at its last start.
    :param sink: or its format and all its options, also those with ``storage.``, which open a
        bucket and which no checkpoint tells: see :func:`engine.pipeline.given_sink.given_sink`.
        Without it the environment opens the bucket.
    :param compact: remove entries of the sink's log.
    :param orphans_older_than_s: remove data files of no epoch that are older, an hour or more;
        None: remove none.
    :returns: None: the query's sink writes no files.
    :raises ConfigError: it is not known which sink the query has, or ``path`` is not its folder.
    :raises ContinuousError: a log is damaged, or cannot be read; nothing was removed.
    """
    if orphans_older_than_s is not None and orphans_older_than_s < ORPHAN_AGE_MIN_S:
        raise ConfigError(
            f"Data files of no epoch are to go after {orphans_older_than_s:g} s: they must be "
            f"{ORPHAN_AGE_MIN_S:g} s old or more.",
            hint="Younger ones may belong to a run that has just begun.",
        )
    place = _recorded_place(checkpoint, path) if sink is None else _given_place(*sink)
    if place is None:
        return None
    log = FileSinkLog(place.log(FOLDER))
    doomed: dict[str, int] = {}
    orphans: dict[str, int] = {}
    if not checkpoint.storage.exists(INTENT):  # else the log is being moved
        _check_folder(checkpoint, log)
        if compact:
            doomed = _unneeded(checkpoint, log)
        if orphans_older_than_s is not None:
            before_s = (clock or SystemClock()).now_ms() / 1000 - orphans_older_than_s
            orphans = _orphans(checkpoint, log, place, before_s)
    if not dry_run:
        for name in doomed:
            log.storage.delete(name)
        with _speaking("delete", place):
            for file in orphans:
                place.remove(file)
    return SinkPruneReport(
        path=place.url,
        removed_entries=len(doomed),
        removed_files=len(orphans),
        removed_bytes=sum(doomed.values()) + sum(orphans.values()),
        dry_run=dry_run,
    )


def _given_place(name: str, options: Mapping[str, str]) -> Place:
    place = recorded_place(options) if sink_kind(name).is_files else None
    if place is None:
        raise ConfigError(
            f"The sink {name} names no folder of files.",
            hint="Give the sink of the query with its path. What tables need is done by "
            "`continuous maintain`.",
        )
    return place


def _recorded_place(checkpoint: Checkpoint, path: str | None) -> Place | None:
    """None if it is another kind of sink."""
    parts, given = read_fingerprint(checkpoint.storage), path and place_of(path, {}, "sink")
    if parts is None:
        if not given:
            raise ConfigError(
                f"{checkpoint.url} does not tell which sink its query has.",
                hint="Give the path of the sink's folder.",
            )
        return given
    sink = parts["sink"]
    recorded = recorded_place(sink["options"]) if sink_kind(sink["format"]).is_files else None
    if given and (recorded is None or recorded.url != given.url):
        raise ConfigError(
            f"The query of {checkpoint.url} writes to "
            f"{sink['format'] if recorded is None else recorded.url}, not to {given.url}.",
            hint="Leave the path out, or give the checkpoint of the query that writes there.",
        )
    return recorded


def _check_folder(checkpoint: Checkpoint, log: FileSinkLog) -> None:
    """:raises ConfigError: the log lacks what the checkpoint has committed.
    :raises SinkError: it is damaged."""
    committed, latest = checkpoint.committed_epoch(), log.latest()
    if committed >= 0 and (latest is None or latest < committed):
        raise ConfigError(
            f"The sink's log in {log.storage.url} does not have epoch {committed}.",
            hint="Is this the folder of the query's sink?",
            epoch=committed,
        )
    log.verify()


# -- the log --------------------------------------------------------------------------------------


def _unneeded(checkpoint: Checkpoint, log: FileSinkLog) -> dict[str, int]:
    """Entry → bytes."""
    listing, kept = log.listing(), checkpoint.epochs()
    if not listing or not kept:
        return {}
    # A pin without a position finds its epoch in the log, or nowhere.
    pinned = [pin.epoch for pin in checkpoint.pins() if pin.sink_position is None]
    oldest, interval = min([kept[0], *pinned]), log.interval(listing)
    needed = compaction_before(oldest, interval)
    if not listing.get(needed, "").endswith(COMPACT):
        return {}
    log.lines(listing, needed)
    return {info.name: info.size for info in log.expired(oldest, interval)}


# -- data files of no epoch -----------------------------------------------------------------------


def _orphans(
    checkpoint: Checkpoint, log: FileSinkLog, place: Place, before_s: float
) -> dict[str, int]:
    """File → bytes."""
    alive_from = _oldest_live_generation(checkpoint)
    with _speaking("list", place):
        candidates = {
            name: (file.name, file.size)
            for file in place.files()
            if (ours := DATA_FILE.fullmatch(name := file.name.rpartition("/")[2])) is not None
            and (alive_from is None or int(ours.group(1)) < alive_from)
            and file.modified_s < before_s
        }
    # In this order: what a restart commits is prepared until it is in the log, and what a rewind
    # moves is in the log until it is aside.
    for name in _named_in(checkpoint.storage, "prepared"):
        candidates.pop(name, None)
    for file in log.files():
        candidates.pop(file.path.rpartition("/")[2], None)
    for storage in (log.storage, checkpoint.storage):
        for name in _named_in(storage, ASIDE):
            candidates.pop(name, None)
    return dict(candidates.values())


def _oldest_live_generation(checkpoint: Checkpoint) -> int | None:
    """Runs from this generation on may still commit what they have written; None: no run may."""
    holder = checkpoint.holder()
    if holder is None:
        raise ConfigError(
            f"No run of this engine has ever held {checkpoint.url}: nothing tells whether a data "
            "file of no epoch is still being written.",
            hint="Leave the removal of such files out for queries that Spark itself runs.",
        )
    # One that is lost may only be suspended: its claim holds until another run takes over.
    return None if holder.state.has_ended else holder.generation


def _named_in(storage: Storage, folder: str) -> Iterator[str]:
    """All data files that the files below a folder name, in whatever form a message is stored."""
    for name in storage.files_below(folder):
        with suppress(FileNotFoundError):  # done with since the listing
            data = storage.read(f"{folder}/{name}")
            for part in (data, *map(b64decode, _PICKLE.findall(data))):
                for found in _NAMED.finditer(part):
                    yield found.group().decode()


@contextmanager
def _speaking(verb: str, place: Place) -> Iterator[None]:
    try:
        yield
    except OSError as exc:
        raise SinkUnavailableError(
            f"Cannot {verb} files in {place.url}: {exc.strerror or exc}.",
            hint="Check the rights on the sink's folder. What is committed was not touched.",
        ) from exc
