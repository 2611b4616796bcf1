"""A copy is a checkpoint of its own, whole or not at all."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Mapping
from pathlib import Path

import pytest

from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.copies import copy_checkpoint
from engine.checkpoint.copy_record import read_copy
from engine.checkpoint.folder import COPY_RECORD
from engine.checkpoint.lease import Lease
from engine.checkpoint.logs.commit_log import CommitEntry
from engine.checkpoint.logs.offset_log import OffsetEntry, batch_metadata
from engine.checkpoint.logs.prepared_log import PreparedEntry
from engine.checkpoint.noted_state import STATE, to_note
from engine.checkpoint.retention import prune
from engine.checkpoint.rewound import DONE
from engine.checkpoint.storage.local_storage import LocalStorage
from engine.coordinator.restart_table import decide
from engine.errors import CheckpointCorruptError, CheckpointError, ConfigError
from engine.snapshots.handles import SnapshotHandle
from engine.snapshots.names import SnapshotName

GOLDEN = Path(__file__).parents[1] / "golden" / "checkpoints"


def commit(checkpoint: Checkpoint, *epochs: int) -> None:
    for epoch in epochs:
        checkpoint.prepared.add(epoch, PreparedEntry(0, "run", (None,)))
        checkpoint.offsets.add(epoch, OffsetEntry((epoch,)))
        checkpoint.commits.add(epoch, CommitEntry())


def state_file(epoch: int, digits: str) -> str:
    return str(SnapshotName(1, epoch, 0, 0, 1, 8 * digits))


def commit_with_state(checkpoint: Checkpoint, *epochs: int, digits: str) -> None:
    """Each has all of it in a file of its own."""
    for epoch in epochs:
        file = state_file(epoch, digits)
        checkpoint.storage.create(file, b"state")
        handle = SnapshotHandle(1, 0, 1, file, 8 * digits, epoch)
        metadata = {**batch_metadata(now_ms=0), STATE: to_note([handle])}
        checkpoint.offsets.add(epoch, OffsetEntry((epoch,), metadata))
        checkpoint.commits.add(epoch, CommitEntry())


@pytest.fixture(params=["local", "memory"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path) if request.param == "local" else f"memory://{uuid.uuid4()}"


@pytest.fixture
def source(folder: str) -> Checkpoint:
    """Runs at epoch 5, and has logged 6."""
    source = Checkpoint(f"{folder}/source")
    source.create_or_read_query_id("query")
    commit(source, *range(6))
    Lease.acquire(source, run_id="run")
    source.pin("gold", 3)
    source.requests.ask("drain", by="test")
    source.progress.write([{"batchId": 5}])
    source.prepared.add(6, PreparedEntry(0, "run", (None,)))
    source.offsets.add(6, OffsetEntry((6,)))
    return source


def plan(checkpoint: Checkpoint) -> tuple[int, int | None]:
    found = decide(
        offsets_ids=checkpoint.offsets.ids(),
        commits_ids=checkpoint.commits.ids(),
        prepared=checkpoint.prepared.ids(),
    )
    return found.first_epoch, found.start_from


def test_a_copy(source: Checkpoint, folder: str) -> None:
    target = Checkpoint(f"{folder}/target")
    report = copy_checkpoint(source, target)
    assert (report.from_epoch, report.to_epoch, report.source_id) == (0, 5, "query")
    assert target.query_id() == report.query_id != "query"
    assert plan(target) == (6, 5)
    assert target.committed_offsets() == (5,)
    assert set(target.storage.files_below("")) == {
        "metadata", COPY_RECORD,
        *(f"{log}/{epoch}" for log in ("offsets", "commits") for epoch in range(6)),
    }  # fmt: skip
    assert report.files == 13
    record = read_copy(target)
    assert record is not None
    assert (record.source, record.to_epoch) == (source.url, 5)
    Lease.acquire(target, run_id="shadow")  # nobody holds it
    commit(target, 6)
    assert source.committed_epoch() == 5


def test_up_to_an_epoch(source: Checkpoint, folder: str) -> None:
    target = Checkpoint(f"{folder}/target")
    copy_checkpoint(source, target, 3)
    assert plan(target) == (4, 3)


@pytest.mark.parametrize("epoch", [6, 7, 0])
def test_an_epoch_that_is_not_there(source: Checkpoint, folder: str, epoch: int) -> None:
    prune(source, keep_epochs=3)
    target = Checkpoint(f"{folder}/target")
    with pytest.raises(ConfigError, match=rf"Epoch {epoch} is not among .* Available: 3 to 5"):
        copy_checkpoint(source, target, epoch)
    assert not target.storage.files_below("")


def test_nothing_committed_yet(folder: str) -> None:
    source = Checkpoint(f"{folder}/source")
    source.create_or_read_query_id("query")
    with pytest.raises(ConfigError, match="nothing to go on from"):
        copy_checkpoint(source, Checkpoint(f"{folder}/target"))


def test_a_target_that_is_there(source: Checkpoint, folder: str) -> None:
    target = Checkpoint(f"{folder}/target")
    target.storage.create("anything", b"by hand")
    with pytest.raises(ConfigError, match="There is something at"):
        copy_checkpoint(source, target)
    with pytest.raises(ConfigError, match="inside of the other"):
        copy_checkpoint(source, Checkpoint(f"{source.url}/copy"))
    with pytest.raises(ConfigError, match="inside of the other"):
        copy_checkpoint(source, source)


def test_the_same_asker_finds_its_copy(source: Checkpoint, folder: str) -> None:
    target = Checkpoint(f"{folder}/target")
    first = copy_checkpoint(source, target, asked_by="task")
    commit(source, 6, 7)
    again = copy_checkpoint(source, target, asked_by="task")
    assert (again.query_id, again.to_epoch) == (first.query_id, 5)
    for asker in (None, "another"):
        with pytest.raises(ConfigError, match="There is something at"):
            copy_checkpoint(source, target, asked_by=asker)
    with pytest.raises(ConfigError, match="There is something at"):
        copy_checkpoint(source, target, 4, asked_by="task")


def test_a_copy_that_was_cut_short_is_no_checkpoint_and_goes_on(
    source: Checkpoint, folder: str, tmp_path: Path
) -> None:
    """Stop it before every single write."""

    class Cut(LocalStorage):
        left = 0

        def create(self, name: str, data: bytes) -> bool:
            if not self.left:
                raise InterruptedError
            self.left -= 1
            return super().create(name, data)

    for writes in range(1, 13):
        storage = Cut(tmp_path / f"target-{writes}")
        storage.left = writes
        with pytest.raises(InterruptedError):
            copy_checkpoint(source, Checkpoint(storage))
        target = Checkpoint(LocalStorage(storage.root))
        with pytest.raises(CheckpointError):  # no query begins here, whatever is there by now
            target.create_or_read_query_id("new")
        commit(source, *range(source.committed_epoch() + 1, 6 + writes))
        assert copy_checkpoint(source, target).to_epoch == 4 + writes, "what it began with"
        assert plan(target) == (5 + writes, 4 + writes)


def test_state_of_later_epochs_is_not_the_copy_s_own(source: Checkpoint, folder: str) -> None:
    """Spark prefers a snapshot of a version to the changes that lead there."""
    for name in ("5.delta", "5.snapshot", "6.snapshot", "6.zip", "7.changelog", "_metadata/schema"):
        source.storage.create(f"state/0/0/{name}", b"state")
    target = Checkpoint(f"{folder}/target")
    copy_checkpoint(source, target, 4)
    kept = set(target.storage.files_below("state"))
    assert kept == {"0/0/5.delta", "0/0/5.snapshot", "0/0/_metadata/schema"}


def test_a_damaged_entry_is_not_copied(source: Checkpoint, folder: str) -> None:
    source.storage.replace("offsets/4", b"torn")
    target = Checkpoint(f"{folder}/target")
    with pytest.raises(CheckpointCorruptError, match="offsets/4"):
        copy_checkpoint(source, target)
    assert not target.storage.files_below("")


def test_an_entry_that_is_damaged_while_it_is_copied_is_told(
    source: Checkpoint, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, reads = source.storage.read, 0

    def damaged(name: str) -> bytes:
        nonlocal reads
        reads += name == "offsets/4"
        return b"v1\n\xff\n4" if name == "offsets/4" and reads > 1 else read(name)

    monkeypatch.setattr(source.storage, "read", damaged)
    with pytest.raises(CheckpointCorruptError, match="offset log cannot be read: 'utf-8' codec"):
        copy_checkpoint(source, Checkpoint(f"{folder}/target"), to_epoch=4)


@pytest.mark.parametrize("to_epoch", [None, 3])
def test_a_rewind_while_it_is_read(tmp_path: Path, to_epoch: int | None) -> None:
    """What is copied is one history: that before the rewind or that after it, and never both."""

    class Rewound(LocalStorage):
        done = False

        def read(self, name: str) -> bytes:
            if name == "offsets/3" and not self.done:
                self.done = True
                again = Checkpoint(str(self.root))
                again.rewind(2, accept_repeats=True)
                for epoch in (3, 4):
                    again.offsets.add(epoch, OffsetEntry((100 + epoch,)))
                    again.commits.add(epoch, CommitEntry())
            return super().read(name)

    source = Checkpoint(Rewound(tmp_path / "source"))
    source.create_or_read_query_id("query")
    commit(source, *range(6))
    target = Checkpoint(str(tmp_path / "target"))
    report = copy_checkpoint(source, target, to_epoch)
    assert report.to_epoch == (to_epoch or 4)
    ends = [0, 1, 2, 103, 104][: report.to_epoch + 1]
    assert [target.committed_offsets(epoch) for epoch in target.epochs()] == [(e,) for e in ends]


def test_a_rewind_while_the_state_is_copied(tmp_path: Path) -> None:
    """Behind it there is another epoch of that number, and retention has removed what the first
    one needs."""

    class Rewound(LocalStorage):
        def files_below(self, folder: str) -> Mapping[str, int]:
            if folder == "sources" and not (self.root / DONE).exists():
                again = Checkpoint(str(self.root))
                again.rewind(2, accept_repeats=True)
                commit_with_state(again, 3, 4, 5, digits="b")
                again.storage.delete(state_file(5, "a"))
            return super().files_below(folder)

    source = Checkpoint(Rewound(tmp_path / "source"))
    source.create_or_read_query_id("query")
    commit_with_state(source, *range(6), digits="a")
    target = Checkpoint(str(tmp_path / "target"))
    with pytest.raises(CheckpointError, match="dropped epoch 5 while it was copied"):
        copy_checkpoint(source, target)
    with pytest.raises(CheckpointError):
        target.create_or_read_query_id("new")


@pytest.mark.parametrize("name", sorted(path.name for path in GOLDEN.iterdir()))
def test_copies_of_real_checkpoints(name: str, tmp_path: Path) -> None:
    source = Checkpoint(str(GOLDEN / name))
    target = Checkpoint(str(tmp_path / "target"))
    report = copy_checkpoint(source, target)
    last = source.committed_epoch()
    assert report.to_epoch == last
    assert plan(target) == (last + 1, last)
    assert target.committed_offsets() == source.committed_offsets()
    for tree in ("sources", "state"):
        expected = {
            str(path.relative_to(GOLDEN / name / tree)): path.read_bytes()
            for path in (GOLDEN / name / tree).rglob("*")
            if path.is_file() and path.suffix != ".crc"
        }
        found = {
            each: target.storage.read(f"{tree}/{each}") for each in target.storage.files_below(tree)
        }
        assert found == expected


def test_a_copy_whose_source_is_gone_tells_where_it_came_from(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / "engine-v1", tmp_path / "source")
    target = Checkpoint(str(tmp_path / "target"))
    copy_checkpoint(Checkpoint(str(tmp_path / "source")), target)
    shutil.rmtree(tmp_path / "source")
    record = read_copy(Checkpoint(str(tmp_path / "target")))
    assert record is not None
    assert record.source == str(tmp_path / "source")
