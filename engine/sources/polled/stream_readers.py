"""Other people's stream readers, both kinds alike: ranges of a stream, from one offset to another.

What PySpark does with them is done in its order, and all on one thread: ``latestOffset``, then
``partitions(start, end)`` and ``read``; or, of a simple reader, ``read(start)``. A range that is
read again comes from ``partitions(start, end)`` and ``readBetweenOffsets(start, end)``.

Offsets pass through JSON, as they do in Spark: ``{1: 2}`` is ``{"1": 2}`` to its own reader.

Source: PySpark's python_streaming_source_runner and datasource_internal.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import Any, Final

from pyspark.sql.datasource import DataSourceStreamReader

from engine.base.json_text import dump, load
from engine.errors import ContinuousError, SourceError
from engine.sources.contract import Offset

_END: Final = object()
Records = Iterable[Any]
"""What a ``read`` yields: tuples, lists, Rows, or Arrow's batches."""


@dataclass(frozen=True)
class Range:
    """What lies before ``end`` and behind the end of the range before.

    :param records: those of each of its partitions; they are read as this is iterated.
    """

    end: Offset
    records: Iterator[Records]


class StreamReader(ABC):
    """A stream reader that is polled. Not to be used by two threads.

    :param source: names it in errors.
    :ivar called_s: since then it is at work, monotonic; None while it is not.
    """

    def __init__(self, source: str, reader: Any) -> None:
        self.called_s: float | None = None
        self._source = source
        self._reader = reader

    def initial_offset(self) -> Offset:
        """:raises SourceError: it cannot tell."""
        return self._offset("initialOffset", self._reader.initialOffset)

    @abstractmethod
    def poll(self, start: Offset) -> Range | None:
        """What has come since ``start``; None if nothing has.

        :raises SourceError: it cannot be asked.
        """

    @abstractmethod
    def between(self, start: Offset, end: Offset) -> Range:
        """What lies between two offsets that were polled before, perhaps in several ranges."""

    def report_latest_offset(self) -> Offset | None:
        """Where the stream ends now, as far as it tells without being polled."""
        if not hasattr(self._reader, "reportLatestOffset"):  # new in PySpark 4.2
            return None
        return self._offset("reportLatestOffset", self._reader.reportLatestOffset)

    def commit(self, end: Offset) -> None:
        """:raises SourceError: it failed."""
        self._asked("commit", lambda: self._reader.commit(end))

    def stop(self) -> None:
        """A simple reader has no ``stop``, but may have one all the same."""
        if hasattr(self._reader, "stop"):
            self._asked("stop", self._reader.stop)

    def _asked(self, method: str, ask: Callable[[], Any]) -> Any:
        """:raises SourceError: the user's method failed."""
        self.called_s = monotonic()
        try:
            return ask()
        except ContinuousError:
            raise
        except Exception as exc:
            raise SourceError(
                f"{self._source} failed in {method}(): {type(exc).__name__}: {exc}"
            ) from exc
        finally:
            self.called_s = None

    def _each(self, method: str, read: Callable[[], Records]) -> Iterator[Any]:
        """What it yields, with its errors told apart from those of whoever takes them."""
        records = self._asked(method, lambda: iter(read()))
        while (record := self._asked(method, lambda: next(records, _END))) is not _END:
            yield record

    def _offset(self, method: str, ask: Callable[[], Any]) -> Offset:
        return self._as_json(method, self._asked(method, ask))

    def _as_json(self, method: str, offset: Any) -> Offset:
        try:
            return load(dump(offset))
        except ValueError as exc:
            raise SourceError(
                f"{self._source} returned an offset from {method}() that is no JSON: {exc}.",
                hint="An offset is a dictionary of numbers, texts and truth values.",
            ) from exc


class PartitionedStreamReader(StreamReader):
    """Of a ``DataSourceStreamReader``."""

    def __init__(self, source: str, reader: Any) -> None:
        super().__init__(source, reader)
        self._is_limited = takes_limit(reader)

    def poll(self, start: Offset) -> Range | None:
        end = self._offset("latestOffset", lambda: self._latest(start))
        # Spark would write a null to its log, and pass it on as an offset.
        return None if end is None or end == start else self.between(start, end)

    def between(self, start: Offset, end: Offset) -> Range:
        return Range(end, self._read(start, end))

    def _latest(self, start: Offset) -> Offset:
        if self._is_limited:
            return self._reader.latestOffset(start, self._reader.getDefaultReadLimit())
        return self._reader.latestOffset()

    def _read(self, start: Offset, end: Offset) -> Iterator[Records]:
        for partition in self._asked("partitions", lambda: self._reader.partitions(start, end)):
            yield self._each("read", partial(self._reader.read, partition))


class SimpleStreamReader(StreamReader):
    """Of a ``SimpleDataSourceStreamReader``."""

    def poll(self, start: Offset) -> Range | None:
        records, end = self._asked("read", lambda: self._reader.read(start))
        end = self._as_json("read", end)
        if end != start:
            return Range(end, iter((self._each("read", lambda: records),)))
        if next(iter(records), None) is not None:
            raise SourceError(
                f"{self._source} returned records from read({dump(start)}) and the same offset as "
                "their end: they would be read for ever.",
                hint="Its read(start) must return an end that is behind them.",
            )
        return None

    def between(self, start: Offset, end: Offset) -> Range:
        read = partial(self._reader.readBetweenOffsets, start, end)
        return Range(end, iter((self._each("readBetweenOffsets", read),)))


def stream_reader_of(source: str, data_source: Any, schema: Any) -> StreamReader:
    """The stream reader of a data source, or else its simple one.

    :param source: names it in errors.
    :raises NotImplementedError: it has neither.
    """
    try:
        return PartitionedStreamReader(source, data_source.streamReader(schema))
    except NotImplementedError:  # PySpark's own is a subclass
        return SimpleStreamReader(source, data_source.simpleStreamReader(schema))


def takes_limit(reader: Any) -> bool:
    """Whether ``latestOffset`` is told where to begin and how much may be read, as from PySpark 4.2
    on; earlier versions call it without."""
    if not hasattr(DataSourceStreamReader, "getDefaultReadLimit"):
        return False
    return len(inspect.signature(reader.latestOffset).parameters) > 0
