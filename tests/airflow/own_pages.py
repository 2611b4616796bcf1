"""The pages as a person sees them who may see and do everything, of one query."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from fastapi.testclient import TestClient

from airflow_provider_continuous.plugins import access, pages
from airflow_provider_continuous.view.known import KnownQuery
from tests.airflow.live_checkpoint import LiveCheckpoint


def pages_of(live: LiveCheckpoint, monkeypatch: pytest.MonkeyPatch) -> TestClient:
    """Whichever query is asked for, it is this one."""
    person = SimpleNamespace(
        name="ann",
        seen=list,
        edits_all_dags=True,
        may_act=lambda query: True,
        may_read_logs=lambda query: True,
    )
    monkeypatch.setattr(pages, "find_query", lambda location, seen: KnownQuery(live.location))
    app = pages.create_app()
    app.dependency_overrides[access.viewer] = lambda: person
    return TestClient(app)
