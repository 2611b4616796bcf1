"""``socket``: lines of text from a TCP server. Spark's source for trying things out.

================  =======  =====================================================================
option            default
================  =======  =====================================================================
host, port                 of the server
includeTimestamp  false    a second column, ``timestamp``: when the line came
failOnDataLoss    true     false: lines may be lost, also on their way to a sink that keeps its rows
================  =======  =====================================================================

A line cannot be read again: those that were read and are not committed when a task or the driver
fails are lost, and so is what comes while the query does not run. An offset is the number of lines
that were read. When the server hangs up it is called again; what is behind its last line break
counts as a line.

Source: Spark's TextSocketSourceProvider; Java's BufferedReader, of what ends a line.
"""

from __future__ import annotations

import logging
import re
import select
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource

from engine.base.connector_options import Options
from engine.errors import (
    ConfigError,
    OffsetOutOfRangeError,
    SourceError,
    SourceUnavailableError,
)
from engine.expressions.types import TIMESTAMP, schema_to_spark
from engine.sources.contract import (
    TUNING_OPTIONS,
    DataSourceContinuousReader,
    Offset,
    PartitionReader,
)

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

logger: Final = logging.getLogger(__name__)
OWNER: Final = "source socket"
SCHEMA: Final = pa.schema(
    [pa.field("value", pa.string()), pa.field("timestamp", TIMESTAMP, nullable=True)]
)
CONNECT_S: Final = 5.0
AGAIN_S: Final = 0.5
"""So long after it has hung up the server is called again."""
AWAY_S: Final = 30.0
"""So long it may be away until that is an outage: by then most of what was read is committed."""
LINE_BYTES_MAX: Final = 64 << 20
_READ: Final = 1 << 18
_LINE_END: Final = re.compile(rb"\r\n|\n|\r")


class SocketDataSource(DataSource):
    """Is found by Spark's own name in the plan of ``readStream.format("socket")``."""

    def __init__(self, options: Mapping[str, str]) -> None:
        taken = Options(OWNER, options)
        host = taken.required("host", example="localhost")
        taken.required("port", example="9999")
        port = taken.integer("port", 0, minimum=1, maximum=65_535)
        self._server = Server(host, port)
        self._has_times = taken.boolean("includeTimestamp", False)
        self._accepts_loss = not taken.boolean("failOnDataLoss", True)
        taken.refuse_others()

    @classmethod
    def name(cls) -> str:
        return "socket"

    def schema(self) -> StructType:
        from pyspark.sql.types import StructType

        names = SCHEMA.names if self._has_times else SCHEMA.names[:1]
        return StructType.fromJson(schema_to_spark(_columns(names)))

    def continuousReader(self, schema: StructType) -> SocketReader:
        return SocketReader(self._server, schema.names, self._accepts_loss)


@dataclass(frozen=True)
class Server:
    """Where the lines come from."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    def connect(self) -> socket.socket:
        """:raises OSError: nobody answers."""
        connection = socket.create_connection((self.host, self.port), CONNECT_S)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        connection.setblocking(False)
        return connection


@dataclass(frozen=True)
class SocketPartition:
    """The only one.

    :param read: so many lines were read before.
    """

    read: int


class SocketReader(DataSourceContinuousReader):
    """The driver's side."""

    readsOnce = True
    keepsCommitted = False
    tuningOptions = (*TUNING_OPTIONS, "failOnDataLoss")

    def __init__(self, server: Server, columns: Sequence[str], accepts_loss: bool) -> None:
        self._server, self._columns = server, tuple(columns)
        self.acceptsLoss = accepts_loss

    def initialOffset(self) -> Offset:
        """:raises ConfigError: there is no such server."""
        try:
            socket.getaddrinfo(self._server.host, self._server.port)
        except OSError as exc:
            raise ConfigError(
                f"{OWNER}: the host {self._server.host} is not known: {exc}.",
                hint="Set option host to the name or the address of the server.",
            ) from exc
        return 0

    def partitions(self, start: Offset) -> Sequence[SocketPartition]:
        read = _lines(start)
        logger.warning(
            "%s: %s cannot send a line again: what was read%s and is not committed when something "
            "fails is lost",
            OWNER,
            self._server,
            f" behind line {read}" if read else "",
        )
        return [SocketPartition(read)]

    def open(self, partition: SocketPartition, until: Offset | None = None) -> SocketLines:
        if until is None:
            return SocketLines(self._server, self._columns, partition.read)
        gone = (
            f"{OWNER}: the lines {partition.read} to {_lines(until)} of {self._server} would have "
            "to be read again, and are gone"
        )
        if not self.acceptsLoss:
            raise OffsetOutOfRangeError(
                f"{gone}.",
                hint="The epoch was logged and its rows were not kept. To go on without them, set "
                'option("failOnDataLoss", "false") of the source.',
            )
        logger.warning("%s; failOnDataLoss is false: the query goes on without them", gone)
        return NoLines(self._server, self._columns, _lines(until))

    def mergeOffsets(self, offsets: Sequence[Offset]) -> Offset:
        (lines,) = offsets
        return lines

    def prune(self, columns: Sequence[str]) -> SocketReader | None:
        if not columns:
            return None
        return SocketReader(self._server, columns, self.acceptsLoss)


class SocketLines(PartitionReader):
    """The executor's side.

    :param read: so many lines were read before.
    """

    interruptible = True

    def __init__(self, server: Server, columns: Sequence[str], read: int) -> None:
        self._server, self._schema, self._lines_read = server, _columns(columns), read
        self._woken, self._waker = socket.socketpair()
        self._waker.setblocking(False)
        self._woken.setblocking(False)
        self._connection: socket.socket | None = None
        self._rest: list[bytes] = []
        """What came of a line whose end has not."""
        self._rest_bytes = 0
        self._skips_line_feed = False
        self._away_since_s: float | None = None
        self._call_again_s = 0.0

    def read(self, timeout_s: float) -> pa.RecordBatch | None:
        if self._connection is None and not self._call(timeout_s):
            return None
        if self._connection not in self._wait(timeout_s):
            return None
        assert self._connection is not None
        try:
            received = self._connection.recv(_READ)
        except BlockingIOError:
            return None
        except OSError as exc:
            return self._hang_up(str(exc))
        if not received:
            return self._hang_up("it has closed the connection")
        return self._batch(self._lines(received))

    def _call(self, timeout_s: float) -> bool:
        now_s = time.monotonic()
        if now_s < self._call_again_s:
            self._wait(min(timeout_s, self._call_again_s - now_s))
            return False
        try:
            self._connection = self._server.connect()
        except OSError as exc:
            self._bear(str(exc))
            return False
        if self._away_since_s is not None:
            logger.warning("%s: %s is back", OWNER, self._server)
            self._away_since_s = None
        return True

    def _bear(self, reason: str) -> None:
        """:raises SourceUnavailableError: it is away for too long."""
        now_s = time.monotonic()
        self._call_again_s = now_s + AGAIN_S
        if self._away_since_s is None:
            self._away_since_s = now_s
            logger.warning("%s: %s is away: %s", OWNER, self._server, reason)
        elif now_s - self._away_since_s >= AWAY_S:
            raise SourceUnavailableError(
                f"{OWNER}: {self._server} does not answer: {reason}.",
                hint="See that the options host and port name it, and that it listens.",
            )

    def _hang_up(self, reason: str) -> pa.RecordBatch | None:
        self._disconnect()
        self._bear(reason)
        rest, self._rest, self._rest_bytes = b"".join(self._rest), [], 0
        self._skips_line_feed = False
        return self._batch([rest]) if rest else None

    def _wait(self, timeout_s: float) -> list[Any]:
        watched = [each for each in (self._connection, self._woken) if each is not None]
        ready, _, _ = select.select(watched, [], [], max(0.0, timeout_s))
        if self._woken in ready:
            with suppress(BlockingIOError):
                self._woken.recv(_READ)
        return ready

    def _lines(self, received: bytes) -> list[bytes]:
        if self._skips_line_feed and received.startswith(b"\n"):
            received = received[1:]
        self._skips_line_feed = received.endswith(b"\r")
        *ended, rest = _LINE_END.split(received)
        if ended:
            ended[0] = b"".join([*self._rest, ended[0]])
            self._rest, self._rest_bytes = [], 0
        if rest:
            self._rest.append(rest)
            self._rest_bytes += len(rest)
            if self._rest_bytes > LINE_BYTES_MAX:
                raise SourceError(
                    f"{OWNER}: {self._server} has sent {self._rest_bytes:,} bytes without the end "
                    "of a line.",
                    hint="Each line ends with a line break.",
                )
        return ended

    def _batch(self, lines: Sequence[bytes]) -> pa.RecordBatch | None:
        if not lines:
            return None
        self._lines_read += len(lines)
        now_us = time.time_ns() // 1_000
        columns: dict[str, Callable[[], list[Any]]] = {
            "value": lambda: [line.decode("utf-8", "replace") for line in lines],
            "timestamp": lambda: [now_us] * len(lines),
        }
        return pa.RecordBatch.from_arrays(
            [pa.array(columns[field.name](), field.type) for field in self._schema],
            schema=self._schema,
        )

    @property
    def offset(self) -> Offset:
        return self._lines_read

    def interrupt(self) -> None:
        with suppress(OSError):  # it is full of wake-ups, or closed
            self._waker.send(b".")

    def close(self) -> None:
        self._disconnect()
        self._waker.close()
        self._woken.close()

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class NoLines(SocketLines):
    """In place of lines that are gone."""

    exhausted = True

    def read(self, timeout_s: float) -> pa.RecordBatch | None:
        return None


def _columns(names: Sequence[str]) -> pa.Schema:
    return pa.schema([SCHEMA.field(name) for name in names])


def _lines(offset: Offset) -> int:
    if not isinstance(offset, int) or isinstance(offset, bool) or offset < 0:
        raise SourceError(
            f"The offset {offset!r} is not one of a socket source.",
            hint="It is the number of lines that were read. Use a new checkpoint location.",
        )
    return offset
