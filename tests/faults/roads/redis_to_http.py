"""Streams of Redis to a web service that heeds keys: exactly once. The service is killed, suspended
and away as well."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

from engine.query.binding import bind_writer
from engine.sinks.contract import SinkBinding
from engine.sinks.http.data_source import HttpSink
from engine.sinks.http.endpoint import Endpoint
from engine.sinks.http.requests import RequestFormat
from tests.faults.roads.from_redis import FromRedis, columns
from tests.faults.roads.mutants import COMMITTED_EARLY, commit_before_log
from tests.faults.roads.road import Setup
from tests.servers.web_service import running_web_service


def _gives_up() -> None:
    right = Endpoint._try

    def once(self: Any, *given: Any) -> Any:
        right(self, *given)
        return None, 0.0

    Endpoint._try = once  # type: ignore[method-assign]


def _keys_by_task() -> None:
    right = RequestFormat.requests

    def requests(self: Any, epoch: str, messages: Any) -> Any:
        return right(self, epoch.rpartition("/")[0], messages)

    RequestFormat.requests = requests  # type: ignore[method-assign]


class RedisToHttp(FromRedis):
    """One service has the rows of all worlds, which tell whose they are."""

    level = "L5 Redis to HTTP"
    mutants: ClassVar = {
        COMMITTED_EARLY: commit_before_log,
        "what is not answered is taken for taken": _gives_up,
        "keys do not name the epoch": _keys_by_task,
    }

    @contextmanager
    def serving(self, folder: Path) -> Iterator[None]:
        with super().serving(folder), running_web_service(folder / "service") as service:
            self._service = self.servers["the service"] = service
            yield

    def make(self, name: str) -> dict[str, str]:
        return {**super().make(name), "hook": self._service.url}

    def came_out(self, setup: Setup) -> Counter[bytes]:
        ours = set(setup.where["streams"].split(","))
        return Counter(
            f"{row['stream']} {row['id']}".encode()
            for row in self._service.rows()
            if row["stream"] in ours
        )

    @staticmethod
    def sink(setup: Setup) -> SinkBinding:
        given = {"rowsPerRequest": "200", "timeout": "2 seconds", "retryFor": "3 seconds"}
        sink = HttpSink({"url": setup.where["hook"], **given})
        return bind_writer(sink.streamWriter(columns(), overwrite=False), "http")


ROAD = RedisToHttp
