"""Keeps bad records beside the query's own sink: JSON files, committed with their epoch.

The letters go first, so that a crash between the two repeats nothing: the files sink skips an epoch
that it has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyspark.sql.types import StructType

from engine.errors import ConfigError, SinkAheadError
from engine.execution.definition import SinkBinding
from engine.expressions.types import schema_to_spark
from engine.sinks.files.data_source import FilesWriter, JsonDataSource
from engine.task.bad_records import SCHEMA
from engine.wire.messages import SunkEpoch


def with_dead_letters(sink: SinkBinding, path: str) -> SinkBinding:
    """The sink, and bad records beside it.

    :param path: a folder for the letters.
    :raises ConfigError: it is not a local path.
    """
    schema = StructType.fromJson(schema_to_spark(SCHEMA))
    letters = JsonDataSource({"path": path}).streamWriter(schema, overwrite=False)
    return replace(
        sink,
        writer=_BothWriters(sink.writer, letters),
        description=f"{sink.description}, bad records: json[{path}]",
        write_letters=letters.write,
    )


class _BothWriters:
    """The driver's side of both; whatever else the query's own writer has is found here too."""

    def __init__(self, writer: Any, letters: FilesWriter) -> None:
        self._writer = writer
        self._letters = letters

    def commit(self, messages: Sequence[SunkEpoch], epoch: int) -> None:
        self._letters.log.fill(epoch - 1)  # with another onBadRecord there were epochs without any
        self._letters.commit([each.dead_letters for each in messages], epoch)
        self._writer.commit([each.written for each in messages], epoch)

    def abort(self, messages: Sequence[SunkEpoch], epoch: int) -> None:
        self._letters.abort([each.dead_letters for each in messages], epoch)
        self._writer.abort([each.written for each in messages], epoch)

    def validate(self) -> None:
        """:raises ConfigError: a folder cannot be written to, or is that of both."""
        path = getattr(self._writer, "path", None)
        if isinstance(path, Path) and path.resolve() == self._letters.path.resolve():
            raise ConfigError(
                f"deadLetterPath {self._letters.path} is the folder of the sink too.",
                hint="Choose another folder for the dead letters.",
            )
        self._letters.validate()
        validate = getattr(self._writer, "validate", None)
        if validate is not None:
            validate()

    def checkLogged(self, epoch: int) -> None:
        """:raises SinkAheadError: the letters have later epochs than the checkpoint has logged; new
        ones would be taken for those, and lost."""
        newest = self._letters.log.latest()
        if newest is not None and newest > epoch:
            raise SinkAheadError(
                f"The dead letters in {self._letters.path} have epoch {newest}, but the checkpoint "
                "has never logged it.",
                hint="They belong to another checkpoint: choose another deadLetterPath.",
                epoch=newest,
            )

    def afterRewind(self, epoch: int) -> None:
        """The query's own sink was told by the rewind itself; the letters are known only here.

        :raises ConfigError: their log does not tell any more which files the epoch ended with.
        """
        newest = self._letters.latestEpoch()
        if newest is not None and newest > epoch:
            self._letters.checkRewind(epoch)
            self._letters.rewind(epoch)
        after_rewind = getattr(self._writer, "afterRewind", None)
        if after_rewind is not None:
            after_rewind(epoch)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._writer, name)
