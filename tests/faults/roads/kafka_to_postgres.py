"""Kafka to a table of PostgreSQL. The server may crash while something is staged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from engine.query.binding import bind_writer
from engine.sinks.contract import SinkBinding
from engine.sinks.postgres import task_writer
from engine.sinks.postgres.data_source import PostgresSink
from engine.sinks.postgres.epochs import Epochs
from tests.faults.roads.from_kafka import FromKafka
from tests.faults.roads.kafka_topics import COLUMNS
from tests.faults.roads.mutants import COMMITTED_EARLY, commit_before_log
from tests.faults.roads.road import PLACES, Meanwhile, Setup
from tests.servers.postgresql import PASSWORD, USER, running_postgresql


def _asks_nothing() -> None:
    right = Epochs._row

    def row(self: Any, *given: Any) -> Any:
        noted = right(self, *given)
        return None if noted is None else replace(noted, epoch=-1)

    Epochs._row = row  # type: ignore[method-assign]


def _does_not_wait() -> None:
    def hurry(connection: Any) -> None:
        connection.execute("SET synchronous_commit = off")

    task_writer.make_durable = hurry  # type: ignore[attr-defined]
    Epochs._check_stages = lambda *_: None  # type: ignore[method-assign]


def _notes_later() -> None:
    def commit(self: Any, context: Any, epoch: int, staged: Sequence[Any], statements: Any) -> None:
        with self.changing(context, epoch) as noted:
            if noted.timeline == context.timeline and noted.epoch >= epoch:
                return
            self._check_stages(staged, epoch)
            for statement in statements([each.stage for each in staged], epoch):
                self.connected().execute(statement)
        _reach("postgres.taken")
        with self.changing(context, epoch):
            self.note(context, epoch)

    from engine.base.failpoints import reach as _reach

    Epochs.commit = commit  # type: ignore[method-assign]


class KafkaToPostgres(FromKafka):
    """Each world has a topic and a table of its own."""

    level = "L5 Kafka to PostgreSQL"
    places = (*PLACES, "postgres.locked", "postgres.taken", "postgres.committed")
    mutants: ClassVar = {
        COMMITTED_EARLY: commit_before_log,
        "the table is not asked whether it has the epoch": _asks_nothing,
        "rows and the number of their epoch are two transactions": _notes_later,
        "tasks do not wait for the server's disk, and nobody counts their rows": _does_not_wait,
    }

    @contextmanager
    def serving(self, folder: Path) -> Iterator[None]:
        with super().serving(folder), running_postgresql() as self._database:
            self.servers["PostgreSQL"] = self._database
            yield

    def make(self, name: str) -> dict[str, str]:
        table = f"out_{name.replace('-', '_')}"
        return {**super().make(name), "url": self._database.url, "table": table}

    def came_out(self, setup: Setup) -> Counter[bytes]:
        with self._database.connect() as connection:
            found = connection.execute(f"SELECT value FROM {setup.where['table']}")
            return Counter(value for (value,) in found)

    @staticmethod
    def sink(setup: Setup) -> SinkBinding:
        sink = PostgresSink(
            {
                "url": setup.where["url"],
                "user": USER,
                "password": PASSWORD,
                "table": setup.where["table"],
            }
        )
        return bind_writer(sink.streamWriter(COLUMNS, overwrite=False), "postgres")

    def meanwhile(self, setup: Setup, draw: Callable[[], float]) -> Mapping[str, Meanwhile]:
        def crash() -> None:
            self._database.process.kill()
            self._database.start()

        return {"PostgreSQL crashed meanwhile": Meanwhile(10, crash)}

    def at_end(self, setup: Setup) -> Mapping[str, int]:
        with self._database.connect() as connection:
            (left,) = connection.execute(
                "SELECT count(*) FROM pg_class WHERE relkind = 'r' AND "
                "relname ~ '^continuous_[0-9a-f]{12}_'"
            ).fetchone()
            connection.execute("DROP TABLE IF EXISTS nothing")
        return {"stages left by a drain": left}


ROAD = KafkaToPostgres
