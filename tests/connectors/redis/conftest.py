"""One server for all tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.servers.process import NoServerError
from tests.servers.redis import RedisServer, running_redis


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    try:
        with running_redis(tmp_path_factory.mktemp("redis") / "server") as server:
            yield server
    except NoServerError as exc:
        pytest.skip(str(exc))


@pytest.fixture
def server(running: RedisServer) -> Iterator[RedisServer]:
    """Empty; to be suspended, killed and started again: in the end it runs."""
    with running.client() as client:
        client.flushall()
    yield running
    running.process.resume()
    if not running.process.is_alive:
        running.start()


@pytest.fixture
def client(server: RedisServer) -> Iterator[Any]:
    with server.client() as client:
        yield client
