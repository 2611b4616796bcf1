"""Dead letters of queries that keep state: rows that are late, and records that are bad in front of
an exchange. Each is written once, with its epoch, whatever dies."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from engine.errors import ConfigError, ContinuousError, SinkCommitUnknownError
from engine.query.handle import ContinuousQuery
from engine.state.snapshots import SnapshotWriter
from tests.simulation.counting import KEYS, CountStory, counted
from tests.simulation.story import WAIT_S
from tests.sink_files import letters_in
from tests.waiting import wait_until

LATE = {"on_late_record": "dead-letter", "retry_infrastructure_for_ms": 60_000}


@pytest.fixture
def story(tmp_path: Path) -> CountStory:
    return CountStory(tmp_path / "checkpoint")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "letters"


def feed(story: CountStory, partition: int, records: int) -> None:
    with story.feed.changed:
        story.feed.available[partition] = records
        story.feed.changed.notify_all()


def dropped(query: ContinuousQuery) -> int:
    return sum(
        operator["numRowsDroppedByWatermark"]
        for report in query.recentProgress
        for operator in report["stateOperators"]
    )


def go_ahead(story: CountStory, query: ContinuousQuery) -> None:
    """The first partition, until its watermark is that of the query."""
    feed(story, 0, 70)
    story.await_watermark(query)


def late_of(folder: Path, source: str = "task ") -> Counter[tuple[int, str]]:
    """Key and window of the letters, each of which is a late row as it should be."""
    found: Counter[tuple[int, str]] = Counter()
    for letter in letters_in(folder):
        row = json.loads(letter["record"])
        assert letter["operator"] == "counts"
        assert letter["source"].startswith(source)
        assert letter["error"].startswith(f"LATE: it is behind the watermark {letter['watermark']}")
        assert row["at"][:19].replace(" ", "T") <= letter["watermark"]
        assert "partition" not in letter
        found[(row["key"], row["at"])] += 1
    return found


def expected() -> Counter[tuple[int, str]]:
    """All windows of the second partition that the first has closed."""
    return Counter(
        (seq % KEYS, f"1970-01-01 00:{1000 // 60}:{1000 % 60 + seq - seq % 10:02d}+00:00")
        if seq < 20
        else (seq % KEYS, f"1970-01-01 00:17:{seq - seq % 10 - 20:02d}+00:00")
        for seq in range(50)
    )


def test_as_many_letters_as_were_counted(story: CountStory, folder: Path) -> None:
    query = story.start(dead_letter_path=str(folder), **LATE)
    go_ahead(story, query)
    feed(story, 1, 70)
    query.processAllAvailable()
    assert query.drain(WAIT_S)
    assert dropped(query) == 50
    assert late_of(folder) == expected()
    assert {key: n for key, n in story.sink.last().items() if key[1] < 50} == counted(50, 1)


def test_letters_of_tasks_that_read_and_keep_state(tmp_path: Path, folder: Path) -> None:
    story = CountStory(tmp_path / "checkpoint", stays=True)
    query = story.start(dead_letter_path=str(folder), **LATE)
    go_ahead(story, query)
    feed(story, 1, 70)
    query.processAllAvailable()
    assert query.drain(WAIT_S)
    assert dropped(query) == 50
    here = {key: count for (key, _), count in late_of(folder, "model").items()}
    assert set(here) == {2 * key + 1 for key in range(KEYS)}
    assert len(letters_in(folder)) == 50


def test_a_reducer_that_dies_in_the_epoch_of_its_late_rows_writes_them_once(
    story: CountStory, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its letters are written, and the epoch is never reported."""
    query = story.start(dead_letter_path=str(folder), retry_storage_for_ms=60_000, **LATE)
    go_ahead(story, query)
    died = []

    def die(self: SnapshotWriter, *arguments: Any) -> Any:
        if len(died) < 3 and list(folder.glob("part-*")):
            died.append(len(list(folder.glob("part-*"))))
            raise OSError("killed")
        return prepare(self, *arguments)

    prepare = SnapshotWriter.prepare
    monkeypatch.setattr(SnapshotWriter, "prepare", die)
    feed(story, 1, 70)
    wait_until(lambda: len(died) >= 3, "three deaths, or one more: two may die at once")
    query.processAllAvailable()
    assert query.drain(WAIT_S)
    assert query.status["restarts"]
    assert late_of(folder) == expected()
    assert len(list(folder.glob("part-*"))) > len({e["epoch"] for e in letters_in(folder)})


def test_a_commit_that_fails_behind_the_letters_repeats_none(
    story: CountStory, folder: Path
) -> None:
    failed = story.sink.fail_a_commit(lambda _: bool(letters_in(folder)))
    query = story.start(dead_letter_path=str(folder), **LATE)
    go_ahead(story, query)
    feed(story, 1, 70)
    with pytest.raises(SinkCommitUnknownError):
        query.awaitTermination(WAIT_S)
    for _ in range(2):
        again = story.start(dead_letter_path=str(folder), retry_sink_for_ms=60_000, **LATE)
        again.processAllAvailable()
        assert again.drain(WAIT_S)
    assert failed
    assert late_of(folder) == expected()


def test_without_the_option_a_late_row_is_counted_alone(story: CountStory, folder: Path) -> None:
    query = story.start(dead_letter_path=str(folder), on_bad_record="dead-letter")
    go_ahead(story, query)
    feed(story, 1, 70)
    query.processAllAvailable()
    assert query.drain(WAIT_S)
    assert dropped(query) == 50
    assert letters_in(folder) == []


def test_a_record_that_is_bad_in_front_of_an_exchange_is_kept(
    story: CountStory, folder: Path
) -> None:
    query = story.start(dead_letter_path=str(folder), on_bad_record="dead-letter", bad_seq=7)
    story.grow(query, 30)
    query.processAllAvailable()
    assert query.drain(WAIT_S)
    assert sum(report["numBadRecords"] for report in query.recentProgress) == 2
    found = letters_in(folder)
    assert sorted(json.loads(e["record"])["partition"] for e in found) == [0, 1]
    assert {json.loads(e["record"])["seq"] for e in found} == {7}
    assert {e["partition"] for e in found} == {0, 1}


def test_letters_of_tasks_that_write_nothing_are_not_dropped_by_another_start(
    story: CountStory, folder: Path
) -> None:
    commit = story.sink.commit

    def fail(messages: list[Any], epoch: int) -> None:
        if letters_in(folder):
            raise OSError("disk on fire")
        commit(messages, epoch)

    story.sink.commit = fail  # type: ignore[method-assign]
    query = story.start(dead_letter_path=str(folder), on_bad_record="dead-letter", bad_seq=0)
    story.feed.add(1)
    with pytest.raises(ContinuousError, match="disk on fire"):
        query.awaitTermination(WAIT_S)
    with pytest.raises(ConfigError, match="prepared with bad records, or late ones"):
        story.start(on_bad_record="skip")
