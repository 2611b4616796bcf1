"""A task's way to the tasks of another stage: one connection to each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa

from engine.errors import AuthenticationError, PeerLostError
from engine.exchange import frames
from engine.exchange.alignment import EpochEnd
from engine.exchange.frames import Place
from engine.exchange.partitioning import Partitioner
from engine.wire.connection import PATIENCE_S, Connection, Dialing, connect
from engine.wire.listening import host_and_port, make_room
from engine.wire.messages import Address

BATCH_BYTES_MAX: Final = 1 << 26
"""Larger batches travel in pieces: a frame is in memory as a whole, at either end."""


class Sender:
    """Sends each row to the task that owns its key. Waits while that task reads nothing: so it is
    as slow as the slowest that it sends to.

    :param own: the place of the task that sends.
    :param stage: the number of the pipeline that gets the rows.
    :param addresses: of its tasks, in the order of the key groups that they own.
    :param secret: of the run.
    :param patience_s: so long one is called again that drops us, for it may be busy.
    :raises PeerLostError: one of them cannot be reached.
    :raises ConfigError: there cannot be so many connections.
    """

    def __init__(
        self,
        own: Place,
        stage: int,
        addresses: Sequence[Address],
        secret: bytes,
        partitioner: Partitioner,
        patience_s: float = PATIENCE_S,
    ) -> None:
        make_room(len(addresses), 0)
        self._partitioner = partitioner
        self._places = [Place(stage, task) for task in range(len(addresses))]
        self._connections: list[Connection] = []
        try:
            for task, address in enumerate(addresses):
                self._connections.append(_reached(self._places[task], address, secret, patience_s))
                self._send(task, frames.hello(own))
        except BaseException:
            self.close()
            raise

    def send(self, batch: pa.RecordBatch) -> None:
        """:raises PeerLostError: a task that owns some of its rows is gone."""
        for task, part in self._partitioner.split(batch):
            for piece in _pieces(part):
                self._send(task, frames.batch_frame(piece))

    def end(self, end: EpochEnd) -> None:
        """Everything of the epoch was sent.

        :raises PeerLostError: a task is gone.
        """
        frame = frames.end_frame(end)
        for task in range(len(self._connections)):
            self._send(task, frame)

    def close(self) -> None:
        """End the connections; from any thread. Who waits in :meth:`send` gets a PeerLostError."""
        for connection in self._connections:
            connection.close()

    def _send(self, task: int, frame: tuple[bytes, bytes | memoryview]) -> None:
        try:
            self._connections[task].send_frame(*frame)
        except OSError as exc:
            raise PeerLostError(f"{str(self._places[task]).capitalize()} is gone: {exc}.") from exc


def _pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The rows in their order; one that is larger by itself stays whole."""
    # The size of the buffers is known at once; that of the rows, if they are a part, is not.
    is_small = batch.get_total_buffer_size() <= BATCH_BYTES_MAX or batch.nbytes <= BATCH_BYTES_MAX
    if is_small or batch.num_rows == 1:
        yield batch
        return
    half = batch.num_rows // 2
    yield from _pieces(batch.slice(0, half))
    yield from _pieces(batch.slice(half))


def _reached(place: Place, address: Address, secret: bytes, patience_s: float) -> Connection:
    dialing = Dialing((address.host, address.port), secret, address.certificate)
    try:
        return connect(dialing, patience_s)
    except (OSError, AuthenticationError) as exc:
        raise PeerLostError(
            f"{str(place).capitalize()} cannot be reached at "
            f"{host_and_port(address.host, address.port)}: {exc}",
            hint="Tasks of a query with state send rows to each other: executors have to reach "
            "one another on any port.",
        ) from exc
