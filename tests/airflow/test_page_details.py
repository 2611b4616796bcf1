"""What the page of a query is drawn from: progress reports, the fingerprint, dead letters."""

from __future__ import annotations

import html
import json
import os
import re
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_continuous.plugins.details import query_details
from airflow_provider_continuous.plugins.partitions import PARTITIONS_SHOWN, partitions_of
from airflow_provider_continuous.plugins.picture import picture_of
from airflow_provider_continuous.plugins.series import Window, series_of
from airflow_provider_continuous.view.known import KnownQuery
from engine.base.json_text import excerpt
from engine.base.moments import iso_timestamp
from engine.checkpoint.logs.commit_log import CommitEntry
from engine.checkpoint.logs.offset_log import OffsetEntry
from engine.checkpoint.query_state import QueryState
from engine.checkpoint.storage.local_storage import LocalStorage
from engine.history.folding import History, Mark
from engine.history.measures import measured
from engine.history.view import view
from engine.sinks.newest_letters import newest_letters
from tests.airflow.live_checkpoint import LiveCheckpoint
from tests.airflow.own_pages import pages_of


def report(epoch: int, **more: Any) -> dict[str, Any]:
    source = {
        "startOffset": '{"t":{"0":10,"1":10}}',
        "endOffset": '{"t":{"0":30,"1":12}}',
        "latestOffset": '{"t":{"0":31,"1":99}}',
        "lag": '{"t":{"0":1,"1":87}}',
        "lagTotal": 88,
        "numInputRows": 22,
    }
    return {
        "runId": "a",
        "batchId": epoch,
        "timestamp": f"2026-01-01T00:00:{epoch:02}.000Z",
        "batchDuration": 2000,
        "numInputRows": 22,
        "inputRowsPerSecond": 11.0,
        "durationMs": {"commitSink": 5, "triggerExecution": 9},
        "sources": [source],
        "sink": {"description": "noop", "numOutputRows": 4},
        **more,
    }


def measured_twice() -> History:
    found = History()
    found.marks.append(Mark(1767225602500, "restarted", "the broker has gone"))
    found.add(measured(report(0)))
    found.add(
        measured(
            report(
                1,
                latencyMs={
                    "epochEndToCommitted": 0,
                    "readToWritten": {"p50": 3, "p99": 3, "max": 3},
                },
            )
        )
    )
    return found


def test_numbers_over_time() -> None:
    kept = measured_twice()

    series = series_of(view(list(kept.points()), kept.marks))

    assert series["at_s"] == [1767225603.0, 1767225604.0]
    assert (series["rows_in"], series["rows_out"]) == ([11.0, 11.0], [2.0, 2.0])
    assert (series["behind"], series["p99_ms"][0]) == ([88, 88], None)
    assert series["steps_ms"] == {"commitSink": [5.0, 5.0]}
    assert series["state_bytes"] == [None, None]
    assert series["pauses"] == []


def test_no_line_is_drawn_across_the_time_in_which_a_query_was_down() -> None:
    kept = measured_twice()
    kept.add(measured(report(30)))
    # Nothing came for twenty seconds: the epoch was open, and the query was there.
    kept.add(measured(report(32, batchDuration=20_000)))

    series = series_of(view(list(kept.points()), ()))

    assert series["pauses"] == [2]
    first = 1767225603.0
    assert series["at_s"] == [first, first + 1, first + 2, first + 30, first + 50]
    assert series["rows_in"] == [11.0, 11.0, None, 11.0, 1.1]
    assert series["steps_ms"] == {"commitSink": [5.0, 5.0, None, 5.0, 5.0]}


def test_a_restart_is_told_with_its_reason() -> None:
    kept = measured_twice()

    (mark,) = series_of(view(list(kept.points()), kept.marks))["marks"]

    assert (mark["at_s"], mark["kind"]) == (1767225602.5, "restarted")
    assert mark["reason"] == "the broker has gone"


def told_of_nothing(live: LiveCheckpoint, window: Window) -> Any:
    series = query_details(KnownQuery(live.location), with_records=False, window=window)["series"]
    return series["nothing"]


def test_a_window_in_which_nothing_was_committed_is_told_with_a_wider_one(
    live: LiveCheckpoint,
) -> None:
    early = "There is nothing to draw before two epochs are committed."
    assert told_of_nothing(live, "1h") == {"why": early, "wider": None}
    live.commit(0, 1, 2)
    unkept = "The checkpoint has no history to draw."
    assert told_of_nothing(live, "7d") == {"why": unkept, "wider": None}

    ended_ms = round(time.time() * 1000) - 2 * 3600 * 1000
    live.checkpoint.progress.write(
        [report(each, timestamp=iso_timestamp(ended_ms + each * 10_000)) for each in range(3)]
    )

    for window in ("5m", "1h"):
        told = told_of_nothing(live, window)
        assert told["why"].startswith(f"Nothing was committed in the last {window}; ")
        assert told["wider"] == "12h"
    assert told_of_nothing(live, "12h") is None


def test_a_history_that_ended_before_every_window_is_told(live: LiveCheckpoint) -> None:
    live.commit(0, 1)
    live.checkpoint.progress.write([report(0), report(1)])

    assert told_of_nothing(live, "7d") == {
        "why": "Nothing was committed in the last 7d; the history ends at 2026-01-01 00:00:04 UTC.",
        "wider": None,
    }


def about(live: LiveCheckpoint, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What the page tells about the query, by name."""
    page = pages_of(live, monkeypatch).get("/query", params={"at": "/x"}).text
    told = re.findall(r"<dt>(.*?)</dt><dd[^>]*>(.*?)</dd>", page.partition('id="about"')[2])
    return {name: re.sub("<.*?>", "", text) for name, text in told}


def said(live: LiveCheckpoint, **changes: Any) -> None:
    """Let the lease say something else, as that of a run of another time does."""
    path = Path(live.location) / "control" / "lease"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


@pytest.mark.parametrize(
    ("state", "told", "after"),
    [
        (QueryState.STOPPED, "2026-01-01 00:00:00 UTC to 2026-01-01 00:00:24 UTC, 24 s", ", ended"),
        (QueryState.FAILED, "2026-01-01 00:00:00 UTC to 2026-01-01 00:00:24 UTC, 24 s", ", ended"),
        (
            None,
            "2026-01-01 00:00:00 UTC; last heard of at 2026-01-01 00:00:24 UTC, after 24 s",
            ", lost",
        ),
    ],
)
def test_a_run_that_is_over_counts_no_further(
    live: LiveCheckpoint,
    monkeypatch: pytest.MonkeyPatch,
    state: QueryState | None,
    told: str,
    after: str,
) -> None:
    live.hold()
    assert live.lease is not None
    live.lease.heartbeat(application="app-7")
    running = about(live, monkeypatch)
    assert (running["Since"].count("UTC"), "Ran" in running) == (1, False)
    assert running["Process"] == f"{os.getpid()} on {socket.gethostname()}"
    if state:
        live.end(state)
    began_ms = 1767225600000
    said(
        live,
        started_at_ms=began_ms,
        heartbeat_at_ms=began_ms + 24_000,
        heartbeat_interval_ms=1_000,
    )

    over = about(live, monkeypatch)

    assert over["Ran"] == told
    assert "Since" not in over
    assert over["Process"] == f"{os.getpid()} on {socket.gethostname()}{after}"
    assert over["Spark"] == f"app-7{after}"


def test_of_a_query_without_a_run_none_is_told(
    live: LiveCheckpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    live.commit(0)

    assert not {"Since", "Ran", "Process"} & about(live, monkeypatch).keys()


def test_the_partition_that_is_furthest_behind_comes_first() -> None:
    slow, fast = partitions_of(report(0))

    assert (slow["partition"], slow["behind"], slow["rows_per_second"]) == ("t/1", 87, 1.0)
    assert (fast["partition"], fast["rows"], fast["end"]) == ("t/0", 20, 31)
    # Its end was asked for before the epoch ended, and records came in between.
    (ahead,) = partitions_of({"sources": [{"endOffset": '{"0":9}', "latestOffset": '{"0":7}'}]})
    assert ahead["end"] == 9
    rate = {"endOffset": '{"0":{"value":7,"runTimeMs":1795561226993}}'}
    cut = {"endOffset": '{"t":{"0":30,...'}
    assert partitions_of({"sources": [rate, cut]}) == []


@pytest.mark.parametrize(
    ("first", "last", "partitions"),
    [(0, 5, []), ({"t": {"0": 10}}, {"t": {"0": 30}}, [("t/0", 30, 20)])],
    ids=["rate", "kafka"],
)
def test_a_report_of_sparks_has_offsets_as_json_and_rows_out_that_nobody_counts(
    live: LiveCheckpoint,
    monkeypatch: pytest.MonkeyPatch,
    first: Any,
    last: Any,
    partitions: list[tuple[str, int, int]],
) -> None:
    live.commit(0)
    rates = {"numInputRows": 20, "inputRowsPerSecond": 0.0, "processedRowsPerSecond": 40.0}
    source = {"description": "a source", "startOffset": first, "endOffset": last, **rates}
    sink = {"description": "FileSink[/out]", "numOutputRows": -1}
    live.checkpoint.progress.write(
        [report(0, sources=[{**source, "latestOffset": last}], sink=sink, **rates)]
    )

    found = query_details(KnownQuery(live.location), with_records=False)

    told = [(each["partition"], each["end"], each["rows"]) for each in found["partitions"]]
    assert told == partitions
    assert (found["epochs"][0]["offsets"], found["epochs"][0]["rows_out"]) == ([last], None)
    assert found["picture"][-1][0]["numbers"][0] == ("rows", None, "count")
    assert found["picture"][0][0]["numbers"][1] == ("rows/s", 40.0, "count")
    assert found["epochs"][0]["rows_per_second"] == 40.0, "of Spark's first batch"
    assert pages_of(live, monkeypatch).get("/query", params={"at": "/x"}).status_code == 200


def test_partitions_are_told_however_many_there_are(live: LiveCheckpoint) -> None:
    count = 10_000

    def offset(epoch: int) -> dict[str, dict[str, int]]:
        return {"t": {str(each): 1_000_000 * epoch + each for each in range(count)}}

    for epoch in (0, 1):
        live.checkpoint.offsets.add(epoch, OffsetEntry((offset(epoch),)))
        live.checkpoint.commits.add(epoch, CommitEntry())
    source = {"startOffset": excerpt(offset(0)), "endOffset": excerpt(offset(1))}
    told = {"batchId": 1, "batchDuration": 2000, "sources": [{**source, "lag": excerpt(offset(9))}]}
    live.checkpoint.progress.write([told])

    found = query_details(KnownQuery(live.location), with_records=False)["partitions"]

    assert len(found) == PARTITIONS_SHOWN
    assert (found[0]["partition"], found[0]["offset"]) == ("t/0", 1_000_000)
    assert (found[0]["rows"], found[0]["rows_per_second"]) == (1_000_000, 500_000)
    assert found[0]["behind"] is None, "it is not known of so many"


def long_offset(epoch: int) -> dict[str, dict[str, int]]:
    return {"t": {str(each): 1_000_000 * epoch + each for each in range(10_000)}}


@pytest.mark.parametrize(
    ("end", "ends_at"),
    [
        (excerpt(long_offset(1)), '[{"t":{"0":1000000,"1":'),  # the engine's own report
        (long_offset(1), '[{"t":{"0":1000000,"1":'),  # one of Spark's
        (None, "Too long to be shown: 1"),
    ],
    ids=["report", "spark", "log"],
)
def test_long_offsets_of_an_epoch_are_neither_read_nor_sent(
    live: LiveCheckpoint, monkeypatch: pytest.MonkeyPatch, end: Any, ends_at: str
) -> None:
    for epoch in range(50):
        live.checkpoint.offsets.add(epoch, OffsetEntry((long_offset(epoch),)))
        live.checkpoint.commits.add(epoch, CommitEntry())
    if end is not None:
        sources = [{"startOffset": {}, "endOffset": end}]
        live.checkpoint.progress.write([report(each, sources=sources) for each in range(50)])
    read: list[str] = []

    def reading(storage: LocalStorage, name: str, asked: Any = LocalStorage.read) -> Any:
        read.append(name)
        return asked(storage, name)

    monkeypatch.setattr(LocalStorage, "read", reading)

    page = pages_of(live, monkeypatch)
    found = page.get("/query.json", params={"at": "/x"})

    assert len(found.content) < 400_000
    assert {each["offsets"] is None for each in found.json()["epochs"]} == {True}
    assert found.json()["epochs"][0]["ends_at"].startswith(ends_at)
    # Those that the status, the watermark and the partitions are of.
    assert {each for each in read if each.startswith("offsets/")} <= {"offsets/48", "offsets/49"}
    assert ends_at in html.unescape(page.get("/query", params={"at": "/x"}).text)


def test_short_offsets_of_an_epoch_are_sent_as_they_are(live: LiveCheckpoint) -> None:
    live.commit(0, 1)
    live.checkpoint.progress.write([report(1)])

    new, old = query_details(KnownQuery(live.location), with_records=False)["epochs"]

    assert (new["offsets"], new["ends_at"]) == (
        [{"t": {"0": 30, "1": 12}}],
        '[{"t":{"0":30,"1":12}}]',
    )
    assert (list(old["offsets"]), old["ends_at"]) == ([{"0": 10}], '[{"0":10}]')


@pytest.mark.parametrize(
    ("description", "title"),
    [
        ("org.apache.spark.sql.execution.streaming.ConsoleTable$@72eaa0c8", "console"),
        ("org.apache.spark.sql.execution.datasources.noop.NoopTable$@1f", "noop"),
        ("FileSink[file:/tmp/a@b]", "FileSink[file:/tmp/a@b]"),
    ],
)
def test_a_sink_that_has_no_text_of_its_own_is_named(description: str, title: str) -> None:
    [[_], [sink]] = picture_of(None, report(0, sink={"description": description}))

    assert sink["title"] == title


@pytest.mark.parametrize(
    ("more", "name"),
    [
        ({"latencyMs": {"epochEndToCommitted": 1}}, "snapshot"),
        ({"stateOperators": [{"numRowsTotal": 4, "memoryUsedBytes": 800}]}, "memory used"),
    ],
)
def test_what_the_bytes_of_the_state_are(
    live: LiveCheckpoint, more: dict[str, Any], name: str
) -> None:
    live.commit(0)
    live.checkpoint.progress.write([report(0, **more)])

    found = query_details(KnownQuery(live.location), with_records=False)["series"]

    assert found["state_name"] == name


def test_a_picture_needs_a_fingerprint_or_a_report() -> None:
    fingerprint = {
        "sources": [{"format": "kafka", "options": {"subscribe": "t"}, "steps": ["Filter a"]}],
        "stages": [{"state": {"operation": "GroupRows", "keys": ["k", "l"]}, "steps": []}],
        "sink": {"format": "delta", "options": {}},
    }

    boxes = [box for column in picture_of(fingerprint, report(0)) for box in column]

    assert [box["title"] for box in boxes] == ["kafka", "state", "delta"]
    assert boxes[0]["steps"] == ["Filter a"]
    assert boxes[1]["steps"] == ["operation: GroupRows", "keys: k, l"]
    assert [box["title"] for column in picture_of(None, report(0)) for box in column] == [
        "source",
        "noop",
    ]
    assert picture_of(None, {}) == []


def test_a_picture_tells_what_the_tasks_of_a_box_are_at() -> None:
    fingerprint = {
        "sources": [{"format": "kafka", "options": {}, "steps": []}] * 2,
        "stages": [{"state": {"operation": "JoinStreams"}, "steps": []}],
    }
    names = ("name", "tasks", "readingMs", "transformingMs", "writingMs")
    rows = [("source 0", 2, 75.0, 20.0, 5.0), ("source 1", 1, 0.0, 0.0, 0.0)]
    rows.append(("join", 4, 10.0, 60.0, 130.0))
    told = {"sources": [{}, {}], "stages": [dict(zip(names, row, strict=True)) for row in rows]}

    boxes = [box for column in picture_of(fingerprint, told) for box in column]

    wanted = [(20.0, 5.0, 0.25), (0.0, 0.0, None), (60.0, 130.0, 0.95)]
    for box, values in zip(boxes, wanted, strict=True):
        steps, writing, busy = values
        assert box["numbers"][-3:] == [
            ("steps", steps, "ms"),
            ("writing or sending", writing, "ms"),
            ("busy", busy, "share"),
        ]


def put_aside(folder: Path) -> str:
    """Write two letters; return what a report tells of them."""
    log = folder / "_spark_metadata"
    log.mkdir(parents=True, exist_ok=True)
    for epoch in (0, 1):
        letter = {"epoch": epoch, "error": "password=x", "record": "7", "partition": 0}
        name = f"part-{epoch}.json"
        if not (folder / name).exists():
            (folder / name).write_text(json.dumps(letter) + "\n")
        entry = {"path": f"file://{folder}/{name}", "size": 1, "isDir": False}
        (log / str(epoch)).write_text(f"v1\n{json.dumps(entry)}")
    return f"noop, dead letters: json[{folder}]"


def test_the_newest_dead_letters_come_without_secrets(tmp_path: Path) -> None:
    told = newest_letters({"sink": {"description": put_aside(tmp_path)}})

    assert told is not None
    assert [letter["epoch"] for letter in told["letters"]] == [1, 0]
    assert told["letters"][0]["error"] == "password=***"
    assert newest_letters(report(0)) is None
    nowhere = newest_letters({"sink": {"description": "noop, dead letters: json[/no/such]"}})
    assert nowhere is not None
    assert nowhere["letters"] == []


def letters_of(live: LiveCheckpoint, told: str, **asked: Any) -> Any:
    live.checkpoint.progress.write([report(0, sink={"description": told})])
    return query_details(KnownQuery(live.location), with_records=True, **asked)["letters"]


@pytest.mark.parametrize("own", ["checkpoint/letters", "checkpoint.letters", "checkpoint/a/../b"])
def test_dead_letters_of_the_checkpoints_own_folders_are_shown(
    live: LiveCheckpoint, tmp_path: Path, own: str
) -> None:
    (Path(live.location) / "a").mkdir()

    found = letters_of(live, put_aside(tmp_path / own))

    assert [letter["epoch"] for letter in found["letters"]] == [1, 0]


def test_a_report_gives_nobody_the_letters_of_others(live: LiveCheckpoint, tmp_path: Path) -> None:
    """Whoever may write the checkpoint may write the report, and links."""
    others = tmp_path / "others"
    told = put_aside(others)
    linked, lured = Path(live.location) / "linked", Path(live.location) / "lured"
    linked.symlink_to(others)
    lured.mkdir()
    (lured / "part-1.json").symlink_to(others / "part-1.json")
    climbing = f"noop, dead letters: json[{live.location}/../others]"

    for each in (told, climbing, told.replace(str(others), str(linked)), put_aside(lured)):
        hidden = letters_of(live, each)
        assert hidden["letters"] == []
        assert "who may edit all DAGs" in hidden["error"]
        assert hidden["path"] in each

    shown = letters_of(live, told, any_letters=True)
    assert [letter["epoch"] for letter in shown["letters"]] == [1, 0]


@pytest.mark.parametrize(("reported", "calls_max"), [(True, 30), (False, 130)])
def test_a_look_at_a_query_costs_few_calls(
    reported: bool, calls_max: int, live: LiveCheckpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On an object store each of them takes its time, and there is a look every five seconds."""
    live.hold()
    live.commit(*range(100))
    if reported:
        cut = {"endOffset": '{"0": 99...'}
        sources = [[{"endOffset": json.dumps({"0": (epoch + 1) * 10})}] for epoch in range(99)]
        told = [
            {**report(epoch % 60), "batchId": epoch, "sources": each}
            for epoch, each in enumerate([*sources, [cut]])
        ]
        live.checkpoint.progress.write(told)
    calls: list[str] = []

    def counting(asked: Any) -> Any:
        def counted(*arguments: Any) -> Any:
            calls.append(str(arguments[1:]))
            return asked(*arguments)

        return counted

    for name in ("read", "list", "info"):
        monkeypatch.setattr(LocalStorage, name, counting(getattr(LocalStorage, name)))

    found = query_details(KnownQuery(live.location), with_records=True)

    assert len(calls) <= calls_max, calls
    assert calls.count("('commits',)") == 1, calls
    assert [each["epoch"] for each in found["epochs"]] == [*range(99, 49, -1)]
    assert [list(each["offsets"]) for each in found["epochs"][:2]] == [[{"0": 1000}], [{"0": 990}]]
    assert all(each["committed_at_ms"] for each in found["epochs"])
