"""Drain and stop, asked for through the checkpoint."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import pytest

from engine.base.clock import ManualClock
from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.lease import Lease
from engine.checkpoint.query_state import QueryState
from engine.checkpoint.requests import Requests
from engine.checkpoint.storage.opening import open_storage


@pytest.fixture(params=["local", "memory"])
def requests(request: pytest.FixtureRequest, tmp_path: Path) -> Requests:
    url = str(tmp_path) if request.param == "local" else f"memory://{uuid.uuid4()}"
    return Requests(open_storage(url), ManualClock(1234))


def test_nothing_is_asked(requests: Requests) -> None:
    assert requests.pending("run-a") is None
    requests.clear()


@pytest.mark.parametrize("kind", ["drain", "stop"])
def test_asking(requests: Requests, kind: str) -> None:
    requests.ask(kind, by="somebody")  # type: ignore[arg-type]
    assert requests.pending("run-a") == kind
    assert requests.pending("run-b") == kind
    requests.ask(kind, by="somebody again")
    requests.clear()
    assert requests.pending("run-a") is None


def test_a_request_names_a_run(requests: Requests) -> None:
    requests.ask("drain", by="dag", run_id="run-a")
    assert requests.pending("run-a") == "drain"
    assert requests.pending("run-b") is None


def test_stop_goes_before_drain(requests: Requests) -> None:
    requests.ask("drain", by="dag")
    requests.ask("stop", by="cli")
    assert requests.pending("run-a") == "stop"


def test_a_stop_for_another_run_does_not_hide_a_drain(requests: Requests) -> None:
    requests.ask("stop", by="cli", run_id="run-b")
    requests.ask("drain", by="dag", run_id="run-a")
    assert requests.pending("run-a") == "drain"
    assert requests.pending("run-b") == "stop"


def test_an_unknown_request_is_refused(requests: Requests) -> None:
    with pytest.raises(ValueError, match=r"'pause'.*drain, rescale and stop"):
        requests.ask("pause", by="cli")  # type: ignore[arg-type]


def test_the_file(tmp_path: Path) -> None:
    Requests(open_storage(str(tmp_path)), ManualClock(1234)).ask("drain", by="dag", run_id="r")
    assert json.loads((tmp_path / "control/requests/drain").read_text()) == {
        "kind": "drain",
        "by": "dag",
        "run_id": "r",
        "asked_at_ms": 1234,
    }


@pytest.mark.parametrize("content", ["", "please", "{"])
def test_a_touched_file_is_a_request(tmp_path: Path, content: str) -> None:
    folder = tmp_path / "control" / "requests"
    folder.mkdir(parents=True)
    (folder / "stop").write_text(content)
    (folder / "README").write_text("no request")
    assert Requests(open_storage(str(tmp_path))).pending("run-a") == "stop"


def test_a_request_to_an_earlier_run_does_not_end_the_next(tmp_path: Path) -> None:
    checkpoint = Checkpoint(str(tmp_path))
    first = Lease.acquire(checkpoint, run_id="run-a")
    checkpoint.requests.ask("stop", by="cli")
    assert checkpoint.requests.pending("run-a") == "stop"
    first.release(QueryState.STOPPED)
    Lease.acquire(checkpoint, run_id="run-b")
    assert checkpoint.requests.pending("run-b") is None


def test_a_request_made_while_nobody_runs_ends_nobody(tmp_path: Path) -> None:
    checkpoint = Checkpoint(str(tmp_path))
    checkpoint.requests.ask("drain", by="cli")
    Lease.acquire(checkpoint, run_id="run-a")
    assert checkpoint.requests.pending("run-a") is None


def test_a_request_survives_the_restart_of_its_own_run(tmp_path: Path) -> None:
    checkpoint = Checkpoint(str(tmp_path))
    Lease.acquire(checkpoint, run_id="run-a")
    checkpoint.requests.ask("drain", by="cli")
    Lease.acquire(checkpoint, run_id="run-a")
    assert checkpoint.requests.pending("run-a") == "drain"
