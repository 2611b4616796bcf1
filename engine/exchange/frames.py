"""What tasks send to each other, as bytes.

A sender's connection is one of :mod:`engine.wire.session`, with the run's own secret: each frame is
authenticated, and nothing of a peer that has not proved the secret is looked at. The payload of a
frame begins with eight bytes, so that the columns behind them stand where Arrow wants them:

=====  ======================================================================================
byte   payload
=====  ======================================================================================
``H``  who sends: the number of its pipeline, and its place among that pipeline's tasks; once
``B``  a record batch, as Arrow's IPC encapsulates it, without its schema: both sides know it
``E``  the end of an epoch
=====  ======================================================================================

Numbers are signed, of eight bytes, little endian.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

import pyarrow as pa

from engine.errors import ProtocolError
from engine.exchange.alignment import EpochEnd

HEAD_BYTES: Final = 8
_HELLO, _BATCH, _END = (kind + bytes(HEAD_BYTES - 1) for kind in (b"H", b"B", b"E"))
_NUMBERS: Final = struct.Struct("<qqqqq")
_WHO: Final = struct.Struct("<qq")


class Place(NamedTuple):
    """A task: the number of its pipeline in the query, and which of that pipeline's it is."""

    pipeline: int
    task: int

    def __str__(self) -> str:
        return f"task {self.task} of stage {self.pipeline}"


def hello(sender: Place) -> tuple[bytes, bytes]:
    """The first frame of a sender, in parts."""
    return _HELLO, _WHO.pack(*sender)


def batch_frame(batch: pa.RecordBatch) -> tuple[bytes, memoryview]:
    """A frame with rows."""
    return _BATCH, memoryview(batch.serialize())


def end_frame(end: EpochEnd) -> tuple[bytes, bytes]:
    """A frame that ends an epoch."""
    numbers = end.epoch, end.final, end.next_watermark_ms, end.next_opened_ms, end.filled
    return _END, _NUMBERS.pack(*numbers)


def sender_of(payload: bytearray) -> Place:
    """Who sends, from its first frame.

    :raises ProtocolError: it is another one.
    """
    if payload[:HEAD_BYTES] != _HELLO:
        raise ProtocolError("A task sends rows and has not said which one it is.")
    return Place(*_WHO.unpack_from(payload, HEAD_BYTES))


def item_of(payload: bytearray, schema: pa.Schema) -> pa.RecordBatch | EpochEnd:
    """What a frame behind the first one holds. The batch's columns are views of the payload.

    :raises ProtocolError: it is no such frame.
    """
    head = payload[:HEAD_BYTES]
    if head == _BATCH:
        return pa.ipc.read_record_batch(pa.py_buffer(payload).slice(HEAD_BYTES), schema)
    if head != _END:
        raise ProtocolError(f"A frame between tasks begins with {bytes(head)!r}.")
    epoch, final, watermark_ms, opened_ms, filled = _NUMBERS.unpack_from(payload, HEAD_BYTES)
    return EpochEnd(epoch, bool(final), watermark_ms, opened_ms, bool(filled))
