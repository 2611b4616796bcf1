"""What may be done from a query's page, by a person who may do all of it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from airflow_provider_continuous.hooks import checkpoint as hooks
from airflow_provider_continuous.plugins import actions
from engine.base.clock import SystemClock
from engine.base.json_text import JSON
from engine.checkpoint.query_state import QueryState
from engine.checkpoint.standing_by import OwnNote
from engine.errors import ConfigError
from tests.airflow.live_checkpoint import LiveCheckpoint
from tests.airflow.own_pages import pages_of

GOLDEN = Path(__file__).parents[1] / "golden" / "checkpoints"


@pytest.fixture
def client(live: LiveCheckpoint, monkeypatch: pytest.MonkeyPatch) -> TestClient:
    return pages_of(live, monkeypatch)


@pytest.fixture
def ended(live: LiveCheckpoint) -> LiveCheckpoint:
    """A query that has committed epochs 0 to 9 and ended."""
    live.hold()
    live.commit(*range(10))
    live.end(QueryState.STOPPED)
    return live


class CompactedSink:
    """Its log is compacted: it finds an epoch again only by the position that a pin has kept."""

    def __init__(self) -> None:
        self.rewound: list[tuple[int, JSON]] = []

    def rewindPosition(self, epoch: int) -> JSON:
        return {"last": epoch}

    def checkRewind(self, epoch: int, position: JSON = None) -> None:
        if position is None:
            raise ConfigError(f"The sink's log is compacted behind epoch {epoch}.")

    def rewind(self, epoch: int, position: JSON = None) -> None:
        self.rewound.append((epoch, position))


@pytest.fixture
def sink(monkeypatch: pytest.MonkeyPatch) -> CompactedSink:
    found = CompactedSink()
    for module in (hooks, actions):
        monkeypatch.setattr(module, "recorded_sink", lambda checkpoint: found)
    return found


def act(client: TestClient, action: str, **asked: Any) -> Any:
    header = {"X-Continuous-Action": "1"}
    return client.post(f"/act/{action}", params={"at": "/x"}, json=asked, headers=header)


def test_a_query_is_rewound_to_a_pin_whose_epoch_was_pruned(
    client: TestClient, ended: LiveCheckpoint, sink: CompactedSink
) -> None:
    assert act(client, "pin", name="first", epoch=0).status_code == 200
    assert act(client, "pin", name="later", epoch=8).status_code == 200
    assert act(client, "prune", keep_epochs=3, dry_run=False).status_code == 200
    assert ended.checkpoint.epochs() == [7, 8, 9]

    gone = act(client, "rewind", to_epoch=0)
    assert gone.status_code == 400
    assert "pinned: first (0), later (8)" in gone.json()["detail"]
    told = act(client, "rewind", to_pin="first")
    assert told.status_code == 200, told.text
    assert told.json()["message"] == (
        "9 epochs would be undone, 1 to 9. The sink takes their rows back. "
        "The pins later go with them."
    )
    assert told.json()["report"] == {
        "from_epoch": 9, "to_epoch": 0, "undone": 9, "pins": ["later"], "dry_run": True
    }  # fmt: skip
    assert ended.checkpoint.committed_epoch() == 9

    shown = client.get("/query", params={"at": "/x"}).text
    assert 'name="to_pin" list="pin-names"' in shown
    assert '<option value="first">epoch 0</option>' in shown

    done = act(client, "rewind", to_pin="first", dry_run=False)

    assert done.status_code == 200, done.text
    assert sink.rewound == [(0, {"last": 0})]
    assert ended.checkpoint.epochs() == [0]


def test_a_rewind_to_an_epoch_has_no_position_for_the_sink(
    client: TestClient, ended: LiveCheckpoint, sink: CompactedSink
) -> None:
    told = act(client, "rewind", to_epoch=7).json()["message"]

    assert told.startswith("2 epochs would be undone, 8 to 9. The rewind will be refused: The sink")


def test_a_rewind_is_of_the_query_that_its_preview_was_of(
    client: TestClient, ended: LiveCheckpoint, sink: CompactedSink
) -> None:
    """Between the two somebody else has rewound it, and it has gone on."""
    for name, epoch in (("first", 0), ("later", 7)):
        assert act(client, "pin", name=name, epoch=epoch).status_code == 200
    seen = act(client, "rewind", to_pin="first").json()["report"]["from_epoch"]
    other = act(client, "rewind", to_pin="later", dry_run=False, expected_epoch=seen)
    assert other.status_code == 200, other.text

    late = act(client, "rewind", to_pin="first", dry_run=False, expected_epoch=seen)

    assert late.status_code == 409, late.text
    assert late.json()["detail"].startswith(
        "The query is now at epoch 7, the preview was of epoch 9. Look at it again: "
    )
    assert sink.rewound == [(7, {"last": 7})]
    assert ended.checkpoint.epochs() == [*range(8)]
    assert ended.checkpoint.status().state is QueryState.STOPPED
    again = act(client, "rewind", to_pin="first", dry_run=False, expected_epoch=7)
    assert (again.status_code, ended.checkpoint.epochs()) == (200, [0])


@pytest.mark.parametrize(
    ("golden", "why"),
    [("spark-4.3-rate-microbatch", "skip a batch"), ("spark-4.3-window-watermark", "state")],
)
def test_a_preview_tells_what_spark_keeps_of_later_batches(
    client: TestClient, ended: LiveCheckpoint, golden: str, why: str
) -> None:
    location = ended.checkpoint.url
    shutil.rmtree(location)
    shutil.copytree(GOLDEN / golden, location)
    last = ended.checkpoint.committed_epoch()
    if why == "state":  # the golden one has the first alone
        ended.checkpoint.storage.create(f"state/0/0/{last + 1}.delta", b"")

    told = act(client, "rewind", to_epoch=last - 1).json()["message"]

    assert "The rewind will be refused: " in told
    assert why in told
    assert "continuous copy" in told
    assert act(client, "rewind", to_epoch=last - 1, dry_run=False).status_code == 400
    assert ended.checkpoint.committed_epoch() == last


@pytest.mark.parametrize(
    "asked", [{}, {"to_epoch": 1, "to_pin": "p"}, {"to_pin": "none"}, {"to_pin": 7}]
)
@pytest.mark.parametrize("dry_run", [True, False])
def test_a_rewind_needs_one_place_to_go_to(
    client: TestClient, ended: LiveCheckpoint, asked: dict[str, Any], dry_run: bool
) -> None:
    assert act(client, "pin", name="p", epoch=1).status_code == 200

    assert act(client, "rewind", **asked, dry_run=dry_run).status_code == 400
    assert ended.checkpoint.committed_epoch() == 9


@pytest.mark.parametrize("action", ["drain", "stop"])
def test_the_standby_of_a_lost_run_is_asked_to_end(
    client: TestClient, live: LiveCheckpoint, action: str
) -> None:
    live.hold()
    live.lose()
    alone = act(client, action)
    assert (alone.status_code, "the query is LOST" in alone.json()["detail"]) == (409, True)

    OwnNote(live.checkpoint.storage, SystemClock()).tell()
    asked = act(client, action, run_id="run-1")

    assert asked.status_code == 200, asked.text
    assert "its standby was asked to" in asked.json()["message"]
    assert live.checkpoint.requests.pending("run-1") == action


@pytest.mark.parametrize("action", ["drain", "stop"])
def test_a_query_that_spark_runs_alone_cannot_be_asked(
    client: TestClient, live: LiveCheckpoint, action: str
) -> None:
    live.commit(0)

    told = act(client, action)

    assert told.status_code == 400
    assert "query.stop() in its own process" in told.json()["detail"]


def test_one_epoch_is_no_epochs(client: TestClient, ended: LiveCheckpoint) -> None:
    assert (
        act(client, "rewind", to_epoch=8)
        .json()["message"]
        .startswith("1 epoch would be undone, 9. ")
    )
    pruned = act(client, "prune", keep_epochs=9).json()["message"]
    assert pruned.startswith("1 epoch, 2 files, ")


@pytest.mark.parametrize("sent", [b"{", b"[1]", b"", b"keep_epochs=2"])
def test_what_an_action_is_asked_with_is_told(client: TestClient, sent: bytes) -> None:
    header = {"X-Continuous-Action": "1", "Content-Type": "application/json"}
    told = client.post("/act/prune", params={"at": "/x"}, content=sent, headers=header)

    assert told.status_code == 422
    assert "The body must be a JSON object, of Content-Type application/json" in told.text
