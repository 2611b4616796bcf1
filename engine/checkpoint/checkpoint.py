"""A checkpoint: the directory in which a query survives.

::

    metadata              {"id":"<query id>"}                                  as Spark has it
    offsets/<epoch>       where the epoch ends                                 as Spark has it
    commits/<epoch>       the epoch is done                                    as Spark has it
    prepared/<epoch>      the writers' messages, to finish the epoch with
    control/              lease, generations, requests, fingerprint of the query
    progress/recent       the last progress reports
    pins/<name>           a committed epoch that outlives retention
    rewound/<generation>/ what rewinds have moved out of the logs

Everything here also reads checkpoints of Spark's own queries, which have the first three. Reading
needs no lease and disturbs nobody: leftovers of crashes are invisible, and entries that a running
query removes in the meantime are looked for again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from engine.checkpoint.commit_log import commit_log
from engine.checkpoint.json_text import JSON, dump, load_object
from engine.checkpoint.lease import LeaseRecord, read_holder
from engine.checkpoint.metadata_log import MetadataLog
from engine.checkpoint.offset_log import offset_log
from engine.checkpoint.pins import Pin, add_pin, all_pins, get_pin, remove_pin
from engine.checkpoint.prepared_log import PreparedEntry, prepared_log
from engine.checkpoint.progress import ProgressFile
from engine.checkpoint.requests import Requests
from engine.checkpoint.rewind import RewindReport, rewind
from engine.checkpoint.storage import Storage, open_storage
from engine.clock import Clock, SystemClock
from engine.errors import CheckpointCorruptError, CheckpointError
from engine.states import QueryState

_METADATA = "metadata"
COPY_RECORD = "control/copy"
"""Of what this is a copy, see :mod:`engine.checkpoint.copy`."""


@dataclass(frozen=True)
class CheckpointStatus:
    """What a checkpoint tells about its query; times in milliseconds since 1970.

    :param id: the query's id; None if the checkpoint was never used.
    :param epoch: the last committed epoch, -1 if there is none.
    :param offsets: end offsets of that epoch, one per source; empty if there is none.
    :param run_id: of the run that holds the lease or held it last; it and all that follows is None
        if there was none.
    :param error: why that run failed.
    :param application: Spark's application id; ``application_url`` is where its web page is.
    :param endpoint: URL of the run's HTTP endpoint.
    :param message: what the run does now, in words.
    :param restarts: how often this run was restarted in place; ``last_error`` is why the last time,
        ``next_attempt_at_ms`` when the next attempt begins, if it waits for it.
    """

    id: str | None
    epoch: int
    offsets: tuple[JSON | None, ...]
    state: QueryState = QueryState.UNKNOWN
    run_id: str | None = None
    generation: int | None = None
    error: str | None = None
    host: str | None = None
    pid: int | None = None
    application: str | None = None
    application_url: str | None = None
    endpoint: str | None = None
    heartbeat_at_ms: int | None = None
    started_at_ms: int | None = None
    message: str | None = None
    restarts: int = 0
    last_error: str | None = None
    next_attempt_at_ms: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        return {**asdict(self), "state": self.state.value, "offsets": list(self.offsets)}


class Checkpoint:
    """See the module.

    :param location: a path, a URL, or an open storage. It need not exist.
    :param storage_options: for fsspec, if ``location`` is a URL.
    :raises ConfigError: the location cannot be used.
    """

    def __init__(
        self,
        location: str | Storage,
        storage_options: Mapping[str, Any] | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._clock = clock or SystemClock()
        self.storage = (
            location if isinstance(location, Storage) else open_storage(location, storage_options)
        )
        self.offsets = offset_log(self.storage)
        self.commits = commit_log(self.storage)
        self.prepared = self.prepared_with(())
        self.requests = Requests(self.storage, self._clock)
        self.progress = ProgressFile(self.storage)

    @property
    def url(self) -> str:
        """How to open it again."""
        return self.storage.url

    def prepared_with(self, allowed_modules: Collection[str]) -> MetadataLog[PreparedEntry]:
        """The prepared log, loading messages whose classes are defined in these modules.

        The attribute ``prepared`` allows none: it writes all messages, and reads plain ones.
        """
        return prepared_log(self.storage, allowed_modules)

    # -- identity -------------------------------------------------------------------------------

    def exists(self) -> bool:
        """Whether a query has ever used this checkpoint."""
        return self.storage.exists(_METADATA) or self._has_entries()

    def query_id(self) -> str | None:
        """The query's id, or None if the checkpoint was never used.

        :raises CheckpointCorruptError: the metadata file is unreadable.
        """
        try:
            data = self.storage.read(_METADATA)
        except FileNotFoundError:
            return None
        try:
            query_id = load_object(data)["id"]
        except (ValueError, KeyError):
            query_id = None
        if not isinstance(query_id, str):
            raise CheckpointCorruptError(
                f"{self.storage.path(_METADATA)} is not the metadata of a query.",
                hint='Restore it; it holds {"id":"<the query\'s uuid>"}.',
            )
        return query_id

    def create_or_read_query_id(self, new_id: str) -> str:
        """The query's id; ``new_id`` becomes it if the checkpoint is new.

        :raises CheckpointCorruptError: there are logs, but the metadata file is missing (as in
            Spark since 4.2) or unreadable.
        """
        known = self.query_id()
        if known is not None:
            return known
        if self._has_entries():
            raise CheckpointCorruptError(
                "[STREAMING_CHECKPOINT_MISSING_METADATA_FILE] The checkpoint location "
                f"{self.url} has logs, but its metadata file is missing.",
                hint="Restore the file, or start the query with a new checkpoint.",
            )
        if self.storage.exists(COPY_RECORD):
            raise CheckpointError(
                f"{self.url} is a copy that is not finished.",
                hint="Make the copy again, with the same target, or remove it.",
            )
        if self.storage.create(_METADATA, dump({"id": new_id}).encode()):
            return new_id
        known = self.query_id()
        assert known is not None, "created by another run, then deleted"
        return known

    def _has_entries(self) -> bool:
        return bool(self.commits.ids() or self.offsets.ids())

    def delete(self) -> None:
        """Delete everything.

        :raises CheckpointError: something cannot be deleted.
        """
        self.storage.delete_all()

    # -- committed epochs -----------------------------------------------------------------------

    def epochs(self) -> list[int]:
        """The committed epochs that retention has kept, oldest first."""
        return self.commits.ids()

    def committed_epoch(self) -> int:
        """The last committed epoch, -1 if there is none. Opens no entry."""
        latest = self.commits.latest_id()
        return -1 if latest is None else latest

    def committed_offsets(self, epoch: int | None = None) -> tuple[JSON | None, ...] | None:
        """The end offsets of a committed epoch, one per source.

        :param epoch: None: the last one.
        :returns: None if the epoch is not committed, or retention has removed it.
        :raises CheckpointCorruptError: the epoch is committed, and its offsets are missing or
            unreadable.
        """
        while True:
            wanted = self.committed_epoch() if epoch is None else epoch
            if wanted < 0 or not self._is_committed(wanted):
                if epoch is None and wanted >= 0:
                    continue  # removed since the listing: newer ones are there
                return None
            entry = self.offsets.get(wanted)
            if entry is not None:
                return entry.offsets
            if self._is_committed(wanted):
                raise CheckpointCorruptError(
                    f"Batch {wanted} was committed without end epoch offsets! "
                    f"{self.storage.path(f'offsets/{wanted}')} is missing.",
                    epoch=wanted,
                    hint="Restore the checkpoint from a copy.",
                )

    def committed_at_ms(self, epoch: int) -> int | None:
        """When an epoch was committed, by the storage's clock, in milliseconds since 1970.

        :returns: None if it is not committed, or retention has removed it.
        """
        try:
            return round(self.storage.info(f"commits/{epoch}").modified_s * 1000)
        except FileNotFoundError:
            return None

    def _is_committed(self, epoch: int) -> bool:
        return self.storage.exists(f"commits/{epoch}")

    # -- pins and rewinding ---------------------------------------------------------------------

    def pin(self, name: str, epoch: int | None = None, *, sink: Any = None) -> Pin:
        """Give a committed epoch a name, and keep it for :meth:`rewind` until :meth:`unpin`.

        :param epoch: None: the last committed one.
        :param sink: the query's stream writer, if it can take rows back: then it still can when its
            own log has been compacted. See :func:`engine.sinks.reopen.reopen_sink`.
        :raises ConfigError: the name cannot be used, or the epoch is not there; lists those that
            are.
        """
        epoch = self.committed_epoch() if epoch is None else epoch
        position = sink.rewindPosition(epoch) if hasattr(sink, "rewindPosition") else None
        return add_pin(self, name, epoch, self._clock.now_ms(), position)

    def unpin(self, name: str) -> None:
        """Forget a pin.

        :raises ConfigError: there is none of this name; lists those that are there.
        """
        remove_pin(self.storage, name)

    def pins(self) -> list[Pin]:
        """All pins, lowest epoch first."""
        return all_pins(self.storage)

    def rewind(
        self,
        to_epoch: int | None = None,
        *,
        to_pin: str | None = None,
        sink: Any = None,
        accept_repeats: bool = False,
    ) -> RewindReport:
        """Take a query that does not run back to the end of a committed epoch. The next start reads
        on from there, as a higher generation.

        :param to_epoch: the last epoch that stays; or ``to_pin``, the name of a pin.
        :param sink: the query's stream writer, which takes the rows of later epochs back. See
            :func:`engine.sinks.reopen.reopen_sink`.
        :param accept_repeats: go on with a sink that cannot: it gets those rows again.
        :raises ConfigError: the epoch is not there (lists those that are), or the sink cannot take
            rows back; nothing has changed.
        :raises ConcurrentRunError: a run holds the checkpoint.
        """
        if to_pin is not None:
            target: int | Pin = get_pin(self.storage, to_pin)
        else:
            assert to_epoch is not None, "an epoch or a pin"
            target = to_epoch
        return rewind(self, target, sink=sink, accept_repeats=accept_repeats, clock=self._clock)

    # -- the whole ------------------------------------------------------------------------------

    def holder(self) -> LeaseRecord | None:
        """The run that holds the lease or held it last; None if there was never one."""
        return read_holder(self.storage)

    def status(self) -> CheckpointStatus:
        """Who runs the query, in which state, and how far it has come.

        :raises CheckpointCorruptError: the metadata or the last epoch's offsets are unreadable.
        """
        # The holder first: a run that commits and then ends has not ended without that commit.
        holder = self.holder()
        epoch, offsets = self._last_committed()
        status = CheckpointStatus(id=self.query_id(), epoch=epoch, offsets=offsets)
        if holder is None:
            return status
        return replace(
            status,
            state=holder.observed_state(self._clock.now_ms()),
            run_id=holder.run_id,
            generation=holder.generation,
            error=holder.error,
            host=holder.host,
            pid=holder.pid,
            application=holder.application,
            application_url=holder.application_url,
            endpoint=holder.endpoint,
            heartbeat_at_ms=holder.heartbeat_at_ms,
            started_at_ms=holder.started_at_ms,
            message=holder.message,
            restarts=holder.restarts,
            last_error=holder.last_error,
            next_attempt_at_ms=holder.next_attempt_at_ms,
        )

    def _last_committed(self) -> tuple[int, tuple[JSON | None, ...]]:
        while True:
            epoch = self.committed_epoch()
            if epoch < 0:
                return epoch, ()
            offsets = self.committed_offsets(epoch)
            if offsets is not None:
                return epoch, offsets
