"""What the random walks have found, each as a story of its own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from engine.base.durable import make_folder
from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.first_offsets import first_offset
from engine.checkpoint.logs.commit_log import CommitEntry
from engine.checkpoint.logs.offset_log import OffsetEntry
from engine.checkpoint.logs.prepared_log import PreparedEntry
from engine.checkpoint.storage.local_storage import LocalStorage
from engine.errors import CheckpointCorruptError, StaleRunError
from engine.execution.survey import plan_restart
from tests.faults import l0_model, outages
from tests.faults.processes import EXECUTORS, KILL, SLEEP, Fuse, Machine, Process
from tests.faults.query import CHECKPOINT
from tests.faults.result import LevelResult
from tests.faults.world import TOGETHER, World
from tests.model import ModelMessage, ModelSink, model_binding

SINK = model_binding(ModelSink())


def offsets(seq: int) -> OffsetEntry:
    return OffsetEntry(({"0": seq},))


def prepared(seq: int) -> PreparedEntry:
    """Of an epoch that ends at ``seq``."""
    return PreparedEntry(0, "a run", (ModelMessage([[0, seq - 1]]),), f'v1\n\n{{"0":{seq}}}')


def committed(checkpoint: Checkpoint, epoch: int, seq: int) -> None:
    checkpoint.prepared.add(epoch, prepared(seq))
    checkpoint.offsets.add(epoch, offsets(seq))
    checkpoint.commits.add(epoch, CommitEntry())


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    return Checkpoint(str(tmp_path))


def test_offsets_of_another_run_do_not_go_with_the_messages(checkpoint: Checkpoint) -> None:
    """A run was suspended before it wrote its offsets, and wrote them after another one had
    prepared the same epoch with other records."""
    committed(checkpoint, 0, 3)
    checkpoint.prepared.add(1, prepared(9))
    checkpoint.offsets.add(1, offsets(7))
    plan = plan_restart(checkpoint, SINK)
    assert (plan.recommit, plan.start_from, plan.replay) == ((1,), 1, None)
    assert checkpoint.offsets.get(1) == offsets(9)


def fenced() -> None:
    raise StaleRunError("another run has taken the checkpoint")


def test_a_recovery_that_was_fenced_changes_nothing(checkpoint: Checkpoint) -> None:
    """It was suspended between its look and what it found to do; another run went on."""
    committed(checkpoint, 0, 3)
    checkpoint.prepared.add(1, prepared(9))
    with pytest.raises(StaleRunError):
        plan_restart(checkpoint, SINK, fenced)
    assert checkpoint.prepared.ids() == [0, 1]
    checkpoint.offsets.add(1, offsets(7))
    with pytest.raises(StaleRunError):
        plan_restart(checkpoint, SINK, fenced)
    assert checkpoint.offsets.get(1) == offsets(7)


def test_the_late_write_of_a_purged_epoch_does_not_stop_a_restart(checkpoint: Checkpoint) -> None:
    checkpoint.offsets.add(2, offsets(1))
    for epoch in (5, 6):
        committed(checkpoint, epoch, epoch)
    assert plan_restart(checkpoint, SINK).start_from == 6


def test_changed_offsets_of_the_committed_epoch_are_refused(checkpoint: Checkpoint) -> None:
    committed(checkpoint, 0, 3)
    checkpoint.offsets.restore(0, 'v1\n\n{"0":5}')
    with pytest.raises(CheckpointCorruptError, match=r'"0":5.*"0":3.*delete prepared/0'):
        plan_restart(checkpoint, SINK)
    checkpoint.prepared.delete(0)
    assert plan_restart(checkpoint, SINK).start_from == 0


def test_a_folder_of_a_process_that_died_while_making_it_is_kept() -> None:
    world = World(0)
    with world.installed():
        machine: Machine = world.machine
        died = Process(machine, "died", "a")
        assert not died.run(lambda: make_folder(Path("/checkpoint/offsets")), Fuse(KILL, 2))
        make_folder(Path("/checkpoint/offsets"))
        machine.lose_power()
        assert machine.disk.stat("/checkpoint/offsets")


def test_what_a_dead_run_has_left_is_durable_before_it_is_acted_upon() -> None:
    world = World(0, sink="table")
    with world.installed():
        writer = Checkpoint(CHECKPOINT)
        writer.prepared.add(0, prepared(3))
        died = Process(world.machine, "died", "a")
        # Killed between the link of offsets/0 and the fsync of its folder.
        assert not died.run(lambda: writer.offsets.add(0, offsets(3)), Fuse(KILL, 8))
        assert writer.offsets.ids() == [0]
        assert plan_restart(writer, SINK).recommit == (0,)
        world.machine.disk.lose_power(Random(1))
        assert writer.offsets.ids() == [0]


def test_a_connection_is_not_heard_from_its_middle() -> None:
    """A driver slept while its task said that it has started; another run got that message. What
    the task says next is on the same connection: the sleeper does not hear it either."""
    world = World(3, sink="table")
    world.begun_by_spark = True  # the last epoch runs again: its tasks end it by themselves
    with world.installed():
        sleeper = world.start_driver()
        sleeper.frozen = True
        world.pass_time(11)
        assert world.start_driver().started
        while world.inbox:
            world.deliver(0)
        assert world.wake(sleeper) is None
        for task in sleeper.tasks:
            world.read(task, 10)
            world.report(task)
        while world.inbox:
            world.deliver(0)
        world.carry_out(sleeper)
        assert sleeper.coordinator.started == set()
        assert sleeper.coordinator.reports == {}


def test_what_a_rewind_has_moved_does_not_come_back_with_a_power_loss() -> None:
    """Its removal was not on the disk when the rewind was over: the epochs were committed again,
    and the sink did not have them any more."""
    world = World(0, sink="table")
    with world.installed():
        checkpoint = Checkpoint(CHECKPOINT, clock=world.machine.clock)
        checkpoint.create_or_read_query_id("the query")
        for epoch in range(3):
            committed(checkpoint, epoch, epoch + 1)
        rewinder = Process(world.machine, "rewinder", "a")
        assert rewinder.run(lambda: checkpoint.rewind(0, sink=world.sink))
        for seed in range(9):
            world.machine.disk.lose_power(Random(seed))
        assert (checkpoint.commits.ids(), checkpoint.offsets.ids()) == ([0], [0])
        assert checkpoint.prepared.ids() == [0]


def test_late_messages_of_the_epoch_that_was_rewound_to_do_not_stop_a_restart(
    checkpoint: Checkpoint,
) -> None:
    """A run slept while another one committed the epoch with other records and dropped what it had
    prepared for it; the query was rewound to that epoch before the sleeper woke."""
    checkpoint.create_or_read_query_id("the query")
    for epoch in range(3):
        committed(checkpoint, epoch, epoch + 1)
    checkpoint.prepared.delete(1)
    checkpoint.rewind(1, accept_repeats=True)
    checkpoint.prepared.add(1, prepared(9))
    assert plan_restart(checkpoint, SINK).start_from == 1
    checkpoint.offsets.restore(1, 'v1\n\n{"0":5}')
    with pytest.raises(CheckpointCorruptError, match="delete prepared/1"):
        plan_restart(checkpoint, SINK)


def test_a_run_is_not_well_once_another_has_claimed_its_checkpoint() -> None:
    """A driver is suspended behind its claim; the one before wakes up, and still has its own. Were
    its executors lost now, it would rightly be refused by the claim: that is no outage to bear."""
    world = World(0, sink="table")
    world.backlog_max = 4
    with world.installed():
        earlier = world.start_driver()
        while world.inbox:
            world.deliver(0)
        earlier.frozen = True
        world.pass_time(11)
        claimer = world.start_driver(Fuse(SLEEP, 6))
        assert (claimer.generation, world.newest_claim()) == (None, 1)
        world.wake(earlier)
        outages.survive(world, earlier, EXECUTORS, outages.REPLACED_AFTER_S)
        assert not world.machine.faults[f"{EXECUTORS} is down"]
        assert not world.broken


@pytest.mark.parametrize("seed", [3120, 5010])
def test_a_world_that_broke_once(seed: int) -> None:
    """What happens in a world changes with the faults that there are: its story is above, too."""
    result = LevelResult("")
    l0_model.walk(seed, result)
    assert result.faults
    assert not result.broken


# -- several epochs that are logged and not committed ---------------------------------------------


def logged(checkpoint: Checkpoint, *epochs: int) -> None:
    """Behind epoch 0, which is committed."""
    committed(checkpoint, 0, 3)
    for epoch in epochs:
        checkpoint.prepared.add(epoch, prepared(3 + epoch))
        checkpoint.offsets.add(epoch, offsets(3 + epoch))


class KilledError(Exception):
    pass


def test_what_is_set_aside_leaves_no_gap_whenever_it_ends(checkpoint: Checkpoint) -> None:
    """The table has changed, so the first of four epochs has to run again."""
    logged(checkpoint, 1, 2, 3, 4)
    checkpoint.prepared.delete(1)
    checks = 0

    def killed() -> None:
        nonlocal checks
        checks += 1
        if checks > 2:
            raise KilledError

    with pytest.raises(KilledError):
        plan_restart(checkpoint, SINK, killed)
    assert checkpoint.offsets.ids() == [0, 1, 2]
    plan = plan_restart(checkpoint, SINK)
    assert (plan.first_epoch, plan.start_from, plan.replay) == (1, 0, 1)
    assert (checkpoint.offsets.ids(), checkpoint.prepared.ids()) == ([0, 1], [0])


def test_offsets_that_are_gone_between_two_are_put_back(checkpoint: Checkpoint) -> None:
    """A rewind that slept in the middle of a move has carried it out behind another run."""
    logged(checkpoint, 1, 2, 3)
    checkpoint.offsets.delete(2)
    plan = plan_restart(checkpoint, SINK)
    assert (plan.recommit, plan.first_epoch) == ((1, 2, 3), 4)
    assert checkpoint.offsets.get(2) == offsets(5)


def test_offsets_that_are_gone_of_the_last_committed_epoch_are_put_back(
    checkpoint: Checkpoint,
) -> None:
    logged(checkpoint, 1)
    checkpoint.commits.add(1, CommitEntry())
    checkpoint.offsets.delete(1)
    assert plan_restart(checkpoint, SINK).start_from == 1
    assert checkpoint.offsets.get(1) == offsets(4)


def test_offsets_that_are_gone_of_what_a_sink_has_dropped_are_put_back(
    checkpoint: Checkpoint,
) -> None:
    logged(checkpoint, 1)
    lost = replace(prepared(4), messages=(), lost=True)
    checkpoint.prepared.restore(1, checkpoint.prepared.text(lost))
    checkpoint.offsets.delete(1)
    plan = plan_restart(checkpoint, SINK)
    assert (plan.first_epoch, plan.start_from, plan.replay) == (1, 0, 1)
    assert checkpoint.offsets.get(1) == offsets(4)


def test_what_was_only_prepared_is_not_taken_for_logged(checkpoint: Checkpoint) -> None:
    committed(checkpoint, 0, 3)
    checkpoint.prepared.add(1, prepared(4))
    plan = plan_restart(checkpoint, SINK)
    assert (plan.first_epoch, plan.start_from, plan.replay) == (1, 0, None)
    assert checkpoint.prepared.ids() == [0]


def test_a_late_write_behind_what_was_set_aside_is_set_aside(checkpoint: Checkpoint) -> None:
    """A run slept in the write of the offsets of epoch 5; the epochs from 2 on ran again since."""
    logged(checkpoint, 1, 2)
    checkpoint.commits.add(1, CommitEntry())
    checkpoint.offsets.add(5, offsets(20))
    plan = plan_restart(checkpoint, SINK)
    assert (plan.recommit, plan.first_epoch, plan.replay) == ((2,), 3, None)
    assert checkpoint.offsets.ids() == [0, 1, 2]


def test_a_rewind_knows_what_was_only_logged(checkpoint: Checkpoint) -> None:
    """A run that slept in the middle of writing one of these entries has written it behind it."""
    checkpoint.create_or_read_query_id("the query")
    logged(checkpoint, 1, 2, 3)
    checkpoint.rewind(0, accept_repeats=True)
    assert checkpoint.offsets.ids() == [0]
    for epoch in (2, 4):
        checkpoint.offsets.add(epoch, offsets(9))
        plan = plan_restart(checkpoint, SINK)
        assert (plan.first_epoch, plan.start_from, plan.replay) == (1, 0, None)
        assert checkpoint.offsets.ids() == [0]


def test_a_late_commit_is_not_trusted_for_what_was_logged_behind_it(checkpoint: Checkpoint) -> None:
    """A run slept in its write of it, through a rewind; another one has logged two epochs since."""
    checkpoint.create_or_read_query_id("the query")
    committed(checkpoint, 0, 3)
    committed(checkpoint, 1, 4)
    checkpoint.rewind(0, accept_repeats=True)
    later = replace(prepared(5), generation=9)
    for epoch in (1, 2):
        checkpoint.prepared.add(epoch, replace(later, offsets=f'v1\n\n{{"0":{4 + epoch}}}'))
        checkpoint.offsets.add(epoch, offsets(4 + epoch))
    checkpoint.commits.add(1, CommitEntry())
    assert plan_restart(checkpoint, SINK).recommit == (1, 2)
    assert checkpoint.commits.ids() == [0]


def test_where_a_source_began_is_durable_before_it_is_acted_upon() -> None:
    world = World(0, sink="table")
    with world.installed():
        storage = LocalStorage(CHECKPOINT)
        died = Process(world.machine, "died", "a")
        # Killed between the link of sources/0/0 and the fsync of its folder, or before.
        steps = 1
        while not any(each.name == "0" for each in storage.list("sources/0")):
            steps += 1
            assert not died.run(lambda: first_offset(storage, 0, lambda: 7), Fuse(KILL, steps))
            died = Process(world.machine, "died", "a")
        assert first_offset(storage, 0, lambda: 8) == 7
        world.machine.disk.lose_power(Random(1))
        assert first_offset(storage, 0, lambda: 9) == 7


@pytest.mark.parametrize("first", [0, 2000])
def test_worlds_whose_epochs_come_together(first: int) -> None:
    result = LevelResult("")
    for seed in range(first, first + 20):
        l0_model.walk(seed, result, sink=TOGETHER)
    assert result.broken == []
