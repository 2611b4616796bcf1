"""Kafka to an Iceberg table in a catalog that speaks REST, read by Iceberg's own reader."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from pyiceberg.catalog import load_catalog
from pyiceberg.table import TableProperties

from engine.query.binding import bind_writer
from engine.sinks.contract import SinkBinding
from engine.sinks.iceberg import table_log
from engine.sinks.iceberg.data_source import IcebergDataSource
from engine.sinks.iceberg.table_log import IcebergLog
from tests.faults.roads.from_kafka import FromKafka
from tests.faults.roads.kafka_topics import COLUMNS
from tests.faults.roads.mutants import (
    ASKS_NOTHING,
    COMMITTED_EARLY,
    asks_nothing,
    commit_before_log,
)
from tests.faults.roads.road import BETWEEN, PLACES, Setup
from tests.faults.roads.world import ZOMBIE
from tests.servers.iceberg_catalog import iceberg_catalog

AGAIN = "the client tries again what was refused"


def _tries_again() -> None:
    """As Iceberg's client does by itself."""
    right = table_log.once

    def once(table: Any) -> Any:
        transaction = right(table)
        table.metadata.properties[TableProperties.COMMIT_NUM_RETRIES] = "10"
        return transaction

    table_log.once = once
    IcebergLog._check_run = lambda *_: None  # type: ignore[method-assign]


class KafkaToIceberg(FromKafka):
    """Each world has a topic and a table of its own."""

    level = "L5 Kafka to Iceberg"
    places = (*PLACES, "tableLog.before", "tableLog.after", "tableLog.checked")
    mutants: ClassVar = {
        COMMITTED_EARLY: commit_before_log,
        ASKS_NOTHING: partial(asks_nothing, IcebergLog),
        AGAIN: _tries_again,
    }

    between = (*BETWEEN, "tableLog.before")
    brought_out: ClassVar = {ASKS_NOTHING: ("tableLog.after",), AGAIN: (ZOMBIE,)}

    @contextmanager
    def serving(self, folder: Path) -> Iterator[None]:
        with super().serving(folder), iceberg_catalog(folder / "lake") as self._catalog:
            self.servers["catalog"] = self._catalog
            yield

    def make(self, name: str) -> dict[str, str]:
        return {**super().make(name), "table": f"roads.{name}", **self._catalog.properties}

    def came_out(self, setup: Setup) -> Counter[bytes]:
        catalog = load_catalog("default", **_properties(setup))
        rows = catalog.load_table(setup.where["table"]).scan(selected_fields=("value",)).to_arrow()
        return Counter(rows.column(0).to_pylist())

    @staticmethod
    def sink(setup: Setup) -> SinkBinding:
        properties = {f"catalog.{key}": value for key, value in _properties(setup).items()}
        sink = IcebergDataSource({"table": setup.where["table"], **properties})
        return bind_writer(sink.streamWriter(COLUMNS, overwrite=False), "iceberg")


def _properties(setup: Setup) -> dict[str, str]:
    return {key: setup.where[key] for key in ("type", "uri")}


ROAD = KafkaToIceberg
