"""The client of Airflow's API, beside a server that does not always answer."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from scripts.local_airflow.rest import AirflowApiError, AirflowClient
from tests.waiting import wait_until


class Server(ThreadingHTTPServer):
    """:ivar silent: so many requests get no answer.
    :ivar broken: so many get a connection that ends instead.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.silent = self.broken = 0
        self.asked, self.ended = list[str](), threading.Event()


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        self._answer(201, {"access_token": "t"})

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        if len(self.server.asked) <= self.server.silent:
            self.server.ended.wait()
            return
        if len(self.server.asked) <= self.server.broken:
            self.close_connection = True
            return
        self._answer(200, {"state": "success"})

    do_PATCH = do_GET

    def _answer(self, code: int, content: object) -> None:
        body = json.dumps(content).encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.ended.set()
        server.shutdown()
        thread.join()


@pytest.fixture
def client(server: Server) -> Iterator[AirflowClient]:
    client = AirflowClient(f"http://127.0.0.1:{server.server_port}", "u", "p", timeout_s=60)
    yield client
    client.close()


def test_what_changes_nothing_is_asked_again(server: Server, client: AirflowClient) -> None:
    server.broken = 2
    assert client.run_state("a_dag", "a_run") == "success"
    assert len(server.asked) == 3


def test_silence_is_an_error_that_says_who(server: Server, client: AirflowClient) -> None:
    client.run_state("a_dag", "a_run")  # it is logged in
    server.silent = 99
    client._timeout_s = 0.3
    with pytest.raises(AirflowApiError, match=r"/dags/a_dag.* does not answer"):
        client.run_state("a_dag", "a_run")
    # What was sent comes to the server's threads when they get to it.
    wait_until(lambda: len(server.asked) == 1 + 4, "four tries")
    with pytest.raises(AirflowApiError, match="PATCH"):
        client.pause("a_dag")
    wait_until(lambda: len(server.asked) == 1 + 4 + 1, "a change is asked for")
    server.silent, client._timeout_s = 0, 60
    client.run_state("a_dag", "a_run")
    assert len(server.asked) == 1 + 4 + 1 + 1, "a change is asked for once"
