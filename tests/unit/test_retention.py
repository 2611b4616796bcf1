"""What may go from a checkpoint, and what never does."""

from __future__ import annotations

import os
import threading
import uuid
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.clock import ManualClock, SystemClock
from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.lease import Lease
from engine.checkpoint.logs.commit_log import CommitEntry
from engine.checkpoint.logs.offset_log import OffsetEntry
from engine.checkpoint.logs.prepared_log import PreparedEntry
from engine.checkpoint.retention import KEEP_EPOCHS_DEFAULT, plan_prune, prune
from engine.checkpoint.storage.local_storage import LocalStorage
from engine.coordinator.restart_table import decide
from engine.errors import ConfigError

NOW_S = 1_700_000_000


def commit(checkpoint: Checkpoint, epoch: int) -> None:
    checkpoint.prepared.add(epoch, PreparedEntry(0, "run", (None,)))
    checkpoint.offsets.add(epoch, OffsetEntry((epoch,)))
    checkpoint.commits.add(epoch, CommitEntry())


@pytest.fixture(params=["local", "memory"])
def checkpoint(request: pytest.FixtureRequest, tmp_path: Path) -> Checkpoint:
    url = str(tmp_path / "ckpt") if request.param == "local" else f"memory://{uuid.uuid4()}"
    checkpoint = Checkpoint(url)
    checkpoint.create_or_read_query_id("query")
    for epoch in range(10):
        commit(checkpoint, epoch)
    return checkpoint


def logs(checkpoint: Checkpoint) -> tuple[list[int], list[int], list[int]]:
    return checkpoint.offsets.ids(), checkpoint.commits.ids(), checkpoint.prepared.ids()


# -- the plan -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("commits", "keep_epochs", "kept_from"),
    [
        ([], 2, None),
        ([0], 2, None),
        ([0, 1], 2, 0),
        (range(10), 2, 8),
        (range(10), 3, 7),
        (range(10), 10, 0),
        (range(10), 11, None),
        (range(90, 100), 5, 95),
        ([0, 5, 9], 2, 5),  # a gap: what counts is what is there
        (range(10), None, 8),
    ],
)
def test_plan_by_number(
    commits: range | list[int], keep_epochs: int | None, kept_from: int | None
) -> None:
    assert plan_prune(commits, keep_epochs=keep_epochs) == kept_from


def test_plan_by_age() -> None:
    at = {epoch: 1000.0 * epoch for epoch in range(10)}
    assert plan_prune(at, keep_from_ms=5000, committed_at_ms=at) == 5
    assert plan_prune(at, keep_from_ms=5001, committed_at_ms=at) == 6
    assert plan_prune(at, keep_from_ms=0, committed_at_ms=at) == 0
    # However old: the last two stay.
    assert plan_prune(at, keep_from_ms=99_000, committed_at_ms=at) == 8
    # Both rules: what one of them keeps, stays.
    assert plan_prune(at, keep_epochs=7, keep_from_ms=5000, committed_at_ms=at) == 3
    assert plan_prune(at, keep_epochs=3, keep_from_ms=5000, committed_at_ms=at) == 5
    # Of unknown age: young.
    assert plan_prune(at, keep_from_ms=99_000, committed_at_ms={}) == 0


@pytest.mark.parametrize("keep_epochs", [1, 0, -1])
def test_fewer_than_two_epochs_are_not_enough(checkpoint: Checkpoint, keep_epochs: int) -> None:
    with pytest.raises(ConfigError, match=f"keep_epochs is {keep_epochs}"):
        prune(checkpoint, keep_epochs=keep_epochs)
    assert len(checkpoint.epochs()) == 10


def test_an_age_is_not_negative(checkpoint: Checkpoint) -> None:
    with pytest.raises(ConfigError, match="keep_for_s is -1"):
        prune(checkpoint, keep_for_s=-1)


@given(
    st.sets(st.integers(0, 40)),
    st.integers(2, 10),
    st.none() | st.integers(0, 50),
    st.dictionaries(st.integers(0, 40), st.integers(0, 50)),
)
def test_a_restart_always_finds_what_it_needs(
    commits: set[int], keep_epochs: int, keep_from_ms: int | None, at: dict[int, int]
) -> None:
    kept_from = plan_prune(
        commits,
        keep_epochs=keep_epochs,
        keep_from_ms=keep_from_ms,
        committed_at_ms={epoch: float(time) for epoch, time in at.items()},
    )
    kept = {epoch for epoch in commits if kept_from is None or epoch >= kept_from}
    assert kept.issuperset(sorted(commits)[-2:])
    assert kept.issuperset(sorted(commits)[-keep_epochs:])
    if keep_from_ms is not None:
        assert kept.issuperset(
            epoch for epoch in commits if at.get(epoch, keep_from_ms) >= keep_from_ms
        )


# -- doing it -------------------------------------------------------------------------------------


def test_prune(checkpoint: Checkpoint) -> None:
    before = sum(
        file.size
        for log in ("offsets", "commits", "prepared")
        for file in checkpoint.storage.list(log)
    )
    report = prune(checkpoint, keep_epochs=3)
    after = sum(
        file.size
        for log in ("offsets", "commits", "prepared")
        for file in checkpoint.storage.list(log)
    )
    assert logs(checkpoint) == ([7, 8, 9], [7, 8, 9], [7, 8, 9])
    assert report.to_dict() == {
        "removed_files": 21,
        "removed_bytes": before - after,
        "removed_epochs": 7,
        "kept_from": 7,
        "dry_run": False,
    }
    assert checkpoint.committed_offsets() == (9,)
    assert prune(checkpoint, keep_epochs=3).removed_files == 0


def test_dry_run_tells_the_same_and_removes_nothing(checkpoint: Checkpoint) -> None:
    would = prune(checkpoint, keep_epochs=3, dry_run=True)
    assert len(checkpoint.epochs()) == 10
    did = prune(checkpoint, keep_epochs=3)
    assert (would.removed_files, would.removed_bytes, would.removed_epochs, would.kept_from) == (
        did.removed_files,
        did.removed_bytes,
        did.removed_epochs,
        did.kept_from,
    )
    assert (would.dry_run, did.dry_run) == (True, False)


def test_without_rules_the_default_stays() -> None:
    checkpoint = Checkpoint(f"memory://{uuid.uuid4()}")
    for epoch in range(KEEP_EPOCHS_DEFAULT + 10):
        if epoch == KEEP_EPOCHS_DEFAULT:
            assert prune(checkpoint).removed_files == 0
        commit(checkpoint, epoch)
    assert prune(checkpoint).kept_from == 10
    assert len(checkpoint.epochs()) == KEEP_EPOCHS_DEFAULT


def test_a_checkpoint_that_was_never_used(tmp_path: Path) -> None:
    report = prune(Checkpoint(str(tmp_path / "nothing")), keep_epochs=2)
    assert report.to_dict() == {
        "removed_files": 0,
        "removed_bytes": 0,
        "removed_epochs": 0,
        "kept_from": None,
        "dry_run": False,
    }


def test_prune_by_age(tmp_path: Path) -> None:
    checkpoint, clock = Checkpoint(str(tmp_path)), ManualClock(NOW_S * 1000)
    for epoch in range(10):
        commit(checkpoint, epoch)
        at = NOW_S - 60 * (10 - epoch)
        os.utime(tmp_path / "commits" / str(epoch), (at, at))
    assert prune(checkpoint, keep_for_s=300, clock=clock).kept_from == 5
    assert prune(checkpoint, keep_for_s=300, keep_epochs=4, clock=clock).removed_files == 0
    assert prune(checkpoint, keep_for_s=0, clock=clock).kept_from == 8


def test_what_is_newer_than_the_last_commit_stays(checkpoint: Checkpoint) -> None:
    checkpoint.offsets.add(10, OffsetEntry((10,)))
    checkpoint.prepared.add(10, PreparedEntry(0, "run", (None,)))
    checkpoint.prepared.add(11, PreparedEntry(0, "run", (None,)))
    prune(checkpoint, keep_epochs=2)
    assert logs(checkpoint) == ([8, 9, 10], [8, 9], [8, 9, 10, 11])


def test_nothing_goes_before_the_first_commits(tmp_path: Path) -> None:
    checkpoint = Checkpoint(str(tmp_path))
    for epoch in range(10):  # Spark's continuous mode may log far ahead of its commits
        checkpoint.offsets.add(epoch, OffsetEntry((epoch,)))
    checkpoint.commits.add(0, CommitEntry())
    assert prune(checkpoint, keep_epochs=2).removed_files == 0


def leave(folder: Path, name: str, age_s: int) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_bytes(b"leftover")
    os.utime(path, (NOW_S - age_s, NOW_S - age_s))
    return path


def test_leftovers_of_crashes_go_after_an_hour(tmp_path: Path) -> None:
    checkpoint, clock = Checkpoint(str(tmp_path)), ManualClock(NOW_S * 1000)
    for epoch in range(3):
        commit(checkpoint, epoch)
    temporary = f".3.{uuid.uuid4()}.tmp"
    folders = ["", "offsets", "commits", "prepared", "progress", "control/generations"]
    old = [leave(tmp_path / folder, temporary, 3600) for folder in folders]
    old += [leave(tmp_path / "offsets", f".{temporary}.crc", 7200)]
    old += [leave(tmp_path / "commits", f".59.{uuid.uuid4()}.TID7.tmp", 7200)]
    old += [leave(tmp_path / "offsets", ".0.crc", 7200), leave(tmp_path / "commits", ".0.crc", 0)]
    young = [leave(tmp_path / folder, f".4.{uuid.uuid4()}.tmp", 3599) for folder in folders]
    others = [
        leave(tmp_path, "notes.tmp", 7200),
        leave(tmp_path, ".metadata.crc", 7200),
        leave(tmp_path / "offsets", ".2.crc", 7200),
        leave(tmp_path / "offsets", "README", 7200),
        leave(tmp_path / "sources" / "0", temporary, 7200),
        leave(tmp_path / "state" / "0" / "0", temporary, 7200),
    ]
    report = prune(checkpoint, keep_epochs=2, clock=clock)
    assert [path for path in old if path.exists()] == []
    assert [path for path in young + others if not path.exists()] == []
    assert report.removed_files == len(old) + 3
    assert report.removed_epochs == 1


def test_control_files_stay(checkpoint: Checkpoint) -> None:
    lease = Lease.acquire(checkpoint, run_id="run")
    checkpoint.progress.write([{"epoch": 9}])
    checkpoint.requests.ask("drain", by="test")
    later = ManualClock(SystemClock().now_ms() + 10**9)
    prune(checkpoint, keep_epochs=2, clock=later)
    lease.check()
    assert checkpoint.requests.pending("run") == "drain"
    assert checkpoint.progress.read() == [{"epoch": 9}]
    assert checkpoint.query_id() == "query"


def test_pruning_while_the_query_runs_and_others_look(tmp_path: Path) -> None:
    """At every moment: readers read, and a restart would go on from the last commit."""
    checkpoint, stop = Checkpoint(str(tmp_path)), threading.Event()
    problems: list[BaseException] = []

    def repeat(look: object) -> None:
        assert callable(look)
        while not stop.is_set():
            try:
                look()
            except BaseException as exc:
                problems.append(exc)
                stop.set()

    def read() -> None:
        seen = Checkpoint(str(tmp_path))
        status = seen.status()
        assert status.offsets == ((status.epoch,) if status.epoch >= 0 else ())
        offsets = seen.committed_offsets()
        assert offsets is None or int(offsets[0] or 0) >= status.epoch
        newest = seen.offsets.latest_id()
        entry = None if newest is None else seen.offsets.get(newest)  # None: purged meanwhile
        assert entry is None or entry.offsets == (newest,)

    threads = [
        threading.Thread(target=repeat, args=(read,)),
        threading.Thread(target=repeat, args=(lambda: prune(checkpoint, keep_epochs=2),)),
        threading.Thread(
            target=repeat, args=(lambda: prune(Checkpoint(str(tmp_path)), keep_epochs=3),)
        ),
    ]
    for thread in threads:
        thread.start()
    for epoch in range(50):
        commit(checkpoint, epoch)
        for log in (checkpoint.prepared, checkpoint.offsets, checkpoint.commits):
            log.purge(epoch + 1 - 5)
    stop.set()
    for thread in threads:
        thread.join(30)
    assert problems == []
    prune(checkpoint, keep_epochs=2)
    offsets, commits, prepared = logs(checkpoint)
    assert commits == [48, 49]
    plan = decide(offsets_ids=offsets, commits_ids=commits, prepared=prepared)
    assert (plan.first_epoch, plan.start_from) == (50, 49)


def test_a_prune_that_is_cut_short_leaves_no_gap(tmp_path: Path) -> None:
    """Stop it after every single delete: the logs stay whole, and the next prune finishes."""

    class Cut(LocalStorage):
        deletes_left = 0

        def delete(self, name: str) -> None:
            if not self.deletes_left:
                raise InterruptedError
            self.deletes_left -= 1
            super().delete(name)

    storage = Cut(tmp_path)
    checkpoint = Checkpoint(storage)
    for epoch in range(6):
        commit(checkpoint, epoch)
    for _ in range(3 * 4):
        storage.deletes_left = 1
        with suppress(InterruptedError):
            prune(checkpoint, keep_epochs=2)
        offsets, commits, prepared = logs(checkpoint)
        plan = decide(offsets_ids=offsets, commits_ids=commits, prepared=prepared)
        assert (plan.first_epoch, plan.start_from) == (6, 5)
        assert set(commits) <= set(offsets)
    assert logs(checkpoint) == ([4, 5], [4, 5], [4, 5])


# -- by size --------------------------------------------------------------------------------------


def test_plan_by_size() -> None:
    sizes = dict.fromkeys(range(12), 10)  # 10 and 11 are open
    at = {epoch: 1000.0 * epoch for epoch in range(10)}

    def kept_from(keep_bytes: int, **rules: float) -> int | None:
        return plan_prune(
            range(10),
            keep_bytes=keep_bytes,
            sizes=sizes,
            committed_at_ms=at,
            **rules,  # type: ignore[arg-type]
        )

    assert kept_from(1_000) == 0
    assert kept_from(120) == 0
    assert kept_from(119) == 1
    assert kept_from(50) == 7
    assert kept_from(0) == 8  # however large: the last two stay, and what is open
    # It takes from what the other rules keep, and adds nothing to it.
    assert kept_from(50, keep_epochs=5) == 7
    assert kept_from(1_000, keep_epochs=5) == 5
    assert kept_from(50, keep_from_ms=3000) == 7
    assert kept_from(50, keep_epochs=11) == 7
    assert plan_prune([4], keep_bytes=0, sizes=sizes) is None


def test_prune_by_size(checkpoint: Checkpoint) -> None:
    def taken() -> int:
        logs = ("offsets", "commits", "prepared")
        return sum(file.size for log in logs for file in checkpoint.storage.list(log))

    one = taken() // 10
    limit = one * 4 + one // 2
    report = prune(checkpoint, keep_bytes=limit)
    assert (report.kept_from, report.removed_epochs) == (6, 6)
    assert taken() <= limit
    assert prune(checkpoint, keep_bytes=limit).removed_files == 0
    with pytest.raises(ConfigError, match="keep_bytes is -1"):
        prune(checkpoint, keep_bytes=-1)


def test_checksums_of_entries_that_are_gone(tmp_path: Path) -> None:
    checkpoint, clock = Checkpoint(str(tmp_path)), ManualClock(NOW_S * 1000)
    for epoch in range(3):
        commit(checkpoint, epoch)
    gone = leave(tmp_path / "offsets", ".9.crc", 7200)
    kept = [leave(tmp_path / "offsets", ".2.crc", 7200), leave(tmp_path / "offsets", ".8.crc", 60)]
    assert prune(checkpoint, keep_epochs=100, clock=clock).removed_files == 1
    assert not gone.exists()
    assert all(path.exists() for path in kept)
