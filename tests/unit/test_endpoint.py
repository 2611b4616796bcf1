"""The driver's end of the wire, with real sockets: tasks, and peers that are none."""

from __future__ import annotations

import contextlib
import errno
import pickle
import queue
import resource
import socket
import ssl
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from engine.base.options import PortRange
from engine.coordinator.endpoint import Endpoint
from engine.coordinator.events import Event, TaskLost
from engine.errors import AuthenticationError, ConfigError
from engine.progress.counters import EpochCounters
from engine.wire import connection, server
from engine.wire.connection import Connection, connect
from engine.wire.listening import make_room
from engine.wire.messages import (
    Address,
    Dismissed,
    EpochCommitMessage,
    EpochMarker,
    TaskAlive,
    TaskStarted,
    Welcome,
    Wiring,
)
from tests.waiting import wait_until

WAIT_S = 60


class Bomb:
    """Unpickling it is noticed."""

    exploded = False

    def __reduce__(self) -> tuple[object, ...]:
        return (_explode, ())


def _explode() -> None:
    Bomb.exploded = True


class Unreadable:
    def __reduce__(self) -> tuple[object, ...]:
        return (_refuse, ())


def _refuse() -> None:
    raise EOFError("of the message's own")


def started(partition: int) -> TaskStarted:
    return TaskStarted("r", partition, "host", 1)


def report(partition: int, message: Any = None, epoch: int = 0) -> EpochCommitMessage:
    return EpochCommitMessage("r", partition, epoch, 0, message, EpochCounters())


class Driver:
    """An endpoint, and what it has delivered."""

    def __init__(self, **how: Any) -> None:
        self.heard: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self.endpoint = Endpoint(how.pop("host", "127.0.0.1"), self.heard.put, **how)
        self.tasks: list[Connection] = []

    def task(self, partition: int | None = None) -> Connection:
        """A task that was welcomed, and has started if it has a partition."""
        task = connect(self.endpoint.dialing)
        self.tasks.append(task)
        assert isinstance(task.receive(), Welcome)
        if partition is not None:
            task.send(started(partition))
            assert self.hear() == started(partition)
        return task

    def hear(self) -> Event:
        return self.heard.get(timeout=WAIT_S)

    def stranger(self) -> socket.socket:
        return socket.create_connection(self.endpoint.dialing.address, timeout=WAIT_S)


@pytest.fixture
def drive() -> Iterator[Callable[..., Driver]]:
    drivers: list[Driver] = []

    def make(**how: Any) -> Driver:
        drivers.append(Driver(**how))
        return drivers[-1]

    yield make
    for driver in drivers:
        for task in driver.tasks:
            task.close()
        driver.endpoint.close()


@pytest.fixture(params=[False, True], ids=["plain", "tls"])
def driver(drive: Callable[..., Driver], request: pytest.FixtureRequest) -> Driver:
    return drive(tls=request.param)


def is_dropped(peer: socket.socket) -> bool:
    """Wait for the end of what the driver sends."""
    try:
        while peer.recv(1024):
            pass
    except ConnectionResetError:
        pass
    return True


# -- tasks --------------------------------------------------------------------------------------


def test_messages_arrive_in_order_and_then_the_loss(driver: Driver) -> None:
    task = driver.task(3)
    for epoch in range(200):
        task.send(report(3, "x" * epoch, epoch))
    task.close()
    for epoch in range(200):
        assert driver.hear() == report(3, "x" * epoch, epoch)
    lost = driver.hear()
    assert isinstance(lost, TaskLost)
    assert lost.partition == 3
    assert driver.endpoint.await_left(WAIT_S)


def test_a_large_message_arrives_whole_and_others_meanwhile(driver: Driver) -> None:
    large, small = driver.task(0), driver.task(1)
    payload = bytes(range(256)) * (1 << 18)  # 64 MiB
    sending = threading.Thread(target=large.send, args=(report(0, payload),))
    sending.start()
    for epoch in range(20):
        small.send(report(1, epoch=epoch))
    heard = [driver.hear() for _ in range(21)]
    sending.join()
    assert report(0, payload) in heard
    assert [e for e in heard if e.partition == 1] == [  # type: ignore[union-attr]
        report(1, epoch=epoch) for epoch in range(20)
    ]


def test_markers_reach_every_task_and_no_task_costs_a_thread(driver: Driver) -> None:
    before = set(threading.enumerate())
    tasks = [driver.task(partition) for partition in range(30)]
    more = set(threading.enumerate()) - before
    for epoch in range(3):
        driver.endpoint.broadcast(EpochMarker(epoch))
    for task in tasks:
        assert [task.receive() for _ in range(3)] == [EpochMarker(epoch) for epoch in range(3)]
    assert not more


def test_both_ends_may_send_large_messages_at_once(driver: Driver) -> None:
    """One that only sends, and one that only waits for the other to read, would wait for ever."""
    task = driver.task(0)
    reading = threading.Thread(target=task.receive)
    reading.start()
    task.send(report(0, b"x" * (16 << 20)))
    assert driver.hear() == report(0, b"x" * (16 << 20))
    driver.endpoint.broadcast(EpochMarker(0))
    reading.join(WAIT_S)
    assert not reading.is_alive()


def test_a_message_may_have_more_than_a_socket_takes_at_once(driver: Driver) -> None:
    """Where thousands of tasks are, with a certificate each."""
    tasks = [driver.task(partition) for partition in range(2)]
    large = Wiring({1: (Address("host", 1, "x" * (16 << 20)),)})
    driver.endpoint.broadcast(large)
    for task in tasks:
        assert task.receive() == large
    driver.endpoint.broadcast(EpochMarker(0))
    for task in tasks:
        assert task.receive() == EpochMarker(0)


def test_a_task_that_does_not_read_is_dropped_and_others_are_not(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.wire.peer.UNREAD_S", 0)
    driver.task(0)
    reader = driver.task(1)
    count = 0
    while driver.heard.empty():
        driver.endpoint.broadcast(Dismissed("x" * 60_000))
        assert isinstance(reader.receive(), Dismissed)
        count += 1
        assert count < 10_000
    lost = driver.hear()
    assert isinstance(lost, TaskLost)
    assert (lost.partition, lost.reason) == (
        0,
        "its connection broke: it does not read what it is sent",
    )


def test_who_is_silent_is_told(driver: Driver) -> None:
    driver.task(0)
    driver.task(1).send(TaskAlive("r", 1))
    assert driver.endpoint.silent(3600) == []
    assert driver.endpoint.silent(-1) == [0, 1]


def test_a_dismissed_task_may_still_speak(driver: Driver) -> None:
    task, unnamed = driver.task(0), driver.task()
    driver.endpoint.dismiss("over")
    assert task.receive() == unnamed.receive() == Dismissed("over")
    assert not driver.endpoint.await_left(0.01)
    task.send(report(0))
    task.close()
    unnamed.close()
    assert driver.hear() == report(0)
    assert isinstance(driver.hear(), TaskLost)
    assert driver.endpoint.await_left(WAIT_S)
    late = connect(driver.endpoint.dialing)
    assert late.receive() == Dismissed("over")
    late.close()


def test_what_cannot_be_read_is_told_of_its_task(driver: Driver) -> None:
    task = driver.task(0)
    task.send(report(0, Unreadable()))
    lost = driver.hear()
    assert isinstance(lost, TaskLost)
    assert "cannot be read: EOFError: of the message's own" in lost.reason
    driver.task(1)


def test_tasks_are_dropped_when_the_driver_closes(driver: Driver) -> None:
    task = driver.task(0)
    driver.endpoint.close()
    with pytest.raises((EOFError, OSError)):
        task.receive()
    with pytest.raises(OSError, match="refused"):
        connect(driver.endpoint.dialing)


def test_who_is_connected_stays_when_the_port_is_left(drive: Callable[..., Driver]) -> None:
    first = drive()
    task = first.task(0)
    first.endpoint.stop_listening()
    first.endpoint.stop_listening()
    port = first.endpoint.dialing.address[1]
    second = drive(ports=PortRange(port, port))
    second.task(0)
    task.send(report(0))
    assert first.hear() == report(0)


# -- peers that are none ------------------------------------------------------------------------


def test_a_wrong_secret_is_dropped(driver: Driver) -> None:
    with pytest.raises(AuthenticationError, match="dropped"):
        connect(replace(driver.endpoint.dialing, secret=b"w" * 32), patience_s=0)
    driver.task(0)


def test_an_unproved_peer_is_never_unpickled(drive: Callable[..., Driver]) -> None:
    driver = drive()
    payload = pickle.dumps(Bomb())
    with driver.stranger() as peer:
        peer.sendall(b"0" * 48 + struct.pack(">I", len(payload)) + b"0" * 32 + payload)
        assert is_dropped(peer)
    assert not Bomb.exploded


def test_a_forged_frame_is_never_unpickled(drive: Callable[..., Driver]) -> None:
    driver = drive()
    task = driver.task(0)
    payload = pickle.dumps(Bomb())
    task._socket.send(struct.pack(">I", len(payload)) + b"0" * 32 + payload)
    lost = driver.hear()
    assert isinstance(lost, TaskLost)
    assert "authentication" in lost.reason
    assert not Bomb.exploded


def test_a_dripping_peer_has_no_more_time_than_others(
    drive: Callable[..., Driver], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "HANDSHAKE_TIMEOUT_S", 0.2)
    driver = drive()
    sent = 0
    with driver.stranger() as peer:
        assert len(peer.recv(16)) == 16
        peer.settimeout(0.1)
        while sent < 48:
            try:
                peer.sendall(b"0")
                sent += 1
                if not peer.recv(1):
                    break
            except TimeoutError:
                continue
            except OSError:
                break
    assert sent < 48


def test_hundreds_of_silent_peers_keep_no_task_out(
    drive: Callable[..., Driver], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The oldest go; none costs a thread."""
    monkeypatch.setattr(server, "UNPROVED_MAX", 100)
    driver = drive()
    before = set(threading.enumerate())
    silent = []
    for number in range(500):
        silent.append(driver.stranger())
        if number % 50 == 0:
            driver.task(number // 50)
    assert not set(threading.enumerate()) - before
    assert all(is_dropped(peer) for peer in silent[:400])
    driver.task(10)
    for peer in silent:
        peer.close()


def test_a_task_that_was_dropped_unheard_calls_again() -> None:
    calls = []
    with socket.create_server(("127.0.0.1", 0)) as busy:

        def drop_twice_and_leave() -> None:
            for _ in range(2):
                calls.append(busy.accept()[0].close())
            busy.close()

        dropping = threading.Thread(target=drop_twice_and_leave)
        dropping.start()
        dialing = connection.Dialing(busy.getsockname(), b"s")
        with pytest.raises(OSError, match="refused"):  # by nobody, the third time
            connect(dialing)
        dropping.join()
    assert len(calls) == 2


def test_the_system_tells_a_task_of_a_driver_whose_machine_is_gone(
    drive: Callable[..., Driver],
) -> None:
    """No RST comes from such a machine. Sent behind it, a report would wait a quarter of an hour;
    what makes hosts that vanish is tests/cluster/test_half_open.py."""
    driver = drive()
    with contextlib.closing(connect(driver.endpoint.dialing, silence_max_s=7)) as task:
        assert task._socket.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        if sys.platform == "linux":
            assert task._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 7_000


def test_a_driver_may_be_waited_for_longer_than_the_system_can(
    drive: Callable[..., Driver],
) -> None:
    """``taskTimeoutS`` has no end: who wants no timeout gives a large one."""
    driver = drive()
    with contextlib.closing(connect(driver.endpoint.dialing, silence_max_s=10**9)) as task:
        if sys.platform == "linux":
            set_ms = task._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
            assert set_ms == 2**31 - 1


def test_the_error_of_a_task_that_is_dropped_has_an_address_to_copy() -> None:
    try:
        dropping = socket.create_server(("::1", 0), family=socket.AF_INET6)
    except OSError:
        pytest.skip("this machine has no IPv6")
    with dropping:
        threading.Thread(target=lambda: dropping.accept()[0].close()).start()
        port = dropping.getsockname()[1]
        with pytest.raises(AuthenticationError, match=rf"at \[::1\]:{port} dropped"):
            connect(connection.Dialing(("::1", port), b"s"), patience_s=0)


def test_without_descriptors_the_next_ones_wait(
    drive: Callable[..., Driver], caplog: pytest.LogCaptureFixture
) -> None:
    driver = drive()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with socket.socket() as peer:
        peer.settimeout(WAIT_S)
        resource.setrlimit(resource.RLIMIT_NOFILE, (peer.fileno(), hard))
        try:
            with pytest.raises(OSError) as caught:
                socket.socket()
            assert caught.value.errno == errno.EMFILE
            peer.connect(driver.endpoint.dialing.address)
            wait_until(
                lambda: any("not accepted" in record.getMessage() for record in caplog.records),
                "the refusal is in the log",
                WAIT_S,
            )
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert len(peer.recv(16)) == 16
    driver.task(0)


# -- where it listens ---------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["::1", "[::1]"])
def test_ipv6(drive: Callable[..., Driver], host: str) -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no IPv6")
    driver = drive(host=host)
    assert driver.endpoint.dialing.address[0] == "::1"
    driver.task(0)


def test_the_first_free_port_of_a_range_is_taken(drive: Callable[..., Driver]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"port {port} of 127.0.0.1.*coordinatorPort"):
            drive(ports=PortRange(port, port))
        driver = drive(ports=PortRange(port, min(port + 50, 65_535)))
        assert port < driver.endpoint.dialing.address[1] <= port + 50
        driver.task(0)


@pytest.mark.parametrize("host", ["192.0.2.1", "no.such.host.invalid"])
def test_an_address_of_another_machine_is_told(host: str) -> None:
    with pytest.raises(ConfigError, match=f"cannot listen on {host}"):
        Endpoint(host, print)


def test_the_limit_of_open_files_is_raised_for_many_tasks() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (700, hard))
        make_room(tasks=1_000, others=100)
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == 1_612
        make_room(tasks=1, others=0)
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == 1_612
        if hard != resource.RLIM_INFINITY:
            make_room(tasks=hard - 512, others=100)
            with pytest.raises(ConfigError, match=f"For {hard:,} tasks .* ulimit -n {hard + 512}"):
                make_room(tasks=hard, others=0)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


# -- TLS ----------------------------------------------------------------------------------------


def test_a_task_accepts_the_certificate_of_its_run_only(drive: Callable[..., Driver]) -> None:
    ours, other = drive(tls=True), drive(tls=True)
    mixed = replace(ours.endpoint.dialing, certificate=other.endpoint.dialing.certificate)
    with pytest.raises(AuthenticationError, match="not the one of this run"):
        connect(mixed)
    ours.task(0)


def test_nothing_is_said_in_the_clear(drive: Callable[..., Driver]) -> None:
    driver = drive(tls=True)
    dialing = driver.endpoint.dialing
    with pytest.raises(AuthenticationError, match="dropped"):
        connect(replace(dialing, certificate=None), patience_s=0)
    with driver.stranger() as peer:
        peer.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert is_dropped(peer)
    assert isinstance(driver.task(0)._socket, ssl.SSLSocket)
    for hidden in (dialing.secret.hex(), str(dialing.secret), "CERTIFICATE"):
        assert hidden not in repr(dialing)


def test_tls_without_its_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(ConfigError, match=r"coordinatorTls .*\[tls\]"):
        Endpoint("127.0.0.1", print, tls=True)
