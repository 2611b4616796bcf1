"""The lease: one run at a time writes a checkpoint::

    control/generations/<g>    created once: the claim of the run that is generation g
    control/lease              who runs, replaced with every heartbeat

Generations are counted from 0; each start takes the next one. A run takes a checkpoint over like
this, and is *fenced* from the moment its claim is gone:

1. look who holds it: the newest claim, with what ``control/lease`` says about it;
2. refuse if the holder is alive: its last heartbeat is fresh, and it is not seen to be dead;
3. create the next claim (of two that try, one fails and begins anew), and see that it is the
   newest;
4. delete all older claims; write ``control/lease``.

So ``check`` is one look for one's own claim, and a run that slept through any number of takeovers
still finds out. The newest claim is never deleted: it carries the count on.

Nobody takes over a run that has renewed its lease within the last :data:`EXPIRES_AFTER_INTERVALS`
intervals, so a claim that was seen a moment ago is still there: ``check(recent=True)`` only looks
if nothing in this process, the heartbeats for example, has looked within
:data:`RECENT_INTERVALS` intervals. A suspended process, or machine, finds its last look old.

A holder on this machine that is seen to be dead is taken over at once. A heartbeat is fresh for
:data:`EXPIRES_AFTER_INTERVALS` intervals. If it seems older, or comes from the future, the holder
is watched for so long before it is taken over: clocks differ, jump, and stand still while a machine
is suspended.

The engine's rule for a write that others see is: ``check``, then write. A run that is suspended
between the two can still write once. The logs refuse that write if the epoch is taken
(create-if-absent), and a sink tells generations apart. What cannot be refused, the sink's commit,
is preceded by a look of its own, never by a recent one.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from engine.base.clock import Clock, SystemClock
from engine.base.failpoints import reach
from engine.base.json_text import dump, load_object
from engine.base.moments import iso_timestamp
from engine.checkpoint.folder import CheckpointFolder
from engine.checkpoint.logs.metadata_log import entry_id
from engine.checkpoint.process import Process
from engine.checkpoint.query_state import QueryState
from engine.checkpoint.storage.contract import Storage
from engine.checkpoint.summary import Summary
from engine.errors import ConcurrentRunError, StaleRunError, in_the_catalogue
from engine.redaction.logs import redact

EXPIRES_AFTER_INTERVALS = 10
RECENT_INTERVALS = 2
_CONTROL = "control"
_CLAIMS = "control/generations"
_LEASE = "control/lease"


@dataclass(frozen=True)
class LeaseRecord:
    """What ``control/lease`` holds; times in milliseconds since 1970.

    :param process_started: see :class:`engine.checkpoint.process.Process`.
    :param application: Spark's application id; ``application_url`` is where its web page is.
    :param epoch: the last committed one that the run knew of, -1 for none.
    :param message: what the run does now, in words.
    :param restarts: how often it was restarted in place since it was started; ``last_error`` is why
        the last time, ``next_attempt_at_ms`` when the next attempt begins, if it waits for it,
        ``failing_since_ms`` when the first of its failures was since it has last committed.
    :param error_class: of ``error``, else of ``last_error``, as in the catalogue of errors; None of
        an error that is none of the engine's, and of a run of an earlier version.
    :param summary: of the last committed epoch, see :mod:`engine.checkpoint.summary`.
    """

    run_id: str
    generation: int
    state: QueryState
    host: str
    pid: int
    process_started: str
    started_at_ms: int
    heartbeat_at_ms: int
    heartbeat_interval_ms: int
    application: str | None = None
    application_url: str | None = None
    error: str | None = None
    epoch: int = -1
    message: str | None = None
    restarts: int = 0
    last_error: str | None = None
    next_attempt_at_ms: int | None = None
    failing_since_ms: int | None = None
    error_class: str | None = None
    summary: Summary | None = None

    @property
    def process(self) -> Process:
        """The process that runs it."""
        return Process(self.host, self.pid, self.process_started)

    @property
    def expires_after_ms(self) -> int:
        """For how long a heartbeat is fresh."""
        return self.heartbeat_interval_ms * EXPIRES_AFTER_INTERVALS

    def is_fresh(self, now_ms: int) -> bool:
        """Whether the last heartbeat is younger than :attr:`expires_after_ms`."""
        return now_ms - self.heartbeat_at_ms < self.expires_after_ms

    def is_alive(self, now_ms: int) -> bool:
        """Whether the run goes on, as far as can be seen from here."""
        if not self.state.is_active or self.process.is_running() is False:
            return False
        return self.is_fresh(now_ms)

    def observed_state(self, now_ms: int) -> QueryState:
        """The state, or LOST if the run says that it goes on, and does not."""
        lost = self.state.is_active and not self.is_alive(now_ms)
        return QueryState.LOST if lost else self.state

    @property
    def silence(self) -> str:
        """What is known of a run that is lost: which process it was, and when it was heard last."""
        process = f"process {self.pid} on {self.host}"
        heard = iso_timestamp(self.heartbeat_at_ms)
        gone = " and is gone" if self.process.is_running() is False else ""
        return f"{process} has said nothing since {heard}{gone}"

    def serialize(self) -> bytes:
        """One line of JSON."""
        return dump(asdict(self)).encode()

    @classmethod
    def deserialize(cls, data: bytes) -> LeaseRecord:
        """Fields that a newer engine has added are left out.

        :raises ValueError: torn.
        """
        given = load_object(data)
        known = {field.name: given[field.name] for field in fields(cls) if field.name in given}
        try:
            return cls(
                **{
                    **known,
                    "state": QueryState(given["state"]),
                    "summary": Summary.from_json(given.get("summary")),
                }
            )
        except (TypeError, KeyError) as exc:
            raise ValueError(f"not a lease: {exc}") from exc


def read_holder(storage: Storage) -> LeaseRecord | None:
    """The run that holds the checkpoint or was the last to hold it; None if there was never one.

    :raises CheckpointError: the storage cannot be read.
    """
    return _holder(storage, _generations(storage))


def read_lease(storage: Storage) -> LeaseRecord | None:
    """What stands in ``control/lease``, with one read; None if there is nothing.

    Mostly that is the holder: but a run that has just claimed the checkpoint may not have written
    it yet, and a fenced one may have written over it, until the holder's next heartbeat. Who acts
    upon what it sees here asks :func:`read_holder` first.

    :raises CheckpointError: the storage cannot be read.
    """
    return _read(storage, _LEASE)


def _holder(storage: Storage, generations: list[int]) -> LeaseRecord | None:
    """:param generations: of all claims, as they were a moment ago."""
    while True:
        record = _read(storage, _LEASE)
        if not generations or (record is not None and record.generation >= generations[-1]):
            return record
        # The run with the newest claim has not yet written the lease, or a fenced run has just
        # written over it. What it would say is in its claim, too.
        claim = _read(storage, f"{_CLAIMS}/{generations[-1]}")
        if claim is not None:
            return claim
        before, generations = generations, _generations(storage)
        if generations == before:
            return record


def _generations(storage: Storage) -> list[int]:
    return _claimed(f"{_CLAIMS}/{file.name}" for file in storage.list(_CLAIMS))


def _claimed(names: Iterable[str]) -> list[int]:
    """The generations of the claims among these files, lowest first."""
    ids = (entry_id(name[len(_CLAIMS) + 1 :]) for name in names if name.startswith(f"{_CLAIMS}/"))
    return sorted(id for id in ids if id is not None)


def _control_files(storage: Storage) -> set[str]:
    """Claims, requests and all else that is in ``control``, with one look."""
    return {f"{_CONTROL}/{name}" for name in storage.files_below(_CONTROL)}


def _read(storage: Storage, name: str) -> LeaseRecord | None:
    try:
        return LeaseRecord.deserialize(storage.read(name))
    except (FileNotFoundError, ValueError):
        # A heartbeat is not synced: a crash of the machine may tear it. The claim is.
        return None


class Lease:
    """A run's hold on a checkpoint. Made by :meth:`acquire`; safe to use from several threads.

    :ivar succeeds: the run that held it before, if that died or fell silent without releasing it.
    """

    succeeds: LeaseRecord | None = None

    def __init__(self, storage: Storage, record: LeaseRecord, clock: Clock) -> None:
        self._storage = storage
        self._record = record
        self._clock = clock
        self._lock = threading.Lock()
        self._renewed_s = self._seen_s = clock.monotonic_s()
        self._released = False

    @classmethod
    def acquire(
        cls,
        checkpoint: CheckpointFolder,
        *,
        run_id: str,
        application: str | None = None,
        application_url: str | None = None,
        heartbeat_interval_ms: int = 1_000,
        clock: Clock | None = None,
        lost: LeaseRecord | None = None,
    ) -> Lease:
        """Take the checkpoint, as the next generation and in the state STARTING.

        Clears requests that were made to earlier runs; but whoever has asked ``lost`` to end, after
        the caller has seen that nobody had, means this one, too. A run may take over from itself,
        to be restarted in place: what it has said of itself stays.

        :param heartbeat_interval_ms: how often the caller will call :meth:`heartbeat`.
        :param lost: what the caller has watched for as long as a lease lasts, and nobody renewed.
        :raises ConcurrentRunError: another run holds it; names it.
        :raises CheckpointError: the storage cannot be written.
        """
        clock = clock or SystemClock()
        storage, process = checkpoint.storage, Process.current()
        # Then an earlier attempt of this run is found in every turn. What only a later turn finds
        # is the claim of the one before, of which the storage's answer was lost.
        is_in_place = True
        while True:
            # Counted before the holder is looked at: whoever claims after the count takes the
            # number that we are about to create, so that one of the two fails and begins anew.
            generations = _generations(storage)
            newest = max(generations, default=-1)
            holder = _holder(storage, generations)
            own = holder is not None and holder.run_id == run_id
            is_in_place = is_in_place and own
            if holder is not None and not own and holder != lost:
                _refuse_if_alive(storage, holder, clock)
            generation = max(newest, -1 if holder is None else holder.generation) + 1
            now_ms = clock.now_ms()
            record = LeaseRecord(
                run_id=run_id,
                generation=generation,
                state=QueryState.STARTING,
                host=process.host,
                pid=process.pid,
                process_started=process.started,
                started_at_ms=holder.started_at_ms if holder and own else now_ms,
                heartbeat_at_ms=now_ms,
                heartbeat_interval_ms=heartbeat_interval_ms,
                application=application,
                application_url=application_url,
                epoch=-1 if holder is None else holder.epoch,
            )
            reach("claim.before")
            if storage.create(f"{_CLAIMS}/{generation}", record.serialize()):
                reach("claim.after")
                seen_s = clock.monotonic_s()
                present = _control_files(storage)
                *older, newest = _claimed(present)
                if newest == generation:
                    break
                # Others came and went between our look and our claim: begin anew.
                storage.delete(f"{_CLAIMS}/{generation}")
        for fenced in older:
            storage.delete(f"{_CLAIMS}/{fenced}")
        reach("fence.after")
        if not is_in_place:
            checkpoint.requests.clear_for(run_id, None if lost is None else lost.run_id, present)
        lease = cls(storage, record, clock)
        lease._seen_s = seen_s
        if holder is not None and not own and holder.state.is_active:
            last = _read(storage, _LEASE)  # it may have ended while it was watched
            if last is None or (last.run_id != run_id and last.state.is_active):
                lease.succeeds = holder
        lease._write(record)
        return lease

    @property
    def run_id(self) -> str:
        return self._record.run_id

    @property
    def generation(self) -> int:
        return self._record.generation

    @property
    def heartbeat_interval_ms(self) -> int:
        return self._record.heartbeat_interval_ms

    @property
    def record(self) -> LeaseRecord:
        """What was written last."""
        return self._record

    def heartbeat(self, **changes: Any) -> Collection[str]:
        """Renew the lease.

        :param changes: fields of the :class:`LeaseRecord` that have changed.
        :returns: the files in ``control``, as they were seen on this occasion.
        :raises StaleRunError: another run has taken the checkpoint, or this one has released it.
        :raises CheckpointError: the storage cannot be written; the lease runs on.
        """
        with self._lock:
            return self._renew(changes)

    @property
    def is_expired(self) -> bool:
        """Whether it was not renewed in time: another run may take over at any moment."""
        age_ms = (self._clock.monotonic_s() - self._renewed_s) * 1000
        return age_ms >= self._record.expires_after_ms

    def check(self, *, recent: bool = False) -> None:
        """Assert that this run still owns the checkpoint; call it before each write.

        After a pause that outlived the lease, of a suspended machine for example, it is renewed
        first: nobody may have taken it over meanwhile.

        :param recent: it is enough that the claim was seen a moment ago.
        :raises StaleRunError: another run has taken the checkpoint, or this one has released it.
        :raises CheckpointError: the storage cannot be read.
        """
        if self.is_expired:
            with self._lock:
                self._renew({})
        now_s = self._clock.monotonic_s()
        recent_s = self._record.heartbeat_interval_ms * RECENT_INTERVALS / 1000
        if self._released or not recent or now_s - self._seen_s >= recent_s:
            self._assert_claimed()  # without the lock: a commit does not wait for a slow heartbeat
            self._seen_s = now_s

    def release(
        self,
        state: QueryState,
        error: str | None = None,
        changes: Mapping[str, Any] | None = None,
        cause: BaseException | None = None,
    ) -> None:
        """Say that the run has ended. A second call, and that of a fenced run, changes nothing.

        :param state: STOPPED or FAILED.
        :param error: why it failed, in words.
        :param changes: as for :meth:`heartbeat`.
        :param cause: of which ``error`` tells.
        :raises CheckpointError: the storage cannot be written.
        """
        assert state.has_ended, f"{state} is not an end"
        with self._lock:
            if self._released:
                return
            try:
                told = {**(changes or {}), "state": state, "error": error}
                if error is not None:  # else that of the last error stays
                    told["error_class"] = in_the_catalogue(cause)
                self._renew(told, durable=True)
            except StaleRunError:
                pass
            finally:
                self._released = True

    def _renew(self, changes: dict[str, Any], *, durable: bool = False) -> Collection[str]:
        seen_s = self._clock.monotonic_s()
        present = _control_files(self._storage)
        self._assert_claimed(present)
        self._seen_s = seen_s
        told = {name: _told(name, value) for name, value in changes.items()}
        record = replace(self._record, heartbeat_at_ms=self._clock.now_ms(), **told)
        self._write(record, durable=durable)
        return present

    def _write(self, record: LeaseRecord, *, durable: bool = False) -> None:
        # Taken before the write: here the lease must not seem younger than it does to others, or
        # this run would go on for a moment when they may take over.
        renewed_s = self._clock.monotonic_s()
        self._storage.replace(_LEASE, record.serialize(), durable=durable)
        self._record, self._renewed_s = record, renewed_s

    def _assert_claimed(self, present: Collection[str] | None = None) -> None:
        """:param present: the files in ``control``, if the caller has just looked."""
        if self._released:
            raise StaleRunError(f"Run {self.run_id} has released the checkpoint.")
        claim = f"{_CLAIMS}/{self.generation}"
        if not (self._storage.exists(claim) if present is None else claim in present):
            holder = read_holder(self._storage)
            by = "its claim is gone" if holder is None else f"run {_describe(holder)} owns it now"
            raise StaleRunError(
                f"Run {self.run_id} (generation {self.generation}) does not own the checkpoint "
                f"{self._storage.url} any more: {by}.",
                hint="This run writes nothing more; the other one goes on from the last epoch.",
            )


def _refuse_if_alive(storage: Storage, holder: LeaseRecord, clock: Clock) -> None:
    now_ms = clock.now_ms()
    alive = holder.is_alive(now_ms)
    ahead = holder.heartbeat_at_ms - now_ms >= holder.expires_after_ms
    maybe = holder.state.is_active and holder.process.is_running() is not False
    if maybe and (not alive or ahead):
        alive = _is_renewed(storage, holder, clock)
    if alive:
        since_s = max(0.0, (clock.now_ms() - holder.started_at_ms) / 1000)
        silent_s = max(0.0, (clock.now_ms() - holder.heartbeat_at_ms) / 1000)
        raise ConcurrentRunError(
            f"The checkpoint {storage.url} is held by run {_describe(holder)}, {holder.state} for "
            f"{since_s:.0f} s; its last heartbeat was {silent_s:.1f} s ago.",
            hint="Stop or drain that run first: python -m engine stop CHECKPOINT. "
            f"If it hangs, kill it; it loses the checkpoint after "
            f"{holder.expires_after_ms / 1000:g} s without a heartbeat.",
        )


def _is_renewed(storage: Storage, holder: LeaseRecord, clock: Clock) -> bool:
    """Watch a holder whose heartbeat cannot be judged by the clock; whether the next one comes."""
    deadline_s = clock.monotonic_s() + holder.expires_after_ms / 1000
    while clock.monotonic_s() < deadline_s:
        clock.sleep(holder.heartbeat_interval_ms / 1000)
        now = read_holder(storage)
        if now != holder:
            return now is not None and now.state.is_active
    return False


def _told(name: str, value: Any) -> Any:
    """What people say, and others' errors, without secrets: everybody reads the lease."""
    return redact(value) if name in ("message", "error", "last_error") and value else value


def _describe(record: LeaseRecord) -> str:
    return (
        f"{record.run_id} (generation {record.generation}, process {record.pid} on {record.host})"
    )
