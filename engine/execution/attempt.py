"""One attempt to run a query: take the checkpoint, recover, and run epochs until something ends it.

An attempt that fails may be followed by another one of the same query in the same process (see
:mod:`engine.execution.restart_budget`). Each takes the checkpoint as a new generation, so that
whatever the one before has left behind, a task that hangs for example, is told apart.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event
from typing import Any

from engine.base.background import Background, not_at_all
from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.epoch_state import EpochState
from engine.checkpoint.first_offsets import first_offsets_folder
from engine.checkpoint.lease import Lease, read_holder
from engine.checkpoint.logs.offset_log import OffsetEntry, batch_metadata, carried_on
from engine.checkpoint.query_state import QueryState
from engine.coordinator.epoch_runner import EpochRunner, QueryEnds
from engine.coordinator.events import RunFailed
from engine.coordinator.restart_table import RestartPlan
from engine.errors import (
    CheckpointError,
    ConfigError,
    ContinuousError,
    NotEnoughSlotsError,
    PreparedEpochLostError,
    SinkUnavailableError,
    SourceError,
    StaleRunError,
)
from engine.exchange.key_groups import KEY_GROUPS
from engine.execution.admission import admit
from engine.execution.asked_reducers import asked_reducers, heeds
from engine.execution.definition import QueryDefinition
from engine.execution.ending import EndEvent
from engine.execution.handing_out import handings_out
from engine.execution.kept_partitions import with_partitions
from engine.execution.lease_keeper import LeaseKeeper
from engine.execution.query_start import QueryStart
from engine.execution.run import ContinuousRun
from engine.execution.shares import Share, Spread, shares, tasks_among
from engine.execution.slots import await_slots
from engine.execution.survey import plan_restart
from engine.execution.task_specs import Beginning, task_specs
from engine.execution.where_to_start import logged_entry, where_to_start
from engine.sinks.contract import WriterContext
from engine.sources.contract import Offset

logger = logging.getLogger(__name__)
_BACKGROUND_S = 5.0
SPREAD_LOOK_S = 10.0
"""Whether more slots have come is looked at so often."""


class Attempt:
    """See the module. Not reusable.

    :param read_s: when the tables that the streams are joined with were read, monotonic.
    :param lease: of the attempt before, until this one has its own.
    :ivar lease: its own, once it has taken the checkpoint; before, that of the attempt before.
    :ivar later: does what nobody waits for, until :meth:`run` returns.
    :ivar committed_offsets: where the last committed epoch ends, per stream; None before the first.
        A stream for which none is noted, as it had no data, has its start once that is known.
    :ivar starts: where each stream goes on, or begins.
    :ivar spread: all 0 before it is known.
    """

    def __init__(
        self,
        definition: QueryDefinition,
        start: QueryStart,
        read_s: float,
        lease: Lease | None = None,
    ) -> None:
        self.committed_offsets: tuple[Offset | None, ...] | None = None
        self.starts: tuple[Offset, ...] = ()
        self.is_reconfiguring = False
        self.spread = Spread()
        self._rescaling = Event()
        self._state = EpochState()
        """Behind the last committed epoch."""
        self._definition = definition
        self._start = start
        self._clock = start.clock
        self._read_s = read_s
        self._spread_looked_s = self._clock.monotonic_s()
        self.lease = lease
        self._keeper: LeaseKeeper | None = None
        self._timeline = 0
        self.later = Background("continuous-background")
        self._plan: RestartPlan | None = None
        self._found: list[tuple[Any, ...]] = []
        """The partitions of each stream."""
        self._shares: list[Share] = []
        self._run: ContinuousRun | None = None

    # -- before a task runs ---------------------------------------------------------------------

    def recover(self) -> None:
        """Take the checkpoint, finish what an earlier run has prepared, and see that the tasks
        will find slots, unless more may come.

        :raises ContinuousError: the query cannot go on from this checkpoint, or not now.
        """
        checkpoint = self._definition.checkpoint
        lease = self._take(checkpoint)
        with _blaming(SinkUnavailableError, "The sink could not recover"):
            self._timeline = admit(self._definition, lease).timeline
            plan = self._finish_prepared(lease)
        self.committed_offsets = self._logged_offsets(plan.start_from)
        in_batches = any(each.reader.runsInBatches for each in self._definition.streams)
        if self._runner.metadata is None and in_batches:
            self._runner.metadata = batch_metadata(self._clock.now_ms())
        self._find_partitions()
        self._share(plan.done)
        if not self._start.launcher.supply.grows:  # then it is a matter of how Spark was started
            self._await_slots(plan.done)
        self._plan = plan
        self._start.listener.on_recovered(plan.first_epoch - 1)

    def _finish_prepared(self, lease: Lease) -> RestartPlan:
        """Commit what earlier runs have prepared; the plan for what is left to do."""
        sink, runner = self._definition.sink, self._runner
        while True:
            plan = plan_restart(self._definition.checkpoint, sink, lease.check)
            runner.rewound = plan.rewound
            try:
                runner.commit_again(plan.recommit, plan.skip_sink_commit)
            except PreparedEpochLostError as exc:
                logger.warning("%s", exc.message)  # which is in the checkpoint by now
                continue
            return plan

    @property
    def _groups(self) -> int:
        """How many key groups the query has: what it began with.

        :raises ConfigError: the option says something else.
        """
        kept, asked = self._state.key_groups, self._definition.options.key_groups
        if kept and asked and kept != asked:
            raise ConfigError(
                f"Option keyGroups is {asked}, and the state in "
                f"{self._definition.checkpoint.url} has {kept} key groups.",
                hint=f"Leave the option out, or set it to {kept}: the number is fixed with the "
                "first epoch of a checkpoint.",
            )
        return kept or asked or KEY_GROUPS

    def _take(self, checkpoint: Checkpoint) -> Lease:
        definition, options = self._definition, self._definition.options
        start, launcher = self._start, self._start.launcher
        lease = self.lease = Lease.acquire(
            checkpoint,
            run_id=start.run_id,
            application=launcher.application,
            application_url=launcher.application_url,
            heartbeat_interval_ms=options.lease_heartbeat_ms,
            clock=self._clock,
            lost=definition.lost,
        )
        self._keep(lease, checkpoint)  # a sink may take its time to recover
        readers = [stream.reader for stream in definition.streams]
        self._runner = EpochRunner(
            checkpoint,
            lease,
            QueryEnds(start.query_id, readers, definition.sink),
            min_epochs_to_retain=options.min_epochs_to_retain,
            later=self.later if definition.tells_sources else not_at_all,
        )
        self._runner.keeps_time = definition.keeps_state or bool(definition.delays_ms)
        return lease

    def _keep(self, lease: Lease, checkpoint: Checkpoint) -> None:
        self._keeper = LeaseKeeper(
            lease, checkpoint, self._hear, self._clock, self._rescale, self._start.news
        )
        self._keeper.start(self._start.listener.look)

    def _hear(self, event: EndEvent) -> None:
        """What the lease's keeper tells."""
        if isinstance(event, RunFailed) and self._is_fenced_by_itself(event.error):
            return
        self._start.ending.ask(event)

    def _rescale(self) -> None:
        """Another number of tasks is asked for."""
        if heeds(self._definition, None if self._plan is None else self._groups):
            self._rescaling.set()

    def _is_fenced_by_itself(self, error: Exception) -> bool:
        """Whether it was an attempt of this run that has claimed the checkpoint, and could not
        write all that belongs to it. The next attempt claims it again."""
        if not isinstance(error, StaleRunError) or self.lease is None:
            return False
        try:
            holder = read_holder(self._definition.checkpoint.storage)
        except CheckpointError:  # who it is is asked again by the next attempt
            return False
        if holder is None or holder.run_id != self._start.run_id:
            return False
        return holder.generation > self.lease.generation

    def _logged_offsets(self, epoch: int | None) -> tuple[Offset | None, ...] | None:
        """Where the streams end, and of what is there behind that epoch the rest.

        :param epoch: committed, says the plan; None: there is none.
        """
        if epoch is None:
            return None
        entry = self._logged_entry(epoch)
        self._runner.metadata = carried_on(entry.metadata)
        self._state = EpochState.of(entry)
        return entry.offsets

    def _logged_entry(self, epoch: int) -> OffsetEntry:
        definition = self._definition
        return logged_entry(definition.checkpoint, len(definition.streams), epoch)

    def _find_partitions(self) -> None:
        """Of each stream, from the committed offsets on."""
        streams, storage = self._definition.streams, self._definition.checkpoint.storage
        with _blaming(SourceError, "The source cannot tell its partitions"):
            for index, each in enumerate(streams):
                if each.reader.keepsLog:
                    each.reader.openLog(storage, first_offsets_folder(index))
            committed = self.committed_offsets or (None,) * len(streams)
            self.starts = tuple(
                where_to_start(storage, index, stream.reader, offset)
                for index, (stream, offset) in enumerate(zip(streams, committed, strict=True))
            )
            if self.committed_offsets is not None:
                self.committed_offsets = self.starts
            found = self._found = [
                tuple(stream.reader.partitions(start))
                for stream, start in zip(streams, self.starts, strict=True)
            ]
        empty = [
            stream.description for stream, each in zip(streams, found, strict=True) if not each
        ]
        if empty:
            raise SourceError(
                f"The source {', '.join(empty)} has no partitions.",
                hint="Its partitions(start) must return at least one.",
            )

    def _share(self, done: frozenset[str] = frozenset()) -> None:
        """Which task reads which partitions.

        :param done: of an epoch that is run again; tasks of these names are there.
        """
        found, slots = self._found, self._start.launcher.slots()
        counts = [len(each) for each in found]
        split = self._start.sharing.split(
            counts,
            None if slots is None else slots.total,
            self._definition.reducers(sum(counts), self._groups, asked_reducers(self._definition)),
            tasks_among(done, len(found), self._groups),
        )
        self._shares = shares(found, split, self._groups)
        readers = sum(each.stage < len(found) for each in self._shares)
        self.spread = Spread(sum(counts), readers, len(split))
        self._runner.tasks = [share.names for share in self._writing]
        if self._definition.keeps_state:
            self._runner.key_groups = self._groups
            self._state = with_partitions(self._definition, found, self._state)
            self._runner.partitions = self._state.partitions

    @property
    def _writing(self) -> list[Share]:
        """Of the tasks whose rows go to the sink."""
        pipelines = self._definition.pipelines
        return [share for share in self._shares if pipelines[share.stage].exchange is None]

    def _await_slots(self, done: frozenset[str]) -> None:
        """Returns early if the end is asked for.

        :param done: see :meth:`_share`.
        :raises NotEnoughSlotsError: they do not come, and the query cannot do with those there are.
        """
        launcher, ending = self._start.launcher, self._start.ending
        supply = launcher.supply
        try:
            await_slots(
                self._start.sharing.demand,
                launcher.slots,
                grows=supply.grows,
                limit_s=supply.limit_s(self._definition.options),
                clock=self._clock,
                pause=lambda seconds: not ending.wait(seconds),
                say=self._start.listener.on_waiting,
            )
        except NotEnoughSlotsError as exc:
            if not self._start.sharing.squeeze(exc.free):
                raise
            self._share(done)
            logger.warning(
                "%s %d partitions share %d tasks until there are more slots",
                exc.message,
                self.spread.partitions,
                self.spread.readers,
            )
            self._start.listener.on_waiting(None)
            self._await_slots(done)  # they may be taken by now

    # -- epochs ---------------------------------------------------------------------------------

    def run(self) -> ContinuousError | None:
        """Recover if that is still to be done, and run epochs until the end; why the attempt
        failed, or None if it ended as asked."""
        try:
            if self._plan is None:
                self.recover()
            assert self._plan is not None
            self._await_slots(self._plan.done)
            error, next_epoch = None, self._plan.first_epoch
            if self._plan.replay is not None and not self._start.ending.is_asked:
                error, next_epoch = self._replay(next_epoch), next_epoch + 1
            if error is None and not self._start.ending.is_asked:
                now_ms = self._clock.now_ms()
                error = self._run_epochs(Beginning.behind(self._state, next_epoch, now_ms))
        except ContinuousError as exc:
            error = exc
        else:
            if isinstance(error, NotEnoughSlotsError) and self._start.sharing.squeeze(error.free):
                logger.warning("%s Its partitions share %d slots", error.message, error.free)
                error, self.is_reconfiguring = None, not self._start.ending.is_asked
        finally:
            if not self.later.close(_BACKGROUND_S):
                logger.warning("the cleaning up behind the last epoch hangs, and is left behind")
        return error or self._start.ending.error

    def replay(self) -> ContinuousError | None:
        """Recover, and run only the epoch that is logged and not committed; why that failed."""
        try:
            self.recover()
            assert self._plan is not None
            assert self._plan.replay is not None, "an epoch is logged and not committed"
            return self._run_logged(self._plan.replay)[1]
        finally:
            self.later.close(_BACKGROUND_S)

    def _replay(self, epoch: int) -> ContinuousError | None:
        entry, error = self._run_logged(epoch)
        if error is None:
            self.committed_offsets, self._state = self._ends(entry), EpochState.of(entry)
            self._find_partitions()
            self._share()
        return error

    def _run_logged(self, epoch: int) -> tuple[OffsetEntry, ContinuousError | None]:
        """Run an epoch again whose end an earlier run (Spark's, which prepares nothing) has logged
        and perhaps published in part: exactly to that end."""
        entry = self._logged_entry(epoch)
        assert self._plan is not None
        logger.info("running epoch %d again, to its logged offsets", epoch)
        beginning = Beginning.behind(self._state, epoch, self._clock.now_ms())
        logged = beginning.replayed(EpochState.of(entry), self._ends(entry), self._plan.done)
        return entry, self._run_epochs(logged)

    def _ends(self, entry: OffsetEntry) -> tuple[Offset, ...]:
        """A stream that had no data yet ends where it begins."""
        ends = zip(entry.offsets, self.starts, strict=True)
        return tuple(start if end is None else end for end, start in ends)

    def _run_epochs(self, beginning: Beginning) -> ContinuousError | None:
        fence_tasks = self._definition.sink.driver.fence_tasks
        if fence_tasks is not None:
            with _blaming(SinkUnavailableError, "The sink cannot shut out earlier tasks"):
                fence_tasks()
        with _blaming(SourceError, "The source cannot tell what there is to read"):
            finding = handings_out(self._definition.streams, self.starts, beginning.until)
        assert self.lease is not None
        identity = WriterContext(
            query_id=self._start.query_id,
            run_id=self._start.run_id,
            generation=self.lease.generation,
            timeline=self._timeline,
            task=0,
            tasks=len(self._writing),
        )
        run = ContinuousRun(
            self._start,
            self._definition,
            task_specs(self._definition, self._shares, identity, beginning, self._groups),
            self._runner,
            source_changed=self._source_changed,
            is_due=lambda: self._rescaling.is_set() or self.is_refresh_due or self._finds_slots(),
            finding=finding,
        )
        self._run = run
        with self._start.ending.telling(run.tell), self._start.wanted.telling(run.tell):
            error = run.run()
        self._run = None
        self.is_reconfiguring = (
            run.is_reconfiguring and error is None and not self._start.ending.is_asked
        )
        return error

    @property
    def is_refresh_due(self) -> bool:
        """Whether tables have to be read again."""
        interval_ms = self._definition.options.refresh_interval_ms
        if interval_ms is None or self._definition.read_again is None:
            return False
        return (self._clock.monotonic_s() - self._read_s) * 1000 >= interval_ms

    def _source_changed(self) -> bool:
        with _blaming(SourceError, "The source cannot tell its partitions"):
            return any(s.reader.needsReconfiguration() for s in self._definition.streams)

    def _finds_slots(self) -> bool:
        """Whether the next attempt will have more tasks: slots have come."""
        now_s = self._clock.monotonic_s()
        if now_s - self._spread_looked_s < SPREAD_LOOK_S:
            return False
        self._spread_looked_s = now_s
        with _blaming(ContinuousError, "The cluster cannot tell its slots"):
            return self._start.sharing.spread(self._start.launcher.slots())

    # -- the end --------------------------------------------------------------------------------

    def keep_checkpoint(self) -> None:
        """Go on renewing the lease: that of the attempt before, if this one has none of its own."""
        if self._keeper is None and self.lease is not None:
            self._keep(self.lease, self._definition.checkpoint)

    @property
    def open_epoch(self) -> int | None:
        """The epoch that records arriving now belong to; None while no tasks run."""
        run = self._run
        return None if run is None else run.open_epoch

    @property
    def is_this_thread(self) -> bool:
        """Whether the caller is inside a commit of this attempt."""
        run = self._run
        return run is not None and run.is_this_thread

    def owns_checkpoint(self) -> bool:
        """Whether the lease is still ours."""
        try:
            if self.lease is not None:
                self.lease.check()
        except StaleRunError:
            return False
        return self.lease is not None

    def let_go(self) -> Lease | None:
        """Make room for the next attempt, which has to follow at once, and gets the lease.

        :raises StaleRunError: another run has taken the checkpoint.
        """
        self._stop_keeper()
        try:
            if self.lease is not None:
                self.lease.check()
        except StaleRunError as exc:
            if not self._is_fenced_by_itself(exc):
                raise
        except CheckpointError as exc:  # the next attempt meets it, too, and has a budget for it
            logger.warning("the lease could not be looked at: %s", exc)
        return self.lease

    def release(self, state: QueryState, error: ContinuousError | None) -> None:
        """Give the checkpoint back.

        :raises CheckpointError: the storage cannot be written; the lease will expire.
        """
        self._stop_keeper()
        if self.lease is not None:
            told = str(error) if error else None
            self.lease.release(state, told, self._start.listener.look(), error)

    def _stop_keeper(self) -> None:
        if self._keeper is not None:
            self._keeper.stop()


@contextmanager
def _blaming(kind: type[ContinuousError], what: str) -> Iterator[None]:
    """Foreign errors of a source, a sink or a cluster become errors of the engine, which has
    budgets for them."""
    try:
        yield
    except ContinuousError:
        raise
    except Exception as exc:
        raise kind(f"{what}: {type(exc).__name__}: {exc}") from exc
