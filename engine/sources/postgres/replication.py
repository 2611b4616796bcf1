"""A connection over which a slot of PostgreSQL sends changes as they are committed.

psycopg has no calls for the replication protocol, but all that libpq has: a query that begins it,
and messages in both directions. Three of these there are::

    w  server: start, end, clock, payload          changes
    k  server: end, clock, reply wanted            how far it has looked
    r  client: written, flushed, applied, clock    what the slot need not keep any more

Source: PostgreSQL's documentation, "Streaming Replication Protocol".
"""

from __future__ import annotations

import os
import select
import time
from contextlib import suppress
from struct import Struct
from typing import TYPE_CHECKING, Any, Final

from engine.clients.postgres import Server
from engine.sources.postgres.pgoutput import EPOCH_US

if TYPE_CHECKING:
    from psycopg import Connection

_DATA: Final = Struct("!cqqq")
_KEEPALIVE: Final = Struct("!cqqb")
_STATUS: Final = Struct("!cqqqqb")
SETTINGS: Final = (
    "SET DateStyle = 'ISO'; SET IntervalStyle = 'postgres'; SET extra_float_digits = 3; "
    "SET bytea_output = 'hex'; "
    # A snapshot without some rows is none: an error, if policies hide any.
    "SET row_security = off; "
    # A slow sink may keep us from reading for longer than the server would wait.
    "SET wal_sender_timeout = 0"
)
TAKE_OVER_S: Final = 30.0
_LOOK_S: Final = 0.05


class Replication:
    """Not for several threads, but for :meth:`interrupt`.

    :raises psycopg.Error: the server cannot be reached, or allows no replication.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        self.connection: Connection[Any] = server.connect(replication="database")
        self.connection.execute(SETTINGS)
        self._heard, self._word = os.pipe()
        os.set_blocking(self._word, False)
        os.set_blocking(self._heard, False)
        self._is_running = False

    def end(self) -> int:
        """Where the server's log ends: what is flushed of it, on a standby what has arrived.

        :raises psycopg.Error: it cannot be asked.
        """
        found = self.connection.execute("IDENTIFY_SYSTEM").fetchone()
        assert found is not None
        return lsn_of(found[2])

    def start(self, slot: str, publication: str, lsn: int) -> None:
        """Have all transactions sent that are committed at ``lsn`` or later. A task that was given
        up, and has the slot still, loses it.

        :raises psycopg.Error: that fails.
        """
        from psycopg import errors
        from psycopg.pq import ExecStatus
        from psycopg.sql import SQL, Identifier, Literal

        command = SQL(
            "START_REPLICATION SLOT {} LOGICAL {} (proto_version '1', publication_names {})"
        ).format(
            Identifier(slot), SQL(lsn_text(lsn)), Literal(Identifier(publication).as_string(None))
        )
        text = command.as_string(self.connection).encode()
        deadline_s = time.monotonic() + TAKE_OVER_S
        while True:
            result = self.connection.pgconn.exec_(text)
            if result.status == ExecStatus.COPY_BOTH:
                self._is_running = True
                return
            error = errors.error_from_result(result)
            if not isinstance(error, errors.ObjectInUse) or time.monotonic() > deadline_s:
                raise error
            free_slot(self._server, slot)

    def receive(self, timeout_s: float) -> tuple[int, bytes] | bool:
        """A message of the slot's plugin; or how far it has looked, with nothing; False if nothing
        came in time, or :meth:`interrupt` was called.

        :returns: the position, and the payload: empty if there is none.
        :raises psycopg.Error: the connection is lost, or the server ends it.
        """
        pgconn = self.connection.pgconn
        size, data = pgconn.get_copy_data(1)
        if size == 0:
            ready, _, _ = select.select([pgconn.socket, self._heard], [], [], timeout_s)
            if self._heard in ready:
                os.read(self._heard, 4096)
            if pgconn.socket not in ready:
                return False
            pgconn.consume_input()
            size, data = pgconn.get_copy_data(1)
            if size == 0:
                return False
        if size < 0:
            raise self._end()
        if data[0] == 0x77:  # w
            return _DATA.unpack_from(data)[1], bytes(data[25:])
        return _KEEPALIVE.unpack_from(data)[1], b""

    def tell(self, seen: int, committed: int, *, ask: bool) -> None:
        """
        :param seen: everything before it has arrived.
        :param committed: and everything before this is never wanted again.
        :param ask: have the server say how far it has looked.
        """
        clock_us = time.time_ns() // 1000 - EPOCH_US
        pgconn = self.connection.pgconn
        pgconn.put_copy_data(_STATUS.pack(b"r", seen, committed, committed, clock_us, ask))
        pgconn.flush()

    def interrupt(self) -> None:
        """Have :meth:`receive` return. From any thread; also behind :meth:`close`."""
        with suppress(OSError):
            os.write(self._word, b"x")

    def close(self) -> None:
        self.connection.close()
        for each in (self._heard, self._word):
            os.close(each)
        self._heard = self._word = -1

    def _end(self) -> Exception:
        from psycopg import OperationalError, errors
        from psycopg.pq import ExecStatus

        result = self.connection.pgconn.get_result()
        if result is not None and result.status == ExecStatus.FATAL_ERROR:
            return errors.error_from_result(result)
        return OperationalError("the server has ended the replication")


def free_slot(server: Server, slot: str) -> None:
    """Throw out whoever has it.

    :raises psycopg.Error: the server cannot be reached, or forbids it.
    """
    with server.connect() as connection:
        connection.execute(
            "SELECT pg_terminate_backend(active_pid) FROM pg_catalog.pg_replication_slots "
            "WHERE slot_name = %s AND active_pid IS NOT NULL",
            [slot],
        )
        deadline_s = time.monotonic() + TAKE_OVER_S
        while time.monotonic() < deadline_s:
            active = connection.execute(
                "SELECT 1 FROM pg_catalog.pg_replication_slots WHERE slot_name = %s AND active",
                [slot],
            ).fetchone()
            if active is None:
                return
            select.select([], [], [], _LOOK_S)


def lsn_text(lsn: int) -> str:
    """As PostgreSQL writes it: ``0/16B3748``."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def lsn_of(text: str) -> int:
    """The number of a position."""
    high, low = text.split("/")
    return int(high, 16) << 32 | int(low, 16)
