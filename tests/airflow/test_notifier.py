"""What people are told about a query, and by which way."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import BaseNotifier
from airflow.sdk.execution_time.xcom import XCom
from fsspec.implementations.memory import MemoryFileSystem

from airflow_provider_continuous.listeners.query import on_task_instance_failed
from airflow_provider_continuous.notifications.query import (
    ContinuousQueryNotifier,
    WebhookError,
)
from airflow_provider_continuous.operators.query import (
    DrainContinuousQueryOperator,
    RunContinuousQueryOperator,
)
from engine.checkpoint.query_state import QueryState
from engine.errors import ConfigError
from tests.airflow.live_checkpoint import LiveCheckpoint


class Collects(BaseNotifier):
    """Another notifier, with a template of its own."""

    template_fields = ("text",)

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text

    def notify(self, context: Any) -> None:
        self.sent = self.text


@pytest.fixture
def failed(live: LiveCheckpoint) -> LiveCheckpoint:
    """A query that has failed, with a secret in its error."""
    live.commit(0, 1, 2)
    live.hold()
    live.end(QueryState.FAILED, "The sink refused: token=hunter2")
    return live


def test_it_tells_state_epoch_and_error_without_secrets(
    failed: LiveCheckpoint,
) -> None:
    other = Collects("{{ query_text }}")

    ContinuousQueryNotifier(
        checkpoint_location=failed.location, message="Look!", notifiers=[other]
    )({})

    assert other.sent.startswith("Look!\n")
    assert "is FAILED, last committed epoch 2" in other.sent
    assert "The sink refused" in other.sent
    assert "hunter2" not in other.sent


def test_the_task_of_the_callback_tells_the_query(failed: LiveCheckpoint) -> None:
    task = DrainContinuousQueryOperator(task_id="t", checkpoint_location=failed.location)
    other = Collects("{{ query_status.state }} at {{ query_status.epoch }}")

    ContinuousQueryNotifier(notifiers=[other])({"task": task})

    assert other.sent == "FAILED at 2"


@pytest.fixture
def of_a_file(failed: LiveCheckpoint, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The context of a task whose specification is a file, and that has come to its start."""
    told = {"continuous_query": {"checkpoint_location": failed.location}}
    monkeypatch.setattr(XCom, "get_value", lambda *, ti_key, key: told.get(key))
    task = RunContinuousQueryOperator(task_id="t", spec="query.yaml")
    return {"task": task, "ti": SimpleNamespace(task=task, dag_id="a_dag", task_id="t")}


def test_the_task_of_the_callback_has_its_query_in_a_file(of_a_file: dict[str, Any]) -> None:
    other = Collects("{{ query_status.state }} at {{ query_status.epoch }}")

    ContinuousQueryNotifier(notifiers=[other])(of_a_file)

    assert other.sent == "FAILED at 2"


def test_the_task_of_the_callback_opens_the_storage(monkeypatch: pytest.MonkeyPatch) -> None:
    def file_system(conn_id: str | None, _: Any) -> MemoryFileSystem:
        assert conn_id == "lake"
        return MemoryFileSystem()

    monkeypatch.setattr("airflow.sdk.io.fs._register_filesystems", lambda: {"memory": file_system})
    LiveCheckpoint("memory:///notified").commit(0)
    task = DrainContinuousQueryOperator(
        task_id="t", checkpoint_location="memory:///notified", storage_conn_id="lake"
    )
    other = Collects("{{ query_status.epoch }} of {{ query_status.checkpoint_location }}")

    ContinuousQueryNotifier(notifiers=[other])({"task": task})

    assert other.sent == "0 of memory://lake@/notified"


def test_without_a_query_it_says_so() -> None:
    with pytest.raises(ConfigError, match="does not know its query"):
        ContinuousQueryNotifier()({"task": object()})


def test_a_webhook_gets_text_and_data(
    failed: LiveCheckpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    with webhook(200) as (url, received):
        monkeypatch.setenv("AIRFLOW_CONN_ALERTS", connection(url, "T0/secret"))

        notifier = ContinuousQueryNotifier(
            checkpoint_location=failed.location, webhook_conn_id="alerts"
        )
        notifier({})

    ((path, body),) = received
    assert path == "/hook/T0/secret"
    assert "is FAILED" in body["text"]
    assert body["query"]["epoch"] == 2


def test_a_refusal_fails_without_the_address(
    failed: LiveCheckpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    with webhook(403) as (url, _):
        monkeypatch.setenv("AIRFLOW_CONN_ALERTS", connection(url, "T0/secret"))
        notifier = ContinuousQueryNotifier(
            checkpoint_location=failed.location, webhook_conn_id="alerts"
        )
        with pytest.raises(WebhookError, match="answered 403") as refused:
            notifier({})

    assert "secret" not in str(refused.value)


def test_it_may_ask_the_query_to_end(live: LiveCheckpoint) -> None:
    live.hold("run-1")

    ContinuousQueryNotifier(checkpoint_location=live.location, ask="drain")({})

    assert live.checkpoint.requests.pending("run-1") == "drain"


class OurDrain(DrainContinuousQueryOperator):
    """A class of a DAG's own."""


@pytest.mark.parametrize("operator", [DrainContinuousQueryOperator, OurDrain])
def test_a_failed_task_logs_how_its_query_is(
    operator: type[DrainContinuousQueryOperator],
    failed: LiveCheckpoint,
    caplog: pytest.LogCaptureFixture,
) -> None:
    task = operator(task_id="t", checkpoint_location=failed.location)

    with caplog.at_level(logging.INFO):
        on_task_instance_failed(None, SimpleNamespace(task=task), None)  # type: ignore[arg-type]

    assert "is FAILED, last committed epoch 2" in caplog.text


def test_a_failed_task_knows_the_query_of_its_file(
    of_a_file: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        on_task_instance_failed(None, of_a_file["ti"], None)

    assert "is FAILED, last committed epoch 2" in caplog.text


def test_other_tasks_log_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        on_task_instance_failed(None, SimpleNamespace(task=object()), None)  # type: ignore[arg-type]

    assert caplog.text == ""


@contextmanager
def webhook(status: int) -> Iterator[tuple[str, list[tuple[str, Any]]]]:
    """A server that notes what it is sent."""
    received: list[tuple[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            received.append((self.path, json.loads(body)))
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/hook", received
        finally:
            server.shutdown()
            thread.join()


def connection(url: str, password: str) -> str:
    return json.dumps({"conn_type": "http", "host": url, "password": password})
