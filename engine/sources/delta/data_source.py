"""``continuous_delta``: what is added to a table of Delta Lake, or how its rows change.

====================  =========  ================================================================
option                default
====================  =========  ================================================================
path                             a local or mounted folder, or a URL: ``s3://bucket/table``
startingVersion                  a version, inclusive, or ``latest``: only what comes later.
                                 Without it a new query reads the table as it is, and then what
                                 comes
startingTimestamp                or so: the first version of this time or later,
                                 ``2026-11-22T10:00:00Z``; without a zone in UTC
readChangeFeed        false      each change of a row: columns ``_change_type``,
                                 ``_commit_version`` and ``_commit_timestamp`` beside the table's
ignoreDeletes         false      versions that only delete rows are left out, not an error
ignoreChanges         false      of versions that change rows, files that were written again are
                                 read whole: unchanged rows come again. Deletions are left out
skipChangeCommits     false      versions that delete or change rows are left out as a whole
failOnDataLoss        true       versions that are no longer in the table's log are an error; else
                                 they are left out, and logged
maxFilesPerTrigger               an epoch has so many files at most
numPartitions         4          so many tasks read side by side; each file is read by one
pollIntervalMs        100        the log is looked at so often
storage.*                        settings of Delta's own client
====================  =========  ================================================================

Source: Delta's "Table streaming reads and writes", PROTOCOL.md.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource

from engine.base.connector_options import DEFAULT_PARALLELISM, SESSION_TIMEZONE, Options
from engine.errors import ConfigError
from engine.expressions.schemas import to_arrow
from engine.sinks.delta.places import place_of
from engine.sinks.delta.table_log import import_client, is_storage, storage_options
from engine.sources.delta.options import DeltaOptions
from engine.sources.delta.reader import LATEST, DeltaReader
from engine.sources.delta.units import CHANGE, CHANGE_TIME, CHANGE_VERSION
from engine.sources.delta.versions import OWNER
from engine.sources.handed.reader import PARTITIONS
from engine.sources.lakes.starts import start_ms

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_FEED = {CHANGE: "string", CHANGE_VERSION: "long", CHANGE_TIME: "timestamp"}


class DeltaSource(DataSource):
    """See the module."""

    def __init__(self, options: Mapping[str, str]) -> None:
        taken = Options(
            OWNER, {key: value for key, value in options.items() if not is_storage(key)}
        )
        for name in (DEFAULT_PARALLELISM, SESSION_TIMEZONE):
            taken.text(name)
        location = taken.required("path", example="/data/orders")
        settings = storage_options(options)
        start, since_ms = _start(taken), start_ms(taken)
        if start is not None and since_ms is not None:
            raise ConfigError(
                f"{OWNER} has both startingVersion and startingTimestamp.",
                hint="Leave one of them out.",
            )
        self._options = DeltaOptions(
            place=place_of(location, settings, OWNER),
            storage_options=settings,
            partitions=taken.integer("numPartitions", PARTITIONS, minimum=1, maximum=10_000),
            poll_s=taken.integer("pollIntervalMs", 100, minimum=1) / 1000,
            start=start,
            start_ms=since_ms,
            is_feed=taken.boolean("readChangeFeed", False),
            skips=taken.boolean("skipChangeCommits", False),
            repeats=taken.boolean("ignoreChanges", False),
            drops=taken.boolean("ignoreDeletes", False),
            files_max=taken.optional_integer("maxFilesPerTrigger", minimum=1),
            loses=not taken.boolean("failOnDataLoss", True),
        )
        taken.refuse_others()
        _check_feed(self._options)
        import_client()

    @classmethod
    def name(cls) -> str:
        return "continuous_delta"

    def schema(self) -> StructType:
        """The table's, as it is now.

        :raises SourceUnavailableError: it cannot be read.
        """
        from pyspark.sql.types import StructType

        found: dict[str, Any] = json.loads(self._options.table().schema().to_json())
        if self._options.is_feed:
            found["fields"] += [
                {"name": name, "type": kind, "nullable": True, "metadata": {}}
                for name, kind in _FEED.items()
            ]
        return StructType.fromJson(found)

    def continuousReader(self, schema: StructType) -> DeltaReader:
        """:raises ConfigError: there is no such table, or it has no feed of changes."""
        table = self._options.table()
        enabled = table.metadata().configuration.get("delta.enableChangeDataFeed", "false")
        if self._options.is_feed and enabled.lower() != "true":
            raise ConfigError(
                f"{OWNER}: the table {self._options.place.url} has no feed of changes.",
                hint="Set its property delta.enableChangeDataFeed to true: then it has one of what "
                "comes from then on. Or leave option readChangeFeed out.",
            )
        return DeltaReader(self._options, to_arrow(schema, OWNER), table.schema().to_json())


def _start(taken: Options) -> int | str | None:
    text = taken.text("startingVersion")
    if text is None or text.strip().lower() == LATEST:
        return None if text is None else LATEST
    return taken.integer("startingVersion", 0, minimum=0)


def _check_feed(options: DeltaOptions) -> None:
    if options.is_feed and (options.skips or options.repeats or options.drops):
        raise ConfigError(
            f"{OWNER}: with readChangeFeed each change is read: ignoreDeletes, ignoreChanges and "
            "skipChangeCommits have no meaning.",
            hint="Leave them out.",
        )
