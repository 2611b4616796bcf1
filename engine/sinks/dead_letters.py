"""Keeps bad and late records beside the query's own sink: JSON files, committed with their epoch.

The letters go first, so that a crash between the two repeats nothing: the files sink skips an epoch
that it has. Where the sink has dropped an epoch that was prepared, and it is run again to the same
end, the letters stay those of the first time: they may be of what the sink has, which is not run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyspark.sql.types import StructType

from engine.checkpoint.sink_context import BoundContext
from engine.errors import ConfigError, SinkAheadError
from engine.expressions.types import schema_to_spark
from engine.sinks.adapter import PlainTaskWriter
from engine.sinks.contract import DriverSink, SinkBinding
from engine.sinks.files.data_source import FilesWriter, JsonDataSource
from engine.sinks.letters import SCHEMA
from engine.wire.messages import LettersAlone, SunkEpoch


def with_dead_letters(sink: SinkBinding, path: str) -> SinkBinding:
    """The sink, and bad and late records beside it.

    :param path: a folder for the letters.
    :raises ConfigError: it is not a local path, or the sink commits several epochs together.
    """
    if sink.driver.commit_interval_ms:
        raise ConfigError(
            f"{sink.description} is to get several epochs by one commit, and dead letters come "
            "with each.",
            hint="Leave the option commitInterval out, or keep no dead letters.",
        )
    schema = StructType.fromJson(schema_to_spark(SCHEMA))
    letters = JsonDataSource({"path": path}).streamWriter(schema, overwrite=False)
    both = _Both(sink.driver, letters)
    return replace(
        sink,
        driver=replace(
            sink.driver,
            bind=both.bind,
            commit=both.commit,
            commit_together=None,  # what the sink refuses of one epoch is repeated to its end
            abort=both.abort,
            validate=both.validate,
            check_logged=both.check_logged,
            after_rewind=both.after_rewind,
            message_types={**sink.driver.message_types, **letters.messageTypes},
        ),
        description=f"{sink.description}, dead letters: json[{path}]",
        letters=PlainTaskWriter(letters.write),
    )


class _Both:
    """The driver's side of both, where they differ from the query's own sink alone."""

    def __init__(self, sink: DriverSink, letters: FilesWriter) -> None:
        self._sink = sink
        self._letters = letters
        self._logged = -1

    def bind(self, context: BoundContext) -> None:
        self._letters.bind(context)
        if self._sink.bind is not None:
            self._sink.bind(context)

    def commit(self, messages: Sequence[SunkEpoch | LettersAlone], epoch: int) -> None:
        self._letters.log.fill(epoch - 1)  # with other options there were epochs without any
        if epoch > self._logged or not self._letters.log.has(epoch):
            self._letters.commit([each.dead_letters for each in messages], epoch)
        self._sink.commit(_written(messages), epoch)

    def abort(self, messages: Sequence[SunkEpoch | LettersAlone], epoch: int) -> None:
        self._letters.abort([each.dead_letters for each in messages], epoch)
        self._sink.abort(_written(messages), epoch)

    def validate(self) -> None:
        """:raises ConfigError: a folder cannot be written to, or is that of both."""
        path = self._sink.path
        if path is not None and _is_same(path, self._letters.path):
            raise ConfigError(
                f"deadLetterPath {self._letters.path} is the folder of the sink too.",
                hint="Choose another folder for the dead letters.",
            )
        self._letters.validate()
        if self._sink.validate is not None:
            self._sink.validate()

    def check_logged(self, epoch: int) -> None:
        """:raises SinkAheadError: the letters have later epochs than the checkpoint has logged; new
        ones would be taken for those, and lost."""
        self._logged, newest = epoch, self._letters.log.latest()
        if newest is not None and newest > epoch:
            raise SinkAheadError(
                f"The dead letters in {self._letters.path} have epoch {newest}, but the checkpoint "
                "has never logged it.",
                hint="They belong to another checkpoint: choose another deadLetterPath.",
                epoch=newest,
            )
        if self._sink.check_logged is not None:
            self._sink.check_logged(epoch)

    def after_rewind(self, epoch: int) -> None:
        """The query's own sink was told by the rewind itself; the letters are known only here.

        :raises ConfigError: their log does not tell any more which files the epoch ended with.
        """
        newest = self._letters.latestEpoch()
        if newest is not None and newest > epoch:
            self._letters.checkRewind(epoch)
            self._letters.rewind(epoch)
        if self._sink.after_rewind is not None:
            self._sink.after_rewind(epoch)


def _written(messages: Sequence[SunkEpoch | LettersAlone]) -> list[Any]:
    return [each.written for each in messages if isinstance(each, SunkEpoch)]


def _is_same(one: str, other: str) -> bool:
    """Of two folders, or URLs."""
    return one == other or (
        "://" not in one + other and Path(one).resolve() == Path(other).resolve()
    )
