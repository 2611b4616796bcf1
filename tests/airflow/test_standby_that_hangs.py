"""A standby that hangs before it waits. The processes are real; what runs in them is
``stand_in.py`` instead of Spark."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_continuous.deploy import processes
from airflow_provider_continuous.deploy.contract import DriverState
from airflow_provider_continuous.deploy.notes import Notes
from airflow_provider_continuous.deploy.standbys import STANDBYS
from airflow_provider_continuous.deploy.submitted import SubmittedQuery
from airflow_provider_continuous.hooks.query import ContinuousQueryHook
from airflow_provider_continuous.operators.query.standby import keep_standby
from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.standing_by import standing_by
from tests.waiting import wait_until


class Says:
    """What people are told."""

    def __init__(self) -> None:
        self.told = ""

    def warning(self, text: str, *given: object) -> None:
        self.told += text % given


@dataclass
class Hangs:
    """:ivar gate: lets standbys wait."""

    document: dict[str, Any]
    driver: SubmittedQuery
    gate: Path
    log: Says

    def keep(self, timeout_s: float) -> None:
        assert keep_standby(ContinuousQueryHook(), self.document, "me", timeout_s, self.log)

    @property
    def checkpoint(self) -> Checkpoint:
        return Checkpoint(self.document["checkpoint_location"])

    def noted_since_s(self) -> float:
        note = Notes(self.checkpoint.storage, STANDBYS).last_file()
        assert note is not None
        return time.time() - note.modified_s

    def standby(self, number: int) -> Any:
        handle = Notes(self.checkpoint.storage, STANDBYS).read(number)
        assert handle is not None
        return handle


@pytest.fixture
def hangs(stand_in: None, spec: dict[str, Any], tmp_path: Path) -> Iterator[Hangs]:
    gate = tmp_path / "gate"
    gate.touch()
    spec["conf"] = {"lease_gate": str(gate)}
    hook = ContinuousQueryHook()
    document = hook.specification(spec)
    driver = hook.submit(document, "me")
    hook.wait_until_started(driver, 120)
    gate.unlink()
    found = Hangs(document, driver, gate, Says())
    found.keep(600)
    yield found
    for handle in Notes(found.checkpoint.storage, STANDBYS).all():
        processes.end(handle, hard=True)
    driver.process.kill()
    driver.process.wait()


def test_it_is_ended_and_followed_when_it_is_late(hangs: Hangs) -> None:
    late = hangs.standby(0)
    wait_until(lambda: hangs.noted_since_s() > 0.5, "its deadline")

    hangs.keep(0.5)

    assert processes.status(late).state is DriverState.ENDED
    assert f"process {late.pid} on {late.host}, log {late.log}, does not wait" in hangs.log.told
    assert "it was ended, and another one follows" in hangs.log.told
    hangs.gate.touch()
    wait_until(lambda: len(standing_by(hangs.checkpoint.storage)) == 1, "the next one")
    assert standing_by(hangs.checkpoint.storage)[0].pid == hangs.standby(1).pid


def test_it_has_its_time(hangs: Hangs) -> None:
    hangs.keep(600)

    assert hangs.log.told == ""
    assert processes.status(hangs.standby(0)).state is DriverState.RUNNING
    hangs.gate.touch()
    wait_until(lambda: len(standing_by(hangs.checkpoint.storage)) == 1, "it")
    assert standing_by(hangs.checkpoint.storage)[0].pid == hangs.standby(0).pid
