"""Checkpoints are copied and pruned while their query runs: a restart finds all it needs, and a
copy goes on by itself from one and the same moment."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.copies import copy_checkpoint
from engine.checkpoint.inspection import inspect_checkpoint
from engine.checkpoint.retention import prune
from engine.sinks.files.file_sink_log import FOLDER
from engine.sinks.files.file_sink_upkeep import prune_sink
from tests.model import ModelSink
from tests.simulation.story import WAIT_S, Story
from tests.simulation.test_files_exactly_once import committed_values, start

TURNS = 8


@contextmanager
def all_the_time(*does: Callable[[], object]) -> Iterator[list[BaseException]]:
    """Each in a thread of its own, again and again; what they raise."""
    stop = threading.Event()
    raised: list[BaseException] = []

    def repeat(do: Callable[[], object]) -> None:
        while not stop.is_set():
            try:
                do()
            except BaseException as exc:
                raised.append(exc)
                return

    threads = [threading.Thread(target=repeat, args=(do,)) for do in does]
    for thread in threads:
        thread.start()
    try:
        yield raised
    finally:
        stop.set()
        for thread in threads:
            thread.join(WAIT_S)


def test_copies_of_a_running_query_restart(tmp_path: Path) -> None:
    story = Story(tmp_path / "source")
    copies: list[tuple[Path, int]] = []

    def copy() -> None:
        target = tmp_path / f"copy-{len(copies)}"
        report = copy_checkpoint(story.checkpoint, Checkpoint(str(target)))
        copies.append((target, report.to_epoch))

    query = story.start(min_epochs_to_retain=2)
    story.feed.add(5)
    assert query.awaitEpoch(0, WAIT_S)
    with all_the_time(
        copy,
        lambda: prune(story.checkpoint, keep_epochs=2),
        lambda: inspect_checkpoint(story.checkpoint).to_dict(),
    ) as raised:
        for _ in range(TURNS):
            story.feed.add(3)
            assert query.awaitEpoch(query.status["epoch"] + 2, WAIT_S)
            wanted = len(copies) + 1
            while len(copies) < wanted and not raised:
                assert query.awaitEpoch(query.status["epoch"] + 1, WAIT_S)
    assert raised == []
    query.processAllAvailable()
    query.drain(WAIT_S)
    total = story.sink.assert_exactly_once(story.partitions)
    assert len(copies) >= TURNS

    for target, epoch in copies[:: len(copies) // TURNS]:
        before = [row for at, rows in story.sink.committed.items() if at <= epoch for row in rows]
        shadow = Story(target)
        shadow.feed.available = list(story.feed.available)
        shadow.sink = ModelSink(committed={epoch: before})
        again = shadow.start()
        again.processAllAvailable()
        again.drain(WAIT_S)
        assert shadow.checkpoint.query_id() != story.checkpoint.query_id()
        # Every row that the source had not written by then, once.
        assert shadow.sink.assert_exactly_once(story.partitions) == total


def test_a_files_sink_is_kept_small_while_it_is_written(tmp_path: Path) -> None:
    """Stopped and started again; the clean-up finds what dead runs have left, and nothing else."""
    orphans = []
    reports = []

    def upkeep() -> None:
        checkpoint = Checkpoint(str(tmp_path / "checkpoint"))
        for entry in (tmp_path / "out" / FOLDER).glob("[0-9]*"):
            if entry.exists():
                make_old(entry)
        prune(checkpoint, keep_epochs=2)
        report = prune_sink(checkpoint, str(tmp_path / "out"), orphans_older_than_s=3600)
        assert report is not None
        reports.append(report)

    for turn in range(3):
        query = start(tmp_path)
        assert query.awaitEpoch(query.status["epoch"] + 1, WAIT_S)
        orphans.append(orphan_of(tmp_path, generation=turn))
        with all_the_time(upkeep) as raised:
            assert query.awaitEpoch(query.status["epoch"] + 25, WAIT_S)
        assert raised == []
        assert orphans[-1].exists(), "its run was there all the time"
        for file in (tmp_path / "out").glob("part-*.parquet"):
            make_old(file)
        query.stop()
    query = start(tmp_path)
    query.processAllAvailable()
    query.drain(WAIT_S)
    upkeep()

    assert [path for path in orphans if path.exists()] == []
    assert sum(report.removed_files for report in reports) >= len(orphans)
    assert sum(report.removed_entries for report in reports) > 20
    offsets = Checkpoint(str(tmp_path / "checkpoint")).committed_offsets()
    assert offsets is not None
    read = {int(partition): part["value"] for partition, part in offsets[0].items()}
    expected = sorted(v for p, last in read.items() for v in range(p, last + 1, 2))
    assert committed_values(tmp_path) == expected


def orphan_of(folder: Path, generation: int) -> Path:
    """A data file as a killed task leaves it, two hours ago."""
    name = f"part-00000-g{generation}-00000000-0000-4000-8000-{generation:012d}-c000.snappy.parquet"
    path = folder / "out" / name
    path.write_bytes(b"half a file")
    make_old(path)
    return path


def make_old(path: Path) -> None:
    try:
        at = path.stat().st_mtime
        os.utime(path, (at - 7200, at - 7200))
    except FileNotFoundError:
        pass
