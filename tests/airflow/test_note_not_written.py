"""Storage that refuses to write a note for a moment, while a query starts. The processes are real;
what runs in them is ``stand_in.py`` instead of Spark."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_continuous.deploy import processes
from airflow_provider_continuous.deploy.contract import Handle
from airflow_provider_continuous.deploy.notes import Notes
from airflow_provider_continuous.hooks.query import ContinuousQueryHook
from engine.checkpoint.storage.opening import open_storage
from engine.errors import CheckpointError
from scripts.local_airflow.rest import wait_for


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch) -> list[Handle]:
    """The notes that were refused: the first one that tells the run."""
    refused, write = [], Notes.write

    def refuse(notes: Notes, handle: Handle) -> None:
        if handle.run_id and not refused:
            refused.append(handle)
            raise CheckpointError("503, slow down")
        write(notes, handle)

    monkeypatch.setattr(Notes, "write", refuse)
    return refused


def test_the_run_is_noted_when_it_answers_again(
    stand_in: None, spec: dict[str, Any], refused: list[Handle]
) -> None:
    hook = ContinuousQueryHook()
    submitted = hook.submit(hook.specification(spec), "a_dag.a_task, a_run")

    status = hook.wait_until_started(submitted, 120)

    assert refused
    last = Notes(open_storage(spec["checkpoint_location"])).last()
    assert last is not None
    assert last.run_id == status.run_id


def test_a_driver_keeps_what_it_has_not_read_yet(
    stand_in: None, spec: dict[str, Any], tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A driver's process is found, and cannot be noted."""
    spec["conf"] = {"lease_gate": str(tmp_path / "gate")}
    hook, write = ContinuousQueryHook(), Notes.write
    with monkeypatch.context() as patch:
        patch.setattr(Notes, "write", lambda *_: None)
        first = hook.submit(hook.specification(spec), "a_dag.a_task, a_run")
    monkeypatch.setattr(processes, "child", lambda _: None)
    unknown = replace(first.handle, pid=None, started="")
    wait_for(lambda: processes.find(unknown).pid, 120, "the process to have its name", 0.01)
    found = hook.submission(spec["checkpoint_location"], 0)
    assert found is not None
    refused: list[int] = []

    def refuse(notes: Notes, handle: Handle) -> None:
        if len(refused) < 2:
            refused.append(handle.pid or 0)
            raise CheckpointError("503, slow down")
        (tmp_path / "gate").touch()
        write(notes, handle)

    monkeypatch.setattr(Notes, "write", refuse)

    assert hook.wait_until_started(found, 120).pid == first.handle.pid
    assert refused == [first.handle.pid, first.handle.pid]
