"""The exchange alone, between two processes of this machine, with nothing to do on either side.

- one way: µs from before a batch is split until its rows are read, a batch each 2 ms;
- sent, received: as fast as it goes, in batches of 10,000 rows (a string of 12 bytes, a BIGINT, a
  DOUBLE, a timestamp), rows per second of CPU that the one side takes, and the other.
"""

from __future__ import annotations

import json
import multiprocessing
import secrets
import threading
import time
from multiprocessing.connection import Connection

import numpy as np
import pyarrow as pa

from bench.measure import percentile
from bench.size import sized
from engine.exchange.alignment import EpochEnd
from engine.exchange.frames import Place
from engine.exchange.partitioning import Partitioner
from engine.exchange.receiver import Receiver
from engine.exchange.sender import Sender
from engine.wire.messages import Address

ENGINES = ("10 rows", "10,000 rows")
BATCHES = sized(2_000, 500, 50)
_SCHEMA = pa.schema(
    [
        ("key", pa.string()),
        ("sent_ns", pa.int64()),
        ("number", pa.float64()),
        ("at", pa.timestamp("us", "UTC")),
    ]
)
_SENDER = Place(0, 0)


def main(engine: str) -> None:
    """Measure one engine in this process and print its figures as JSON."""
    rows = int(engine.split()[0].replace(",", ""))
    count = BATCHES
    secret = secrets.token_bytes(32)
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    receiving = context.Process(target=receive, args=(theirs, secret))
    receiving.start()
    partitioner = Partitioner((0,), 1, 128)
    sender = Sender(_SENDER, 1, [Address("127.0.0.1", ours.recv(), None)], secret, partitioner)
    batch = _batch(rows)
    before_s = time.process_time()
    for _ in range(count):
        if rows <= 100:
            threading.Event().wait(0.002)
        sent = pa.array(np.full(rows, time.monotonic_ns()))
        sender.send(batch.set_column(1, _SCHEMA.field(1), sent))
    sender.end(EpochEnd(0, True, 0, 0, True))
    took_s = time.process_time() - before_s
    late_us, theirs_s = ours.recv()
    receiving.join()
    sender.close()
    if rows <= 100:
        print(json.dumps({f"p{p}": percentile(late_us, p) for p in (50, 99)}))
    else:
        print(json.dumps({"sent": rows * count / took_s, "received": rows * count / theirs_s}))


def receive(pipe: Connection, secret: bytes) -> None:
    """Be the task that gets the rows."""
    receiver = Receiver("127.0.0.1", secret, None, {_SENDER: 0}, (_SCHEMA,))
    pipe.send(receiver.port)
    late_us, began_s = [], None
    while receiver.end is None:
        arrived = receiver.read(1.0)
        if arrived and began_s is None:
            began_s = time.process_time()
        now_ns = time.monotonic_ns()
        late_us += [(now_ns - batch.column(1)[0].as_py()) / 1e3 for _, batch in arrived]
    assert began_s is not None
    pipe.send((late_us, time.process_time() - began_s))
    receiver.close()


def _batch(rows: int) -> pa.RecordBatch:
    random = np.random.default_rng(rows)
    keys = [f"key-{number:08}" for number in random.integers(0, 10_000_000, rows)]
    numbers = np.arange(rows)
    return pa.RecordBatch.from_arrays(
        [
            pa.array(keys),
            pa.array(numbers),
            pa.array(random.random(rows)),
            pa.array(numbers, pa.timestamp("us", "UTC")),
        ],
        schema=_SCHEMA,
    )
