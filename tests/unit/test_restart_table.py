"""The restart table: every state of the disk that can be told apart, and every crash."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

import pytest

from engine.coordinator.restart_table import (
    COMMITS,
    OFFSETS,
    PREPARED,
    TABLE,
    Disk,
    Finish,
    Log,
    RestartPlan,
    decide,
)
from engine.errors import CheckpointCorruptError, SinkAheadError


def plan(
    offsets: Collection[int] = (),
    commits: Collection[int] = (),
    prepared: Collection[int] = (),
    sink: int | None = None,
    torn: Mapping[str, Collection[int]] | None = None,
) -> RestartPlan:
    torn = torn or {}
    return decide(
        offsets_ids=offsets,
        commits_ids=commits,
        prepared=prepared,
        sink_epoch=sink,
        unreadable_offsets=torn.get(OFFSETS, ()),
        unreadable_commits=torn.get(COMMITS, ()),
        unreadable_prepared=torn.get(PREPARED, ()),
    )


# -- one story per row ----------------------------------------------------------------------------


def test_nothing_yet() -> None:
    assert plan() == RestartPlan(first_epoch=0, start_from=None)
    assert plan(sink=-1) == RestartPlan(first_epoch=0, start_from=None)


def test_all_committed() -> None:
    assert plan(range(8), range(8)) == RestartPlan(first_epoch=8, start_from=7)
    assert plan(range(8), range(8), range(8), sink=7) == RestartPlan(8, 7)
    # A sink that skips empty epochs is behind.
    assert plan(range(8), range(8), range(8), sink=3) == RestartPlan(8, 7)


def test_logs_that_retention_has_shortened() -> None:
    assert plan([6, 7], [6, 7], [6, 7]) == RestartPlan(first_epoch=8, start_from=7)
    # Each log for itself: a crash may come between the deletes.
    assert plan([5, 6, 7], [6, 7], [7]) == RestartPlan(8, 7)
    assert plan([6, 7], [4, 5, 6, 7]) == RestartPlan(8, 7)


def test_prepared_and_logged_is_finished() -> None:
    assert plan([0, 1], [0], [0, 1]) == RestartPlan(2, 1, recommit=(1,))
    assert plan([0], [], [0]) == RestartPlan(1, 0, recommit=(0,))
    assert plan([0, 1, 2, 3], [0], [1, 2, 3]) == RestartPlan(4, 3, recommit=(1, 2, 3))


def test_what_the_sink_has_is_not_committed_again() -> None:
    assert plan([0, 1], [0], [0, 1], sink=1) == RestartPlan(
        2, 1, recommit=(1,), skip_sink_commit=frozenset({1})
    )
    assert plan([0, 1], [0], [0, 1], sink=0) == RestartPlan(2, 1, recommit=(1,))
    # Even without the messages: they are not needed any more.
    assert plan([0, 1], [0], sink=1) == RestartPlan(
        2, 1, recommit=(1,), skip_sink_commit=frozenset({1})
    )


def test_prepared_and_not_logged_is_forgotten() -> None:
    assert plan([0], [0], [0, 1]) == RestartPlan(1, 0, set_aside=((PREPARED, 1),))
    assert plan([], [], [0]) == RestartPlan(0, None, set_aside=((PREPARED, 0),))


def test_logged_and_not_prepared_runs_again_to_its_end() -> None:
    """A checkpoint of Spark's micro-batches after a crash."""
    assert plan([0, 1], [0]) == RestartPlan(1, 0, replay=1)
    assert plan([0], []) == RestartPlan(0, None, replay=0)
    assert plan([0, 1], [0], sink=0) == RestartPlan(1, 0, replay=1)


def test_spark_logs_offsets_ahead_of_its_commits() -> None:
    """A checkpoint of Spark's continuous mode: the first may be in the sink, the others cannot."""
    assert plan(range(8), range(6)) == RestartPlan(6, 5, replay=6, set_aside=((OFFSETS, 7),))
    assert plan(range(4), []) == RestartPlan(
        0, None, replay=0, set_aside=((OFFSETS, 1), (OFFSETS, 2), (OFFSETS, 3))
    )


def test_finish_the_first_then_run_the_next_again() -> None:
    """Our crash after Spark's, or the other way round."""
    assert plan(range(6), range(2), [2, 3, 5]) == RestartPlan(
        4, 3, recommit=(2, 3), replay=4, set_aside=((OFFSETS, 5), (PREPARED, 5))
    )


def test_a_torn_newest_entry_is_set_aside() -> None:
    assert plan([0, 1], [0], torn={OFFSETS: [1]}) == RestartPlan(1, 0, set_aside=((OFFSETS, 1),))
    assert plan([0, 1], [0], [1], torn={OFFSETS: [1]}) == RestartPlan(
        1, 0, set_aside=((OFFSETS, 1), (PREPARED, 1))
    )
    assert plan([0, 1], [0, 1], torn={COMMITS: [1]}) == RestartPlan(
        1, 0, replay=1, set_aside=((COMMITS, 1),)
    )
    assert plan([0, 1], [0, 1], [1], torn={COMMITS: [1]}) == RestartPlan(
        2, 1, recommit=(1,), set_aside=((COMMITS, 1),)
    )
    assert plan([0], [0], [1], torn={PREPARED: [1]}) == RestartPlan(
        1, 0, set_aside=((PREPARED, 1),)
    )
    assert plan([0], [], torn={OFFSETS: [0]}) == RestartPlan(0, None, set_aside=((OFFSETS, 0),))


def test_torn_messages_are_not_needed_if_the_sink_can_tell() -> None:
    torn = {PREPARED: [1]}
    assert plan([0, 1], [0], [1], sink=1, torn=torn) == RestartPlan(
        2, 1, recommit=(1,), skip_sink_commit=frozenset({1})
    )
    assert plan([0, 1], [0], [1], sink=0, torn=torn) == RestartPlan(
        1, 0, replay=1, set_aside=((PREPARED, 1),)
    )
    with pytest.raises(CheckpointCorruptError, match="entry 1 of the prepared log"):
        plan([0, 1], [0], [1], sink=None, torn=torn)


@pytest.mark.parametrize(
    ("offsets", "commits", "torn", "text"),
    [
        ([0, 1, 3], [0], {}, "the offset log has a gap"),
        ([0, 1, 2, 3], [0, 1, 3], {}, "the commit log has a gap"),
        ([0, 1, 2], [0, 1, 2, 3], {}, "epoch 3 was committed without end offsets"),
        ([], [0], {}, "epoch 0 was committed without end offsets"),
        ([5, 6], [], {}, "the offset log begins at 5, but nothing was ever committed"),
        ([0, 1], [0, 1], {OFFSETS: [1]}, "entry 1 of the offset log cannot be read"),
        ([0, 1, 2], [0], {OFFSETS: [1]}, "entry 1 of the offset log cannot be read"),
        ([0, 1, 2], [0], {OFFSETS: [1, 2]}, "entry 1 of the offset log cannot be read"),
        ([0, 1, 2], [0, 1], {COMMITS: [0, 1]}, "entry 0 of the commit log cannot be read"),
        # A torn commit was a commit: its offsets cannot be missing as well.
        ([0, 1], [0, 1], {COMMITS: [1], OFFSETS: [1]}, "entry 1 of the offset log"),
    ],
)
def test_logs_that_contradict_each_other(
    offsets: list[int], commits: list[int], torn: dict[str, list[int]], text: str
) -> None:
    with pytest.raises(CheckpointCorruptError, match=text) as caught:
        plan(offsets, commits, torn=torn)
    assert "The offset log holds" in str(caught.value)
    assert "the commit log" in str(caught.value)


def test_errors_list_the_logs() -> None:
    with pytest.raises(CheckpointCorruptError) as caught:
        plan([0, 1, 2, 3, 5, 7, 8], [0], [1, 2])
    assert "The offset log holds 0-3, 5, 7-8, the commit log 0, the prepared log 1-2." in str(
        caught.value
    )


def test_old_damage_does_not_matter() -> None:
    torn = {OFFSETS: [0, 1], COMMITS: [0, 1]}
    assert plan(range(5), range(5), torn=torn) == RestartPlan(5, 4)


@pytest.mark.parametrize(
    ("offsets", "commits", "sink"),
    [([], [], 0), ([0, 1], [0, 1], 2), ([0, 1], [0], 2), ([0, 1], [0], 99)],
)
def test_a_sink_of_another_checkpoint(offsets: list[int], commits: list[int], sink: int) -> None:
    with pytest.raises(SinkAheadError, match=f"epoch {sink}.*The offset log holds"):
        plan(offsets, commits, sink=sink)


def test_a_torn_offset_entry_that_the_sink_knows_was_acted_upon() -> None:
    with pytest.raises(SinkAheadError):
        plan([0, 1], [0], sink=1, torn={OFFSETS: [1]})


# -- exactly one row ------------------------------------------------------------------------------


def test_exactly_one_row_matches_every_combination_of_facts() -> None:
    def disk(broken: bool, ahead: bool, log: Log, finish: Finish) -> Disk | None:
        o, c = {Log.EMPTY: (-1, -1), Log.EQUAL: (3, 3), Log.AHEAD: (5, 3)}[log]
        finishable = {Finish.ALL: o - c, Finish.SOME: 1, Finish.NONE: 0}[finish]
        found = Disk(
            o=o,
            c=c,
            s=o + 1 if ahead else None,
            fault="fault" if broken else None,
            finishable=tuple(range(c + 1, c + 1 + finishable)),
            set_aside=(),
            listing="",
        )
        # Of no epochs, all are finishable: four of the combinations cannot be.
        possible = finishable <= o - c and (found.log, found.finish) == (log, finish)
        return found if possible else None

    combinations = list(itertools.product((True, False), (True, False), Log, Finish))
    possible = [found for each in combinations if (found := disk(*each)) is not None]
    assert len(possible) == 4 * 5
    for found in possible:
        assert len([row for row in TABLE if row.matches(found)]) == 1, found
    for row in TABLE:
        assert any(row.matches(found) for found in possible), row


def subsets(ids: range) -> Iterator[tuple[int, ...]]:
    return itertools.chain.from_iterable(
        itertools.combinations(ids, size) for size in range(len(ids) + 1)
    )


def test_every_small_disk() -> None:
    """All logs over a few epochs, torn entries, and what the sink may say: a plan or an error, and
    every plan can be carried out and gives up nothing that anybody may have acted upon."""
    plans = 0
    for offsets, commits, prepared in itertools.product(
        subsets(range(4)), subsets(range(3)), subsets(range(4))
    ):
        tears: list[dict[str, Collection[int]]] = [{}]
        tears += [{OFFSETS: offsets[-1:]}] if offsets else []
        tears += [{COMMITS: commits[-1:]}] if commits else []
        tears += [{PREPARED: prepared[:1]}, {PREPARED: prepared}] if prepared else []
        for torn, sink in itertools.product(tears, (None, -1, 0, 1, 2, 3)):
            try:
                found = plan(offsets, commits, prepared, sink, torn)
            except (CheckpointCorruptError, SinkAheadError):
                continue
            plans += 1
            _check_plan(found, offsets, commits, prepared, sink, torn)
    assert plans > 1000


def _check_plan(
    found: RestartPlan,
    offsets: Collection[int],
    commits: Collection[int],
    prepared: Collection[int],
    sink: int | None,
    torn: dict[str, Collection[int]],
) -> None:
    story = (found, offsets, commits, prepared, sink, torn)
    set_aside = set(found.set_aside)
    whole = {
        log: set(ids) - set(torn.get(log, ()))
        for log, ids in ((OFFSETS, offsets), (COMMITS, commits), (PREPARED, prepared))
    }
    left = {
        log: {epoch for epoch in ids if (log, epoch) not in set_aside}
        for log, ids in ((OFFSETS, offsets), (COMMITS, commits), (PREPARED, prepared))
    }
    c = max(whole[COMMITS], default=-1)
    # Epochs go on from the last commit, without a gap.
    assert found.recommit == tuple(range(c + 1, c + 1 + len(found.recommit))), story
    assert found.first_epoch == c + 1 + len(found.recommit), story
    assert found.start_from == (found.first_epoch - 1 if found.first_epoch else None), story
    # What is read is there and whole.
    if found.start_from is not None:
        assert found.start_from in whole[OFFSETS] & left[OFFSETS], story
    for epoch in found.recommit:
        assert epoch in whole[OFFSETS] & left[OFFSETS], story
        assert epoch in found.skip_sink_commit or epoch in whole[PREPARED] & left[PREPARED], story
    # The sink is not told twice what it says it has, and what it has is never run again.
    assert found.skip_sink_commit == {e for e in found.recommit if sink is not None and e <= sink}
    assert sink is None or sink < found.first_epoch, story
    # What is written next is not in the way, except for the offsets of a replay.
    assert all(epoch < found.first_epoch for epoch in left[COMMITS] | left[PREPARED]), story
    assert not left[COMMITS].intersection(found.recommit), story
    assert {epoch for epoch in left[OFFSETS] if epoch >= found.first_epoch} == (
        set() if found.replay is None else {found.first_epoch}
    ), story
    assert found.replay in (None, found.first_epoch), story
    # Whole commits stay.
    assert whole[COMMITS] <= left[COMMITS], story
    # An epoch that the sink may have been told to commit is finished or run to the same end.
    told = c + 1
    if told in whole[OFFSETS]:
        assert told < found.first_epoch or found.replay == told, story


# -- every crash of the real protocols ------------------------------------------------------------


@dataclass
class World:
    """A checkpoint and a sink that lives beside it."""

    offsets: dict[int, str] = field(default_factory=dict)
    commits: set[int] = field(default_factory=set)
    prepared: dict[int, str] = field(default_factory=dict)
    sink: dict[int, str] = field(default_factory=dict)

    def commit_sink(self, epoch: int, content: str) -> None:
        """An idempotent sink: the first commit of an epoch counts."""
        self.sink.setdefault(epoch, content)

    def recover(self, sink_can_tell: bool, run: int) -> int:
        """Carry a plan out; the next epoch to begin with."""
        found = plan(
            self.offsets,
            self.commits,
            self.prepared,
            max(self.sink, default=-1) if sink_can_tell else None,
        )
        for log, epoch in found.set_aside:
            {OFFSETS: self.offsets, PREPARED: self.prepared}[log].pop(epoch)
        for epoch in found.recommit:
            if epoch not in found.skip_sink_commit:
                self.commit_sink(epoch, self.prepared[epoch])
            self.commits.add(epoch)
        if found.replay is None:
            return found.first_epoch
        # Run again, to the same end: the same rows.
        self.commit_sink(found.replay, self.offsets[found.replay])
        self.commits.add(found.replay)
        return found.first_epoch + 1

    def ours(self, epoch: int, rows: str) -> Iterator[None]:
        """The engine's protocol; a crash may come at every yield."""
        yield
        assert epoch not in self.prepared
        self.prepared[epoch] = rows
        yield
        assert epoch not in self.offsets
        self.offsets[epoch] = rows
        yield
        self.commit_sink(epoch, rows)
        yield
        assert epoch not in self.commits
        self.commits.add(epoch)
        yield

    def sparks(self, epoch: int, rows: str, ahead: int) -> Iterator[None]:
        """Spark's continuous mode: offsets may be logged some epochs ahead of the commit."""
        yield
        for further in range(epoch, epoch + ahead):
            self.offsets[further] = rows if further == epoch else f"{rows}+{further}"
            yield
        self.commit_sink(epoch, rows)
        yield
        self.commits.add(epoch)
        yield


@pytest.mark.parametrize("sink_can_tell", [True, False])
@pytest.mark.parametrize("ahead", [0, 1, 3], ids=["ours", "micro-batch", "continuous"])
def test_every_sequence_of_crashes(sink_can_tell: bool, ahead: int) -> None:
    """Three runs, each of which crashes after any step; then a check that each epoch is in the sink
    once, with the rows that its offsets tell."""
    steps = 7
    for crashes in itertools.product(range(2 * steps), repeat=3):
        world, epoch = World(), 0
        for run, crash in enumerate(crashes):
            epoch = world.recover(sink_can_tell, run)
            for _ in itertools.islice(_run(world, epoch, run, ahead), crash):
                pass
        epoch = world.recover(sink_can_tell, 3)
        assert world.commits == set(range(epoch)), crashes
        assert world.sink == {e: rows for e, rows in world.offsets.items() if e < epoch}, crashes
        assert set(world.offsets) == set(range(epoch)), crashes


def _run(world: World, epoch: int, run: int, ahead: int) -> Iterator[None]:
    for each in itertools.count(epoch):
        rows = f"rows of epoch {each} as run {run} read them"
        if ahead:
            for later in [further for further in world.offsets if further >= each]:
                del world.offsets[later]  # this run has got there itself
            yield from world.sparks(each, rows, ahead)
        else:
            yield from world.ours(each, rows)
