"""Wrong versions of the protocol. A harness that does not catch each of them proves nothing.

One at a time is put in the place of the right one, and random walks (:mod:`tests.faults.l0_model`)
go on until a promise is broken.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from engine.base import durable
from engine.base.json_text import dump, load_object
from engine.checkpoint import rewind, rewound
from engine.checkpoint.lease import Lease
from engine.checkpoint.logs import prepared_log
from engine.checkpoint.logs.commit_log import CommitEntry
from engine.checkpoint.logs.compaction import entry_name
from engine.checkpoint.logs.metadata_log import MetadataLog
from engine.checkpoint.logs.offset_log import OffsetEntry
from engine.checkpoint.logs.prepared_log import PreparedEntry
from engine.checkpoint.storage import local_storage
from engine.checkpoint.storage.contract import Storage
from engine.checkpoint.storage.fenced_storage import FencedStorage
from engine.checkpoint.storage.local_storage import LocalStorage
from engine.coordinator import coordinator
from engine.coordinator.coordinator import TRANSITIONS, EpochCoordinator, Phase
from engine.coordinator.epoch_runner import CommittedEpoch, EpochRunner, _Logged
from engine.coordinator.events import CommitEpoch, EpochElapsed
from engine.execution import survey
from engine.sinks.files import file_sink_log
from engine.sinks.files.epoch_files import _OpenFile
from engine.sinks.files.file_sink_log import FileSinkLog, SinkFile
from engine.wire.messages import EpochCommitMessage
from tests.faults import l0_model, l3_torn_files, query
from tests.faults.parts import KeyedSink
from tests.faults.processes import SLEEP, Machine
from tests.faults.result import LevelResult, fits_no_more
from tests.faults.world import TOGETHER

Patch = AbstractContextManager[Any]
ZOMBIES = (SLEEP,)
DAMAGE = ()
WORLDS_MAX = 1_000
CASES_MAX = 20_000


class Mutant(NamedTuple):
    """:param faults: the kinds that bring it to light soonest, see l0_model; or :data:`DAMAGE`.
    :param sink: the kind of sink that does, or any.
    :param first: the walks before this one, counted from the seed, are left out: a rare fault has
        been seen to need about so many. Of damage: the order of the cases, by its seed, in which
        what brings it to light comes early; all of them may follow.
    """

    patch: Callable[[], Patch]
    faults: Sequence[str]
    sink: str | None = None
    first: int = 0


MUTANTS: dict[str, Mutant] = {}


def mutant(
    name: str, faults: Sequence[str] = l0_model.FAULTS, sink: str | None = None, first: int = 0
) -> Callable[[Callable[[], Patch]], Callable[[], Patch]]:
    def note(patch: Callable[[], Patch]) -> Callable[[], Patch]:
        MUTANTS[name] = Mutant(patch, faults, sink, first)
        return patch

    return note


def run(seed: int) -> LevelResult:
    """Every mutant, each until it is caught."""
    result = LevelResult("mutants")
    for name in MUTANTS:
        result.mutants[name] = hunt(name, seed)
    return result


def hunt(name: str, seed: int) -> str | None:
    """Walk with a mutant until it is caught; how, or None. The same on every machine: the tries
    are counted, not timed."""
    patch, faults, sink, first = MUTANTS[name]
    with patch():
        found = first_broken(seed + first, faults, sink=sink)
    if fits_no_more(found):
        raise AssertionError(f"mutant {name!r} does not fit the code any more: {found}")
    return None if found is None else found[:110]


def first_broken(
    seed: int, faults: Sequence[str], worlds_max: int = WORLDS_MAX, sink: str | None = None
) -> str | None:
    """The first promise that is not kept."""
    if faults is DAMAGE:
        found = l3_torn_files.run(seed, cases_max=CASES_MAX, until_broken=True).broken
        return found[0] if found else None
    for number in range(seed, seed + worlds_max):
        result = LevelResult("")
        l0_model.walk(number, result, faults, sink)
        if result.broken:
            return result.broken[0]
    return None


def _replace(owner: Any, name: str, value: Any) -> Patch:
    return mock.patch.object(owner, name, value)


# -- the disk -------------------------------------------------------------------------------------


@mutant("no fsync of a file")
def _() -> Patch:
    return _replace(durable, "sync", lambda file: file.flush())


@mutant("no fsync of a folder")
def _() -> Patch:
    return _replace(durable, "sync_folder", lambda folder: None)


@mutant("a new folder is not fsynced")
def _() -> Patch:
    def make(folder: Path) -> None:
        if not durable._is_folder(folder):
            make(folder.parent)
            durable.system.mkdir(folder)

    return _replace(durable, "make_folder", make)


@mutant("overwrite instead of create", ZOMBIES)
def _() -> Patch:
    def create(storage: LocalStorage, name: str, data: bytes) -> bool:
        storage.replace(name, data)
        return True

    return _replace(LocalStorage, "create", create)


@mutant("written in place, without a temporary file")
def _() -> Patch:
    def create(storage: LocalStorage, name: str, data: bytes) -> bool:
        path = storage.root / name
        try:
            durable.make_folder(path.parent)
            local_storage._write(path, data, True)
            durable.sync_folder(path.parent)
        except FileExistsError:
            return False
        except OSError as exc:
            raise local_storage._error("write", path, exc) from exc
        return True

    return _replace(LocalStorage, "create", create)


@mutant("what a dead run has left is not synchronised", first=221)
def _() -> Patch:
    return _replace(LocalStorage, "sync", lambda storage, folder: None)


# -- the order of a commit ------------------------------------------------------------------------


def _commit_in_order(steps: str) -> Patch:
    """The runner's commit with its steps in another order: p, o, s, c, a and l are prepared log,
    offset log, sink, commit log, acknowledgement to the source, and all that comes later."""

    def commit(
        runner: EpochRunner,
        epoch: int,
        offsets: list[Any],
        messages: list[Any],
        *,
        replayed: bool = False,
    ) -> list[CommittedEpoch]:
        checkpoint, lease = runner._checkpoint, runner._lease
        (source,) = runner._sources
        offset = source.mergeOffsets(list(*offsets))
        end = OffsetEntry(offsets=(offset,))
        text = checkpoint.offsets.text_of(epoch) if replayed else checkpoint.offsets.text(end)

        def log_offsets() -> None:
            if not replayed:
                runner._add(checkpoint.offsets, epoch, end)

        def acknowledge() -> None:
            with suppress(OSError):
                source.commit(offset)

        entry = PreparedEntry(
            lease.generation, lease.run_id, tuple(messages), text, runner._query_id
        )
        committed = CommitEntry(generation=runner._told_generation)
        for step in steps:
            if step in "posc":
                lease.check()
            {
                "p": lambda: runner._add(runner._prepared, epoch, entry),
                "o": log_offsets,
                "s": lambda: runner._commit_sink([_Logged(epoch, messages)]),
                "c": lambda: runner._add(checkpoint.commits, epoch, committed),
                "a": acknowledge,
                "l": lambda: runner._clean_up(epoch, [offset]),
            }[step]()
        return [CommittedEpoch(epoch, (offset,), {})]

    return _replace(EpochRunner, "commit", commit)


RIGHT_ORDER = "poscl"


@mutant("the sink before the offset log")
def _() -> Patch:
    return _commit_in_order("psocl")


@mutant("the commit log before the sink")
def _() -> Patch:
    return _commit_in_order("pocsl")


@mutant("the source is acknowledged before the sink")
def _() -> Patch:
    return _commit_in_order("aposcl")


@mutant("nothing is prepared", ZOMBIES, first=123)
def _() -> Patch:
    return _commit_in_order("oscl")


@mutant("retention of an epoch that is not acknowledged")
def _() -> Patch:
    purge = MetadataLog.purge
    return _replace(MetadataLog, "purge", lambda log, below, check: purge(log, below + 101, check))


# -- one run at a time ----------------------------------------------------------------------------


@mutant("no look at the generation")
def _() -> Patch:
    return _replace(Lease, "_assert_claimed", lambda lease, *_: None)


@mutant("the claims of older runs stay")
@contextmanager
def _() -> Iterator[None]:
    delete = LocalStorage.delete

    def spare(storage: LocalStorage, name: str) -> None:
        if not name.startswith("control/generations/"):
            delete(storage, name)

    with _replace(LocalStorage, "delete", spare):
        yield


@mutant("a process that is hidden is taken for dead", ZOMBIES)
def _() -> Patch:
    return _replace(Machine, "may_exist", lambda machine, pid: False)


@mutant("the log of the files is not fenced", ZOMBIES, sink="files")
def _() -> Patch:
    return _replace(FencedStorage, "take", lambda storage, owner, generation: None)


@mutant("what comes late behind a rewind is believed", ZOMBIES, first=54)
def _() -> Patch:
    return _replace(survey, "look_for_late", lambda *_: frozenset())


@mutant("a rewind forgets the sleepers of the one before", ZOMBIES, first=128)
@contextmanager
def _() -> Iterator[None]:
    last_rewind = rewound.last_rewind

    def without_reach(storage: Storage) -> bytes | None:
        data = last_rewind(storage)
        return None if data is None else dump({**load_object(data), "reach": None}).encode()

    with _replace(rewound, "last_rewind", without_reach):
        yield


@mutant("a rewind is over before its moves are on the disk", first=253)
@contextmanager
def _() -> Iterator[None]:
    finish = rewind.finish_rewind

    def unsynchronised(*given: Any) -> None:
        with _replace(LocalStorage, "sync", lambda storage, folder: None):
            finish(*given)

    with (
        _replace(rewind, "finish_rewind", unsynchronised),
        _replace(query, "finish_rewind", unsynchronised),
    ):
        yield


@mutant("an entry that is there already is ignored", ZOMBIES, first=58)
def _() -> Patch:
    def add(runner: EpochRunner, log: MetadataLog[Any], epoch: int, entry: Any, *_: Any) -> None:
        log.add(epoch, entry)

    return _replace(EpochRunner, "_add", add)


@mutant("a message of an older run is taken", ZOMBIES)
@contextmanager
def _() -> Iterator[None]:
    handle = EpochCoordinator.handle

    def trusting(coordinator: EpochCoordinator, event: Any) -> Any:
        if isinstance(event, EpochCommitMessage):
            event = dataclasses.replace(event, run_id=coordinator.run_id)
        return handle(coordinator, event)

    with _replace(EpochCoordinator, "handle", trusting):
        yield


# -- the coordinator ------------------------------------------------------------------------------


@mutant("epochs are closed however many wait")
def _() -> Patch:
    close: dict[type, Any] = {EpochElapsed: lambda coordinator, event: [coordinator._close()]}
    return mock.patch.dict(TRANSITIONS[Phase.RUNNING], close)


@mutant("epochs are closed however many wait for the sink")
def _() -> Patch:
    return _replace(coordinator, "COMPLETE_MAX", 10**9)


@mutant("an epoch is committed with a report missing")
def _() -> Patch:
    def next_commit(coordinator: EpochCoordinator) -> list[Any]:
        epoch = coordinator.committed + 1
        if coordinator.committing is not None or epoch not in coordinator.reports:
            return []
        coordinator.committing = epoch
        reports = coordinator.reports[epoch]
        some = next(iter(reports.values()))
        # The others are taken to have read nothing, up to an end that is not theirs.
        every = [
            reports.get(
                p, dataclasses.replace(some, partition=p, offsets=([p, some.offsets[0][1]],))
            )
            for p in range(coordinator.partitions)
        ]
        return [CommitEpoch(epoch, tuple(every))]

    return _replace(EpochCoordinator, "_next_commit", next_commit)


# -- the restart ----------------------------------------------------------------------------------


def _decide(change: Callable[[Any], Any]) -> Patch:
    decide = survey.decide
    return _replace(survey, "decide", lambda **disk: change(decide(**disk)))


@mutant("a restart from the epoch before")
def _() -> Patch:
    def earlier(plan: Any) -> Any:
        if not plan.start_from:
            return plan
        return dataclasses.replace(plan, start_from=plan.start_from - 1)

    return _decide(earlier)


@mutant("a prepared epoch is taken for committed")
def _() -> Patch:
    return _decide(lambda plan: dataclasses.replace(plan, skip_sink_commit=set(plan.recommit)))


@mutant("an epoch runs again without its logged end")
@contextmanager
def _() -> Iterator[None]:
    """With no prepared log, as Spark: see SPARK-continuous checkpoints."""

    def unbounded(plan: Any) -> Any:
        if plan.replay is None:
            return plan
        aside = (*plan.set_aside, (survey.OFFSETS, plan.replay))
        return dataclasses.replace(plan, replay=None, set_aside=aside)

    with _commit_in_order("oscl"), _decide(unbounded):
        yield


@mutant("offsets of another run go with the messages", ZOMBIES, first=58)
def _() -> Patch:
    return _replace(survey, "_compare", lambda *_: None)


# -- damage ---------------------------------------------------------------------------------------


@mutant("each attempt asks anew where the source begins", first=90)
def _() -> Patch:
    return _replace(query, "first_offset", lambda storage, stream, ask: ask())


@mutant("the checksum of what is prepared is ignored", DAMAGE, first=8)
def _() -> Patch:
    class Any(bytes):
        def __eq__(self, other: object) -> bool:
            return True

        __hash__ = bytes.__hash__

    return _replace(prepared_log, "_checksum", lambda version, body: Any(b"00000000"))


@mutant("the checksums of the files' log are ignored", DAMAGE)
def _() -> Patch:
    return _replace(file_sink_log, "fits", lambda data, twin: True)


@mutant("the query's id is not compared", DAMAGE)
def _() -> Patch:
    return _replace(survey, "_check_identity", lambda *_: None)


# -- the sinks ------------------------------------------------------------------------------------


@mutant("a sink that commits an epoch twice")
def _() -> Patch:
    def commit(sink: KeyedSink, messages: list[Any], epoch: int) -> None:
        sink.machine.step("sink", "sink")
        rows = [(p, seq) for message in messages for p, seq in message.rows]
        sink.put(epoch, sink.table.get(epoch, []) + rows)
        sink.machine.step("sink answers", "sink")

    return _replace(KeyedSink, "commit", commit)


@mutant("files are reported before they are fsynced")
def _() -> Patch:
    def finish(file: _OpenFile) -> SinkFile:
        with _replace(durable, "sync", lambda each: each.flush()):
            return right(file)

    right = _OpenFile.finish
    return _replace(_OpenFile, "finish", finish)


@mutant("the files' log takes an epoch twice, and is not asked before")
@contextmanager
def _() -> Iterator[None]:
    def add(log: FileSinkLog, epoch: int, files: list[SinkFile], *_: Any) -> bool:
        listing = log.listing()
        at = max(epoch, max(listing, default=-1) + 1)
        name = entry_name(at, 1_000_000)
        return log.storage.create(name, "\n".join(["v1", *(f.line() for f in files)]).encode())

    def commit_again(runner: EpochRunner, epochs: Sequence[int], _: Any) -> None:
        commit(runner, epochs, [each for each in epochs if runner._prepared.get(each) is None])

    commit = EpochRunner.commit_again
    with (
        _replace(FileSinkLog, "_add", add),
        _replace(EpochRunner, "commit_again", commit_again),
    ):
        yield


# -- several epochs together ----------------------------------------------------------------------


@mutant("what waits for the sink is acknowledged to the source", sink=TOGETHER)
def _() -> Patch:
    def log(runner: EpochRunner, *given: Any, **named: Any) -> None:
        right(runner, *given, **named)
        for source, end in zip(runner._sources, runner._logged[-1].offsets, strict=True):
            with suppress(OSError):
                source.commit(end)

    right = EpochRunner.log
    return _replace(EpochRunner, "log", log)
