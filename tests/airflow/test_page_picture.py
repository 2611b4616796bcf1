"""The drawn pipeline of a query that Spark runs: there are progress reports, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_continuous.plugins.picture import picture_of
from tests.airflow.live_checkpoint import LiveCheckpoint
from tests.airflow.own_pages import pages_of
from tests.airflow.test_page_texts import text_of

SAVE: dict[str, Any] = {
    "operatorName": "stateStoreSave",
    "numRowsTotal": 5,
    "numRowsUpdated": 4,
    "memoryUsedBytes": 3688,
    "numRowsDroppedByWatermark": 0,
    "numShufflePartitions": 2,
}
DEDUPE: dict[str, Any] = {
    **SAVE,
    "operatorName": "dedupe",
    "numRowsTotal": 1200,
    "memoryUsedBytes": 110_472,
    "numRowsDroppedByWatermark": 3,
}
REPORT: dict[str, Any] = {
    "batchId": 0,
    "timestamp": "2026-01-01T00:00:00.000Z",
    "batchDuration": 1000,
    "stateOperators": [SAVE, DEDUPE],  # as Spark tells them: the one in front of the sink first
    "sources": [{"description": "RateStreamV2", "numInputRows": 50, "endOffset": 1}],
    "sink": {"description": "noop", "numOutputRows": -1},
}


def test_operators_that_keep_state_stand_between_source_and_sink() -> None:
    columns = picture_of(None, REPORT)

    titles = [[box["title"] for box in column] for column in columns]
    assert titles == [["RateStreamV2"], ["dedupe"], ["stateStoreSave"], ["noop"]]
    (dedupe,) = columns[1]
    told = [each for each in dedupe["numbers"] if each[1] is not None]
    assert told == [
        ("tasks", 2, "count"),
        ("rows kept", 1200, "count"),
        ("memory", 110_472, "bytes"),
        ("late rows", 3, "count"),
    ]


def test_what_spark_runs_is_drawn_as_spark_tells_it() -> None:
    """Also in a checkpoint that this engine has used before."""
    fingerprint = {"stages": [{"state": {"kind": "GroupRows", "keys": ["k"]}, "steps": []}]}

    kept = [box for column in picture_of(fingerprint, REPORT) for box in column][1:-1]

    assert [(box["title"], box["steps"]) for box in kept] == [
        ("dedupe", []),
        ("stateStoreSave", []),
    ]


def test_the_page_draws_them(live: LiveCheckpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    live.commit(0)
    live.checkpoint.progress.write([REPORT])

    page = pages_of(live, monkeypatch).get("/query", params={"at": "/x"}).text

    drawn = text_of(page, "pipeline").partition("Over time")[0]
    assert (
        "keeps state dedupe tasks 2 rows kept 1,200 memory 110 kB late rows 3 "
        "keeps state stateStoreSave tasks 2 rows kept 5 memory 3.7 kB late rows 0 sink noop"
    ) in drawn
