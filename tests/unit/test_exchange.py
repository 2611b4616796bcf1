"""Rows between tasks, over real sockets."""

from __future__ import annotations

import resource
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pyarrow as pa
import pytest

from engine.errors import ProtocolError, TaskLostError
from engine.exchange import receiver as receiver_module
from engine.exchange.alignment import EpochEnd
from engine.exchange.frames import Place, batch_frame, item_of
from engine.exchange.partitioning import Partitioner
from engine.exchange.receiver import Receiver
from engine.exchange.sender import Sender
from engine.wire.connection import Dialing, connect
from engine.wire.messages import Address
from engine.wire.tls import driver_context

SCHEMA = pa.schema([pa.field("key", pa.int64()), pa.field("text", pa.string())])
SECRET = b"s" * 32
DEADLINE_S = 60.0
A, B = Place(0, 0), Place(0, 1)


def rows(*keys: int) -> pa.RecordBatch:
    return pa.record_batch([list(keys), [f"row {key}" for key in keys]], schema=SCHEMA)


def over(epoch: int, *, final: bool = False) -> EpochEnd:
    return EpochEnd(epoch, final, 1_000 * epoch, 7)


class Ends:
    """Receivers and senders, closed at the end; a receiver is read on a thread, as a task does."""

    def __init__(self, stack: ExitStack, *, tls: bool = False) -> None:
        self._stack = stack
        self._tls = tls
        self.addresses: list[Address] = []

    def receiver(self, *senders: Place) -> Reading:
        context, certificate = driver_context() if self._tls else (None, None)
        made = Receiver("127.0.0.1", SECRET, context, dict.fromkeys(senders, 0), [SCHEMA])
        self.addresses.append(Address("127.0.0.1", made.port, certificate))
        reading = Reading(made)
        self._stack.callback(reading.close)
        return reading

    def sender(self, place: Place, secret: bytes = SECRET) -> Sender:
        partitioner = Partitioner((0,), len(self.addresses), 128)
        made = Sender(place, 1, self.addresses, secret, partitioner, patience_s=0.0)
        self._stack.callback(made.close)
        return made


class Reading:
    """Reads in a thread until told to stop."""

    def __init__(self, receiver: Receiver) -> None:
        self.receiver = receiver
        self.epochs: list[list[int]] = [[]]
        self.ends: list[EpochEnd] = []
        self.error: Exception | None = None
        self.hold = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                if self.hold.is_set():
                    self._stop.wait(0.01)
                    continue
                for _, batch in self.receiver.read(0.05):
                    batch.validate(full=True)
                    self.epochs[-1] += batch.column(0).to_pylist()
                if (end := self.receiver.end) is not None:
                    self.ends.append(end)
                    self.epochs.append([])
                    self.receiver.go_on()
        except Exception as exc:
            self.error = exc

    def close(self) -> None:
        self._stop.set()
        self.receiver.interrupt()
        self._thread.join()
        self.receiver.close()


@pytest.fixture
def ends() -> Iterator[Ends]:
    with ExitStack() as stack:
        yield Ends(stack)


def await_that(condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline_s, "it does not come"
        threading.Event().wait(0.005)


@pytest.mark.parametrize("tls", [False, True])
def test_every_row_reaches_the_owner_of_its_key_in_its_epoch(tls: bool) -> None:
    with ExitStack() as stack:
        ends = Ends(stack, tls=tls)
        readings = [ends.receiver(A, B) for _ in range(3)]
        senders = [ends.sender(A), ends.sender(B)]
        senders[0].send(rows(*range(100)))
        senders[0].end(over(0))
        senders[0].send(rows(7, 8))  # of the next epoch: must wait for the other's end
        senders[1].send(rows(*range(100)))
        senders[1].end(over(0))
        for sender in senders:
            sender.end(over(1, final=True))
        await_that(lambda: all(len(each.ends) == 2 for each in readings))
        assert [each.error for each in readings] == [None] * 3
        assert [each.ends for each in readings] == [[over(0), over(1, final=True)]] * 3
        first = sorted(key for each in readings for key in each.epochs[0])
        assert first == sorted([*range(100), *range(100)])
        assert sorted(key for each in readings for key in each.epochs[1]) == [7, 8]
        owners = [set(each.epochs[0]) for each in readings]
        assert all(owners)
        assert not owners[0] & owners[1]


def test_a_large_batch_travels_in_pieces(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.exchange.sender.BATCH_BYTES_MAX", 1_000)
    monkeypatch.setattr("engine.wire.session.FRAME_BYTES_MAX", 2_000)
    reading = ends.receiver(A)
    sender = ends.sender(A)
    sender.send(rows(*range(500)))
    sender.end(over(0))
    await_that(lambda: bool(reading.ends) or reading.error is not None)
    assert reading.error is None
    assert reading.epochs[0] == list(range(500))


def test_there_are_as_many_open_files_as_a_task_needs_for_the_others(ends: Ends) -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (520, limits[1]))
        for _ in range(20):  # all ends are here, beside all that other tests left open
            ends.receiver(A)
        ends.sender(A)
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == 20 + 512
        ends.receiver(*(Place(0, task) for task in range(400)))
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == 400 + 512
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_the_system_asks_whether_the_machine_of_a_silent_sender_is_there(ends: Ends) -> None:
    reading = ends.receiver(A)
    ends.sender(A).send(rows(1))
    await_that(lambda: reading.epochs == [[1]])
    (peer,) = reading.receiver._peers.values()
    assert peer._socket.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1


def test_of_many_senders_only_so_much_is_taken_at_once(
    ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading, places = ends.receiver(*(Place(0, n) for n in range(30))), range(30)
    senders = [ends.sender(Place(0, n)) for n in places]
    await_that(lambda: len(reading.receiver._senders) == len(places))
    reading.hold.set()
    read, taken = reading.receiver.read, list[int]()

    def counted(timeout_s: float) -> list[tuple[int, pa.RecordBatch]]:
        found = read(timeout_s)
        taken.append(len(found))
        return found

    monkeypatch.setattr(reading.receiver, "read", counted)
    at_once = 3 * len(batch_frame(rows(1))[1])
    monkeypatch.setattr(receiver_module, "LOOK_BYTES_MAX", at_once)
    for _ in range(5):
        for place, sender in zip(places, senders, strict=True):
            sender.send(rows(place))
    for sender in senders:
        sender.end(over(0))
    reading.hold.clear()
    await_that(lambda: bool(reading.ends))
    assert sorted(reading.epochs[0]) == sorted([*places] * 5)
    assert max(taken) <= 5 * 5, "a sender's own are taken together"


def test_a_sender_that_leaves_in_the_middle_is_told(ends: Ends) -> None:
    reading = ends.receiver(A)
    sender = ends.sender(A)
    sender.send(rows(1))
    await_that(lambda: reading.epochs == [[1]])
    sender.close()
    await_that(lambda: reading.error is not None)
    assert isinstance(reading.error, TaskLostError)
    assert "Task 0 of stage 0, which sends rows, is gone" in str(reading.error)


def test_one_that_leaves_behind_the_last_epoch_is_not(ends: Ends) -> None:
    reading = ends.receiver(A, B)
    first, second = ends.sender(A), ends.sender(B)
    first.end(over(0, final=True))
    first.close()
    second.send(rows(3))
    second.end(over(0, final=True))
    second.close()
    await_that(lambda: reading.ends == [over(0, final=True)])
    assert reading.error is None
    assert reading.epochs[0] == [3]


def test_who_does_not_know_the_secret_is_not_heard(ends: Ends) -> None:
    reading = ends.receiver(A)
    with pytest.raises(TaskLostError, match="cannot be reached"):
        ends.sender(A, b"x" * 32)
    ends.sender(A).send(rows(1))
    await_that(lambda: reading.epochs == [[1]])
    assert reading.error is None


def test_a_task_knows_its_sender_while_that_waits_for_another_one(
    ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.exchange.receiver.HANDSHAKE_TIMEOUT_S", 0.2)
    ready, busy = ends.receiver(A), ends.receiver(A)
    busy.hold.set()
    made: list[Sender] = []
    thread = threading.Thread(target=lambda: made.append(ends.sender(A)), daemon=True)
    thread.start()
    await_that(lambda: A in ready.receiver._peers)
    busy.hold.clear()
    thread.join(DEADLINE_S)
    made[0].send(rows(*range(100)))
    await_that(lambda: len(ready.epochs[0] + busy.epochs[0]) == 100)


def test_strangers_do_not_drive_out_who_has_proved_the_secret(
    ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.exchange.receiver._UNPROVED_MAX", 2)
    reading = ends.receiver(A)
    unknown = reading.receiver._unknown
    at = ("127.0.0.1", reading.receiver.port)
    with ExitStack() as stack:
        for _ in range(4):
            stack.callback(connect(Dialing(at, SECRET, None)).close)
        await_that(lambda: len(unknown) == 4)
        strangers = [
            stack.enter_context(socket.create_connection(at, timeout=DEADLINE_S)) for _ in range(3)
        ]
        while strangers[0].recv(64):
            pass  # until it is dropped for the newest
        await_that(lambda: len(unknown) == 4 + 2)
        assert sum(peer.is_proved for peer in list(unknown)) == 4
    assert reading.error is None


def test_a_stranger_that_resets_its_connection_does_not_end_a_task_with_tls() -> None:
    with ExitStack() as stack:
        ends = Ends(stack, tls=True)
        reading = ends.receiver(A)
        for said in (b"", b"GET / HTTP/1.0\r\n\r\n") * 10:
            reading.hold.set()
            stranger = socket.create_connection(("127.0.0.1", reading.receiver.port))
            stranger.sendall(said)
            stranger.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            stranger.close()
            reading.hold.clear()
        ends.sender(A).send(rows(1))
        await_that(lambda: reading.epochs == [[1]] or reading.error is not None)
        assert reading.error is None


def test_somebody_unexpected_is_our_bug(ends: Ends) -> None:
    reading = ends.receiver(A)
    ends.sender(B)
    await_that(lambda: reading.error is not None)
    assert isinstance(reading.error, ProtocolError)
    assert "task 1 of stage 0 sends rows here, and is not expected" in str(reading.error)


def test_a_sender_waits_for_a_task_that_does_not_read_until_it_is_closed(ends: Ends) -> None:
    reading = ends.receiver(A)
    sender = ends.sender(A)
    reading.hold.set()
    large = rows(*range(20_000))
    sent = []
    failed: list[Exception] = []

    def send() -> None:
        try:
            while True:
                sender.send(large)
                sent.append(1)
        except Exception as exc:
            failed.append(exc)

    thread = threading.Thread(target=send, daemon=True)
    thread.start()

    def is_stuck() -> bool:
        before = len(sent)
        threading.Event().wait(0.3)
        return bool(sent) and len(sent) == before

    await_that(is_stuck)
    sender.close()
    thread.join(DEADLINE_S)
    assert isinstance(failed[0], TaskLostError)


def test_a_reader_of_frames_refuses_what_it_does_not_know() -> None:
    head, body = batch_frame(rows(1, 2))
    decoded = item_of(bytearray(head + bytes(body)), SCHEMA)
    assert isinstance(decoded, pa.RecordBatch)
    assert decoded.equals(rows(1, 2))
    with pytest.raises(ProtocolError, match="begins with"):
        item_of(bytearray(b"X" * 16), SCHEMA)
