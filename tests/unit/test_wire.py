"""Nothing that a peer sent is parsed before it proved the secret."""

from __future__ import annotations

import pickle
import socket
import struct
import threading
from collections.abc import Iterator

import pytest

from engine.errors import AuthenticationError
from engine.wire.connection import Connection, accept, connect

SECRET = b"s" * 32


class Bomb:
    """Unpickling it is noticed."""

    exploded = False

    def __reduce__(self) -> tuple[object, ...]:
        return (_explode, ())


def _explode() -> None:
    Bomb.exploded = True


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def accept_in_background(
    listener: socket.socket, secret: bytes
) -> tuple[threading.Thread, list[Connection | Exception]]:
    result: list[Connection | Exception] = []

    def body() -> None:
        sock, _ = listener.accept()
        try:
            result.append(accept(sock, secret))
        except AuthenticationError as exc:
            result.append(exc)

    thread = threading.Thread(target=body)
    thread.start()
    return thread, result


def test_both_sides_talk(listener: socket.socket) -> None:
    thread, result = accept_in_background(listener, SECRET)
    task = connect(listener.getsockname(), SECRET)
    thread.join()
    (driver,) = result
    assert isinstance(driver, Connection)
    task.send({"epoch": 1})
    task.send("two")
    assert driver.receive() == {"epoch": 1}
    assert driver.receive() == "two"
    driver.send("marker")
    assert task.receive() == "marker"
    task.close()
    with pytest.raises(EOFError):
        driver.receive()
    driver.close()


def test_a_wrong_secret_is_dropped_by_the_driver(listener: socket.socket) -> None:
    thread, result = accept_in_background(listener, SECRET)
    with pytest.raises(AuthenticationError):
        connect(listener.getsockname(), b"w" * 32)
    thread.join()
    assert isinstance(result[0], AuthenticationError)


def test_an_unproved_peer_is_never_unpickled(listener: socket.socket) -> None:
    thread, result = accept_in_background(listener, SECRET)
    payload = pickle.dumps(Bomb())
    with socket.create_connection(listener.getsockname()) as sock:
        sock.recv(16)
        sock.sendall(b"0" * 48 + struct.pack(">I", len(payload)) + b"0" * 32 + payload)
        thread.join()
    assert isinstance(result[0], AuthenticationError)
    assert not Bomb.exploded


def test_a_forged_or_repeated_frame_is_refused(listener: socket.socket) -> None:
    thread, result = accept_in_background(listener, SECRET)
    task = connect(listener.getsockname(), SECRET)
    thread.join()
    (driver,) = result
    assert isinstance(driver, Connection)
    payload = pickle.dumps(Bomb())
    task._socket.sendall(struct.pack(">I", len(payload)) + b"0" * 32 + payload)
    with pytest.raises(AuthenticationError, match="authentication"):
        driver.receive()
    assert not Bomb.exploded
    task.close()
    driver.close()
