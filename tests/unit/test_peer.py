"""How long the driver's end of a connection bears a task that does not read, on a set clock."""

from __future__ import annotations

import select
import socket
from concurrent.futures import ThreadPoolExecutor

import pytest

from engine.wire import peer
from engine.wire.connection import Dialing, connect
from tests.waiting import wait_until

WAIT_S = 60
SECRET = b"s" * 32


def test_a_task_that_reads_slowly_stays_and_one_that_stops_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of a large message much waits still when the next one comes."""
    now_s = [0.0]
    monkeypatch.setattr(peer, "monotonic", lambda: now_s[0])
    buffer = memoryview(bytearray(1 << 18))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        dialing = Dialing(listening.getsockname()[:2], SECRET, None)
        with ThreadPoolExecutor(1) as pool:
            calling = pool.submit(connect, dialing)
            slow = peer.Peer(listening.accept()[0], SECRET, None, 0.0)
            wait_until(lambda: slow.advance(buffer) or slow.is_proved, "the proof")
            task = calling.result(WAIT_S)

    def reads_some() -> bool:
        before = len(slow._out)
        task._socket.recv(1 << 20)
        slow.advance(buffer)
        return len(slow._out) < before

    slow.send(bytes(50 << 20))
    for _ in range(5):
        now_s[0] += peer.UNREAD_S
        slow.send(b"marker")
        wait_until(reads_some, "the task reads")
    # What it has taken meanwhile counts, though nobody has looked.
    now_s[0] += peer.UNREAD_S + 1
    wait_until(
        lambda: task._socket.recv(1 << 20) and select.select([], [slow], [], 0)[1], "room for more"
    )
    slow.send(b"marker")
    now_s[0] += peer.UNREAD_S + 1
    assert len(slow._out) > peer.OUT_BYTES_MAX
    with pytest.raises(OSError, match="does not read"):
        slow.send(b"marker")
    task.close()
    slow.close()
