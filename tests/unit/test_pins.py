"""Pins: what they keep, and the way back to them, with a crash before and after each write."""

from __future__ import annotations

import re

import pytest

from engine.checkpoint.logs.commit_log import CommitEntry
from engine.checkpoint.logs.offset_log import OffsetEntry
from engine.checkpoint.logs.prepared_log import PreparedEntry
from engine.checkpoint.retention import prune
from engine.checkpoint.storage.contract import FileInfo
from engine.errors import (
    CheckpointCorruptError,
    CheckpointError,
    ConfigError,
)
from tests.unit.rewinding import LAST, World, crashes, data_file, names


def aged(world: World, *, pinned: int | None) -> None:
    """Thirty more epochs and retention, in the logs and in the sink's own."""
    if pinned is not None:
        world.checkpoint.pin("before-release", pinned, sink=world.sink)
    for epoch in range(LAST + 1, LAST + 21):
        world.checkpoint.prepared.add(epoch, PreparedEntry(0, "run", ([epoch],)))
        world.checkpoint.offsets.add(epoch, OffsetEntry((epoch,)))
        world.log.add(epoch, [data_file(epoch)])
        world.checkpoint.commits.add(epoch, CommitEntry())
    prune(world.checkpoint, keep_epochs=5)
    for file in world.log.storage.list(""):
        number = int(re.sub(r"\D", "", file.name))  # of a checksum file, too
        if number < LAST + 13:
            world.log.storage.delete(file.name)


@pytest.mark.parametrize("pinned", [0, 4, 5, 7, 9])
def test_a_pin_outlives_retention(pinned: int) -> None:
    world = World()
    aged(world, pinned=pinned)
    assert world.checkpoint.committed_offsets(pinned) is None
    world.checkpoint.rewind(to_pin="before-release", sink=world.sink)
    assert world.logs() == ([pinned], [pinned], [])
    assert world.checkpoint.committed_offsets() == (pinned,)
    assert world.visible() == names(range(pinned + 1))
    plan = world.plan()
    assert (plan.first_epoch, plan.start_from, plan.recommit) == (pinned + 1, pinned, ())
    for epoch in range(pinned + 1, pinned + 25):
        assert world.log.add(epoch, [data_file(epoch, 1)])
        assert world.visible() == names(range(pinned + 1)) + names(range(pinned + 1, epoch + 1), 1)


def test_killed_at_any_write_on_the_way_to_a_pin() -> None:
    def target(world: World) -> None:
        death = world.checkpoint.storage._death  # type: ignore[attr-defined]
        at, death.at = death.at, None
        aged(world, pinned=4)
        death.at, death.writes = at, 0
        world.checkpoint.rewind(to_pin="before-release", sink=world.sink)

    for world, where in crashes(target):
        if world.logs()[0] != [4]:
            # Who knows nothing of rewinds goes on where it was, or stops aloud.
            try:
                plan = world.plan()
            except CheckpointCorruptError:
                pass
            else:
                assert plan.first_epoch > LAST + 16, where
        world.checkpoint.rewind(to_pin="before-release", sink=world.sink)
        assert world.logs() == ([4], [4], []), where
        assert world.visible() == names(range(5)), where


def test_without_the_sink_s_position_a_compacted_epoch_cannot_be_had() -> None:
    world = World()
    world.checkpoint.pin("blind", 4)
    aged(world, pinned=None)
    before = world.logs()
    with pytest.raises(ConfigError, match=r"compacted since epoch 4.*23 to 29, or to a pin"):
        world.checkpoint.rewind(to_pin="blind", sink=world.sink)
    assert world.logs() == before
    assert world.checkpoint.holder() is None, "refused before anything changed"


def test_pins_are_listed_and_removed() -> None:
    checkpoint = World().checkpoint
    assert checkpoint.pins() == []
    checkpoint.pin("b", 3)
    checkpoint.pin("a")
    checkpoint.pin("a", LAST)
    assert [(pin.name, pin.epoch) for pin in checkpoint.pins()] == [("b", 3), ("a", LAST)]
    listed = [pin.to_dict() for pin in checkpoint.pinned_epochs()]
    assert listed == [pin.to_dict() for pin in checkpoint.pins()]
    with pytest.raises(ConfigError, match=r"pin 'a' is at epoch 9 already.*unpin"):
        checkpoint.pin("a", 3)
    with pytest.raises(ConfigError, match=r"no pin 'c'.*Its pins: a, b"):
        checkpoint.unpin("c")
    checkpoint.unpin("b")
    assert [pin.name for pin in checkpoint.pins()] == ["a"]


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".hidden", "ä", "x" * 101])
def test_a_name_that_is_no_name(name: str) -> None:
    checkpoint = World().checkpoint
    with pytest.raises(ConfigError, match="cannot be the name of a pin"):
        checkpoint.pin(name, 3)
    with pytest.raises(ConfigError, match="no pin"):
        checkpoint.unpin(name)


def test_a_torn_pin_is_named() -> None:
    checkpoint = World().checkpoint
    checkpoint.pin("a", 3)
    content = checkpoint.storage.read("pins/a")
    for cut in (0, 1, len(content) // 2, len(content) - 1):
        checkpoint.storage.replace("pins/a", content[:cut])
        with pytest.raises(CheckpointCorruptError, match="pins/a cannot be read"):
            checkpoint.pins()
    checkpoint.storage.replace("pins/a", content[:9])
    with pytest.raises(CheckpointCorruptError, match="pins/a cannot be read"):
        checkpoint.pinned_epochs()


def test_a_later_pin_goes_with_its_epoch() -> None:
    world = World()
    for name, epoch in (("early", 3), ("last", 5), ("late", 6)):
        world.checkpoint.pin(name, epoch, sink=world.sink)
    world.checkpoint.rewind(5, sink=world.sink)
    assert [pin.name for pin in world.checkpoint.pins()] == ["early", "last"]
    aside = [path for path in world.fs.find("/checkpoint/rewound") if "/pins/" in path]
    assert [path.rpartition("/")[2] for path in aside] == ["late"]
    with pytest.raises(ConfigError, match="no pin 'late'"):
        world.checkpoint.rewind(to_pin="late", sink=world.sink)
    world.checkpoint.rewind(to_pin="last", sink=world.sink)
    world.checkpoint.rewind(to_pin="early", sink=world.sink)
    assert world.logs()[1] == [0, 1, 2, 3]


def test_an_unreadable_pin_does_not_hinder_a_rewind() -> None:
    world = World()
    world.checkpoint.storage.create("pins/torn", b'{"epoch":')
    world.checkpoint.rewind(5, sink=world.sink)
    assert world.logs()[1] == list(range(6))
    assert world.checkpoint.storage.exists("pins/torn")


def test_a_pin_of_entries_that_were_rewound_is_refused() -> None:
    """As those of checkpoints that were rewound by earlier versions."""
    world = World()
    pin = world.checkpoint.pin("old", 7, sink=world.sink)
    world.checkpoint.rewind(5, sink=world.sink)
    world.checkpoint.storage.create("pins/old", pin.serialize())
    with pytest.raises(ConfigError, match=r"epoch 7, and the last committed epoch is 5"):
        world.checkpoint.rewind(to_pin="old", sink=world.sink)
    assert world.logs()[1] == list(range(6))
    for epoch in range(6, 12):
        world.checkpoint.offsets.add(epoch, OffsetEntry((epoch * 100,)))
        world.log.add(epoch, [data_file(epoch, 1)])
        world.checkpoint.commits.add(epoch, CommitEntry())
    with pytest.raises(ConfigError, match=r"epoch 7, .* other offsets"):
        world.checkpoint.rewind(to_pin="old", sink=world.sink)
    assert world.logs()[1] == list(range(12))
    assert world.visible() == names(range(6)) + names(range(6, 12), 1)


def test_a_pin_that_is_removed_while_others_look_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    for name, epoch in (("gone", 3), ("stays", 4)):
        world.checkpoint.pin(name, epoch, sink=world.sink)
    storage = world.checkpoint.storage
    listed = storage.list

    def list_and_remove(folder: str) -> list[FileInfo]:
        found = listed(folder)
        if folder == "pins":
            storage.delete("pins/gone")
        return found

    monkeypatch.setattr(storage, "list", list_and_remove)
    assert [pin.name for pin in world.checkpoint.pins()] == ["stays"]


def test_a_pin_of_entries_that_are_rewound_meanwhile_is_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else it would be there when another epoch 7 is, and count once retention has removed it."""
    world = World()
    storage = world.checkpoint.storage
    create = storage.create

    def create_late(name: str, data: bytes) -> bool:
        monkeypatch.setattr(storage, "create", create)
        world.checkpoint.rewind(5, sink=world.sink)
        return create(name, data)

    monkeypatch.setattr(storage, "create", create_late)
    with pytest.raises(CheckpointError, match="was rewound while epoch 7 was pinned"):
        world.checkpoint.pin("late", 7, sink=world.sink)
    assert world.checkpoint.pins() == []
