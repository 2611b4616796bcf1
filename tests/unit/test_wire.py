"""Frames and handshakes, byte by byte: nothing is unpickled that was not authenticated."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import AuthenticationError
from engine.wire import session
from engine.wire.session import Session

SECRET = b"s" * 32
NONCES = b"d" * session.NONCE_BYTES, b"t" * session.NONCE_BYTES


def both_ends() -> tuple[Session, Session]:
    return Session(SECRET, *NONCES, b"driver"), Session(SECRET, *NONCES, b"task")


def framed(sender: Session, payload: bytes) -> bytes:
    return sender.seal(payload) + payload


@given(st.lists(st.binary(max_size=200), max_size=8), st.data())
def test_frames_arrive_in_pieces_of_any_size(payloads: list[bytes], data: st.DataObject) -> None:
    driver, task = both_ends()
    stream = memoryview(b"".join(framed(task, payload) for payload in payloads))
    arrived: list[bytearray] = []
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        arrived += driver.open(stream[:size])
        stream = stream[size:]
    assert arrived == payloads


def test_both_directions_have_their_own_numbers() -> None:
    driver, task = both_ends()
    for number in range(3):
        assert task.open(memoryview(framed(driver, b"%d" % number))) == [b"%d" % number]
        assert driver.open(memoryview(framed(task, b"%d" % number))) == [b"%d" % number]


@pytest.mark.parametrize("spoil", ["payload", "mac", "repeated", "reflected", "reordered"])
def test_a_spoilt_frame_is_refused(spoil: str) -> None:
    driver, task = both_ends()
    first, second = framed(task, b"first"), framed(task, b"second")
    sent = {
        "payload": first[:-1] + b"x",
        "mac": first[:4] + bytes(32) + first[36:],
        "repeated": first + first,
        "reflected": framed(driver, b"mine"),
        "reordered": second + first,
    }[spoil]
    with pytest.raises(AuthenticationError, match="authentication"):
        driver.open(memoryview(sent))


def test_a_frame_that_is_too_long_is_refused_by_its_head() -> None:
    driver, _task = both_ends()
    with pytest.raises(AuthenticationError, match="longer"):
        driver.open(memoryview(b"\xff\xff\xff\xff" + bytes(32)))


def test_each_side_proves_the_secret() -> None:
    driver_nonce, task_nonce = NONCES
    answer = session.task_proof(SECRET, driver_nonce, task_nonce)
    assert len(answer) == session.PROOF_BYTES == 48
    proof = session.driver_proof(SECRET, driver_nonce, answer)
    session.check_driver(SECRET, driver_nonce, task_nonce, proof)
    with pytest.raises(AuthenticationError):
        session.driver_proof(b"w" * 32, driver_nonce, answer)
    with pytest.raises(AuthenticationError):
        session.check_driver(b"w" * 32, driver_nonce, task_nonce, proof)


def test_a_class_that_only_this_process_knows_travels_by_value() -> None:
    class Local:
        number = 7

    assert pickle.loads(session.pickled(Local())).number == 7
