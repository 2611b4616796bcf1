"""What to do after whatever happened before: the restart table.

Pure: the state of the disk goes in, a plan or an error comes out. An epoch is made durable in this
order (:mod:`engine.coordinator.epoch_runner`), and a crash can come between any two steps::

    prepared/<e>  →  offsets/<e>  →  sink.commit(e)  →  commits/<e>

The state of the disk is told by four numbers::

    c   the newest entry of the commit log, -1 if there is none
    o   the newest entry of the offset log, -1 if there is none
    f   the end of the epochs c+1, c+2, ... that can be finished as they are: their writer messages
        are in the prepared log, or the sink says that it has them
    s   the newest epoch in the sink, if it can tell

:data:`TABLE` has one row per state; exactly one matches.

Entries that nobody can have acted upon are set aside before a row is looked for, and are deleted
before the first epoch starts:

- the newest offset entry beyond ``c``, if it is torn: the sink is only told to commit after the
  entry is durable;
- the newest commit entry, if it is torn: its epoch is finished or run again to the very same
  offsets, so nobody who saw it as committed was told a lie;
- prepared entries beyond ``o``: nothing says where their epoch ends;
- what a run has written behind a rewind that it slept through
  (:mod:`engine.coordinator.late_entries`): its epoch belongs to a history that was taken back;
- offset entries behind the first epoch that cannot be finished: the sink commits in order, so it
  has seen none of them. Spark's continuous mode leaves such entries, and after a restart commits
  them for other rows than they were written for (a loss of rows).

Source: Spark's ContinuousExecution.getStartOffsets (which ignores offsets beyond the last commit)
and MicroBatchExecution.populateStartOffsets (which runs such an epoch again).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from engine.base.listing import runs_of
from engine.errors import CheckpointCorruptError, SinkAheadError

OFFSETS = "offsets"
COMMITS = "commits"
PREPARED = "prepared"


@dataclass(frozen=True)
class RestartPlan:
    """What a start does, in the order of the fields.

    :param set_aside: (log, epoch) of entries to delete first: ``("offsets", 7)``.
    :param recommit: epochs to finish, in this order: commit them in the sink, then in the log.
    :param skip_sink_commit: those of ``recommit`` that the sink already has.
    :param start_from: resume from the end offsets of this epoch; None: from the source's initial
        offsets.
    :param first_epoch: the epoch that the tasks begin with.
    :param replay: equal to ``first_epoch`` if that epoch has to end at exactly the offsets that the
        offset log already holds for it, because the sink may have seen it; otherwise None.
    :param rewound: whether the checkpoint was ever rewound: a fact beside the plan.
    :param done: the names of partitions whose rows of ``replay`` the sink has: a fact as well.
    """

    first_epoch: int
    start_from: int | None
    recommit: tuple[int, ...] = ()
    skip_sink_commit: frozenset[int] = frozenset()
    replay: int | None = None
    set_aside: tuple[tuple[str, int], ...] = ()
    rewound: bool = field(default=False, compare=False)
    done: frozenset[str] = field(default=frozenset(), compare=False)


def decide(
    *,
    offsets_ids: Collection[int],
    commits_ids: Collection[int],
    prepared: Collection[int] = (),
    sink_epoch: int | None = None,
    unreadable_offsets: Collection[int] = (),
    unreadable_commits: Collection[int] = (),
    unreadable_prepared: Collection[int] = (),
    late: Collection[tuple[str, int]] = (),
) -> RestartPlan:
    """Look the state of the disk up in the table.

    :param offsets_ids: all entries of the offset log, torn ones included.
    :param commits_ids: all entries of the commit log, torn ones included.
    :param prepared: all entries of the prepared log, torn ones included.
    :param sink_epoch: the newest epoch in the sink; None if it cannot tell, -1 if it has none.
    :param unreadable_offsets: those of ``offsets_ids`` that were tried and cannot be read.
    :param unreadable_commits: those of ``commits_ids`` that were tried and cannot be read.
    :param unreadable_prepared: those of ``prepared`` that were tried and cannot be read.
    :param late: (log, epoch) of entries that came behind a rewind; not among the others.
    :raises CheckpointCorruptError: the logs contradict each other; lists both.
    :raises SinkAheadError: the sink holds epochs that this checkpoint has never logged.
    """
    disk = _survey(
        sorted(offsets_ids),
        sorted(commits_ids),
        frozenset(prepared),
        sink_epoch,
        frozenset(unreadable_offsets),
        frozenset(unreadable_commits),
        frozenset(unreadable_prepared),
        late,
    )
    (row,) = (row for row in TABLE if row.matches(disk))
    return row.outcome(disk)


# -- the facts ------------------------------------------------------------------------------------


class Log(Enum):
    """The offset log against the commit log."""

    EMPTY = "both are empty"
    EQUAL = "o = c"
    AHEAD = "o > c"


class Finish(Enum):
    """How many of the epochs c+1..o can be finished as they are."""

    ALL = "all (or there are none)"
    SOME = "the first ones"
    NONE = "none, though there are some"


class Disk(NamedTuple):
    """The state of the disk, entries that are set aside left out.

    :param fault: what is wrong with the logs, or None.
    :param finishable: the epochs from c+1 on that can be finished.
    """

    o: int
    c: int
    s: int | None
    fault: str | None
    finishable: tuple[int, ...]
    set_aside: tuple[tuple[str, int], ...]
    listing: str

    @property
    def log(self) -> Log:
        if self.o == self.c:
            return Log.EMPTY if self.o < 0 else Log.EQUAL
        return Log.AHEAD

    @property
    def sink_ahead(self) -> bool:
        return self.s is not None and self.s > self.o

    @property
    def finish(self) -> Finish:
        if len(self.finishable) == self.o - self.c:
            return Finish.ALL
        return Finish.SOME if self.finishable else Finish.NONE


def _survey(
    offsets: list[int],
    commits: list[int],
    prepared: frozenset[int],
    s: int | None,
    torn_offsets: frozenset[int],
    torn_commits: frozenset[int],
    torn_prepared: frozenset[int],
    late: Collection[tuple[str, int]],
) -> Disk:
    set_aside: list[tuple[str, int]] = list(late)
    listing = (
        f"The offset log holds {runs_of(offsets)}, the commit log {runs_of(commits)}, "
        f"the prepared log {runs_of(sorted(prepared))}."
    )
    once_committed = commits[-1] if commits else -1
    if commits and commits[-1] in torn_commits:
        set_aside.append((COMMITS, commits.pop()))
    c = commits[-1] if commits else -1
    if offsets and offsets[-1] in torn_offsets and offsets[-1] > once_committed:
        set_aside.append((OFFSETS, offsets.pop()))
    fault = _fault(offsets, commits, torn_offsets, torn_commits)
    o = offsets[-1] if offsets else -1
    finishable: list[int] = []
    for epoch in range(c + 1, o + 1):
        in_sink = s is not None and epoch <= s
        if not in_sink and epoch in torn_prepared and s is None:
            # The sink may have it and cannot say so. Told the same messages, it would skip what it
            # has; they are lost, and other ones, of a second run of the epoch, would repeat rows.
            fault = fault or f"entry {epoch} of the prepared log cannot be read"
        if not in_sink and epoch not in prepared - torn_prepared:
            break
        finishable.append(epoch)
    # The first epoch that cannot be finished keeps its offsets: it runs again up to them.
    kept = c + len(finishable) + 1
    set_aside += [(OFFSETS, epoch) for epoch in offsets if epoch > kept]
    set_aside += [(PREPARED, epoch) for epoch in sorted(prepared) if epoch >= kept]
    return Disk(o, c, s, fault, tuple(finishable), tuple(sorted(set_aside)), listing)


def _fault(
    offsets: list[int],
    commits: list[int],
    torn_offsets: frozenset[int],
    torn_commits: frozenset[int],
) -> str | None:
    c = commits[-1] if commits else -1
    for name, ids in (("offset", offsets), ("commit", commits)):
        if ids and ids != list(range(ids[0], ids[-1] + 1)):
            return f"the {name} log has a gap"
    if c >= 0 and c not in offsets:
        return f"epoch {c} was committed without end offsets"
    if c < 0 and offsets and offsets[0] != 0:
        return f"the offset log begins at {offsets[0]}, but nothing was ever committed"
    for name, ids, torn in (("offset", offsets, torn_offsets), ("commit", commits, torn_commits)):
        needed = sorted(epoch for epoch in torn.intersection(ids) if epoch >= c)
        if needed:
            return f"entry {needed[0]} of the {name} log cannot be read"
    return None


# -- the outcomes ---------------------------------------------------------------------------------


def _stop_corrupt(disk: Disk) -> RestartPlan:
    raise CheckpointCorruptError(
        f"The checkpoint cannot be continued: {disk.fault}. {disk.listing}",
        hint="Restore the checkpoint from a copy, or start the query with a new one.",
    )


def _stop_sink_ahead(disk: Disk) -> RestartPlan:
    raise SinkAheadError(
        f"The sink has committed epoch {disk.s}, but the checkpoint has never logged it. "
        f"{disk.listing}",
        hint="The sink belongs to another checkpoint: use that one, or another sink.",
        epoch=disk.s,
    )


def _start_anew(disk: Disk) -> RestartPlan:
    return RestartPlan(first_epoch=0, start_from=None, set_aside=disk.set_aside)


def _resume(disk: Disk) -> RestartPlan:
    """Finish what can be finished, then go on behind it."""
    done = disk.c + len(disk.finishable)
    return RestartPlan(
        first_epoch=done + 1,
        start_from=done if done >= 0 else None,
        recommit=disk.finishable,
        skip_sink_commit=frozenset(
            epoch for epoch in disk.finishable if disk.s is not None and epoch <= disk.s
        ),
        replay=done + 1 if done < disk.o else None,
        set_aside=disk.set_aside,
    )


# -- the table ------------------------------------------------------------------------------------

_ANY = None


@dataclass(frozen=True)
class Row:
    """One state of the disk. None in a column matches everything."""

    broken: bool | None
    sink_ahead: bool | None
    log: Log | None
    finish: Finish | None
    outcome: Callable[[Disk], RestartPlan]

    def matches(self, disk: Disk) -> bool:
        facts = (disk.fault is not None, disk.sink_ahead, disk.log, disk.finish)
        return all(
            wanted is _ANY or wanted is fact
            for wanted, fact in zip(
                (self.broken, self.sink_ahead, self.log, self.finish), facts, strict=True
            )
        )


TABLE = (
    #    broken  s > o  offset log  finishable
    Row(True, _ANY, _ANY, _ANY, _stop_corrupt),
    Row(False, True, _ANY, _ANY, _stop_sink_ahead),
    Row(False, False, Log.EMPTY, _ANY, _start_anew),
    Row(False, False, Log.EQUAL, _ANY, _resume),  # go on at c+1
    Row(False, False, Log.AHEAD, Finish.ALL, _resume),  # commit c+1..o, go on at o+1
    Row(False, False, Log.AHEAD, Finish.SOME, _resume),  # commit the first, run the next again
    Row(False, False, Log.AHEAD, Finish.NONE, _resume),  # run c+1 again, to its logged offsets
)
