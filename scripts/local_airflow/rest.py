"""A client for the few calls of Airflow's REST API (v2) that a demo or a test needs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

import httpx

T = TypeVar("T")
_TRIES = 4
_PAGE = 100
"""What Airflow gives at most in one answer, unless it is configured otherwise."""


class AirflowApiError(RuntimeError):
    """Airflow did not answer as it should, or not in time."""


class AirflowClient:
    """Talks to one api-server as one user.

    :param address: such as ``http://127.0.0.1:8080``.
    :param timeout_s: of one answer.
    """

    def __init__(self, address: str, user: str, password: str, timeout_s: float = 30.0) -> None:
        self.address = address
        self._login = {"username": user, "password": password}
        self._timeout_s = timeout_s
        self._http = httpx.Client(base_url=address, timeout=timeout_s, trust_env=False)
        self._token: str | None = None

    @property
    def token(self) -> str | None:
        """Of its login, once it has asked for something; a browser has it as the cookie _token."""
        return self._token

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def health(self) -> dict[str, str]:
        """Return each component's health, ``healthy`` or not; empty while nothing answers."""
        try:
            answer = self._http.get("/api/v2/monitor/health")
        except httpx.TransportError:
            return {}
        return {name: part["status"] for name, part in answer.json().items() if part}

    def dag_known(self, dag_id: str) -> bool:
        """Tell whether the DAG has been parsed.

        :raises AirflowApiError: its file cannot be imported.
        """
        if self._call("GET", f"/dags/{dag_id}", accept=(200, 404)).status_code == 200:
            return True
        errors = self._call("GET", "/importErrors").json()["import_errors"]
        if errors:
            raise AirflowApiError("\n".join(error["stack_trace"] for error in errors))
        return False

    def trigger(self, dag_id: str, conf: dict[str, Any] | None = None) -> str:
        """Start a DAG run; return its id. A paused DAG is unpaused."""
        self.pause(dag_id, paused=False)
        body = {"logical_date": None, "conf": conf or {}}
        answer = self._call("POST", f"/dags/{dag_id}/dagRuns", json=body)
        return str(answer.json()["dag_run_id"])

    def pause(self, dag_id: str, paused: bool = True) -> None:
        """Pause a DAG, or let it go on."""
        self._call("PATCH", f"/dags/{dag_id}", json={"is_paused": paused})

    def watch_assets(self, dag_id: str) -> None:
        """Let a DAG go on that assets with watchers start. Airflow begins to watch when it parses
        the file of a DAG that goes on, so it is asked to parse it now."""
        self.pause(dag_id, paused=False)
        token = self._call("GET", f"/dags/{dag_id}/details").json()["file_token"]
        self._call("PUT", f"/parseDagFile/{token}")

    def runs(self, dag_id: str, state: str) -> list[str]:
        """Return the ids of the DAG's runs in this state, the oldest first, 100 at most."""
        path = f"/dags/{dag_id}/dagRuns"
        params: dict[str, Any] = {"state": state, "order_by": "id", "limit": 100}
        answer = self._call("GET", path, params=params)
        return [str(run["dag_run_id"]) for run in answer.json()["dag_runs"]]

    def run_state(self, dag_id: str, run_id: str) -> str:
        """Return a DAG run's state: queued, running, success or failed."""
        return str(self._call("GET", f"/dags/{dag_id}/dagRuns/{run_id}").json()["state"])

    def fail_run(self, dag_id: str, run_id: str) -> None:
        """Mark a DAG run as failed, and what of it runs or is deferred."""
        self._call("PATCH", f"/dags/{dag_id}/dagRuns/{run_id}", json={"state": "failed"})

    def tasks(self, dag_id: str, run_id: str) -> list[dict[str, Any]]:
        """Return the run's task instances as the API tells them, in order of their start."""
        path = f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances"
        answer = self._call("GET", path, params={"limit": _PAGE}).json()
        found: list[dict[str, Any]] = answer["task_instances"]
        if len(found) < answer["total_entries"]:
            raise AirflowApiError(f"{dag_id}, {run_id} has more than {_PAGE} task instances.")
        return sorted(found, key=lambda task: task["start_date"] or "9")

    def task_state(self, dag_id: str, run_id: str, task_id: str) -> str | None:
        """Return a task's state, None before it is scheduled."""
        path = f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}"
        state: str | None = self._call("GET", path).json()["state"]
        return state

    def set_task_state(self, dag_id: str, run_id: str, task_id: str, state: str) -> None:
        """Mark a task as ``success`` or ``failed``, as a user does by hand."""
        path = f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}"
        self._call("PATCH", path, json={"new_state": state})

    def clear(self, dag_id: str, run_id: str, task_id: str) -> None:
        """Clear a task, so that it runs again."""
        body = {
            "dry_run": False,
            "dag_run_id": run_id,
            "task_ids": [task_id],
            "only_failed": False,
            "reset_dag_runs": True,
        }
        self._call("POST", f"/dags/{dag_id}/clearTaskInstances", json=body)

    def xcom(self, dag_id: str, run_id: str, task_id: str, key: str = "return_value") -> Any:
        """Return what a task has returned, or pushed under another key."""
        path = f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/xcomEntries/{key}"
        return self._call("GET", path, params={"deserialize": "false"}).json()["value"]

    def asset_event_count(self) -> int:
        """Return how many events of assets are stored."""
        answer = self._call("GET", "/assets/events", params={"limit": 1})
        return int(answer.json()["total_entries"])

    def log(self, dag_id: str, run_id: str, task_id: str, attempt: int = 1) -> str:
        """Return the log of a task's attempt."""
        path = f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/logs/{attempt}"
        content = self._call("GET", path, accept=(200, 404)).json().get("content", [])
        return "\n".join(_log_line(line) for line in content)

    def wait_for_run(self, dag_id: str, run_id: str, timeout_s: float) -> str:
        """Wait until a DAG run has ended; return its state."""

        def ended() -> str | None:
            state = self.run_state(dag_id, run_id)
            return state if state in ("success", "failed") else None

        return wait_for(ended, timeout_s, f"the end of {dag_id}, {run_id}")

    def failures(self, dag_id: str, run_id: str) -> str:
        """Return the logs of the run's failed tasks, for a person to read."""
        parts = []
        for task in self.tasks(dag_id, run_id):
            if task["state"] == "failed":
                log = self.log(dag_id, run_id, task["task_id"], max(1, task["try_number"]))
                parts.append(f"---- {task['task_id']}\n{log}")
        return "\n".join(parts)

    def page(self, path: str) -> Any:
        """Return the JSON of a page of a plugin."""
        return self._call("GET", path, below="").json()

    def _call(
        self,
        method: str,
        path: str,
        accept: tuple[int, ...] = (200, 201),
        below: str = "/api/v2",
        **arguments: Any,
    ) -> httpx.Response:
        for _ in range(2):
            if self._token is None:
                answer = self._ask("POST", "/auth/token", json=self._login)
                if answer.status_code != 201:
                    raise AirflowApiError(f"The login failed: {answer.status_code} {answer.text}")
                self._token = answer.json()["access_token"]
            headers = {"Authorization": f"Bearer {self._token}", "Accept": "application/json"}
            answer = self._ask(method, f"{below}{path}", headers=headers, **arguments)
            if answer.status_code != 401:
                break
            self._token = None  # expired
        if answer.status_code not in accept:
            raise AirflowApiError(f"{method} {path}: {answer.status_code} {answer.text}")
        return answer

    def _ask(self, method: str, path: str, **arguments: Any) -> httpx.Response:
        """Ask several times what changes nothing, else once, and wait as long for that: a busy
        machine takes long, and the first of a kind makes the api-server import providers."""
        tries = _TRIES if method == "GET" else 1
        arguments.setdefault("timeout", self._timeout_s * _TRIES / tries)
        for left in reversed(range(tries)):
            try:
                return self._http.request(method, path, **arguments)
            except httpx.TransportError as error:
                if not left:
                    raise AirflowApiError(
                        f"{method} {path}: {self.address} does not answer: {error or type(error)}"
                    ) from error
        raise AssertionError("the last try returns or raises")


def wait_for(
    condition: Callable[[], T | None], timeout_s: float, what: str, every_s: float = 0.5
) -> T:
    """Wait until a condition returns something true; return that.

    :raises AirflowApiError: it did not in time; ``what`` names it.
    """
    deadline = time.monotonic() + timeout_s
    never = threading.Event()
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() >= deadline:
            raise AirflowApiError(f"Waited {timeout_s:g} s for {what}, in vain.")
        never.wait(every_s)


def _log_line(line: Any) -> str:
    if not isinstance(line, dict):
        return str(line)
    text = f"{line.get('timestamp', '')} {line.get('level', '')} {line.get('event', '')}".strip()
    for error in line.get("error_detail") or []:
        text += f"\n{error.get('exc_type')}: {error.get('exc_value')}"
    return text
