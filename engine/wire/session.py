"""The protocol between the driver and its tasks: proofs of the secret, and authenticated frames.

Pure: bytes in, bytes out. Both sides hold the run's secret, which travels to the executors inside
Spark's own task closure.

::

    driver → task   16 bytes   driver nonce
    task → driver   48 bytes   task nonce, HMAC(secret, "task" + driver nonce + task nonce)
    driver → task   32 bytes   HMAC(secret, "driver" + driver nonce + task nonce)
    then frames, each way:
        4 bytes   length n of the payload, big endian
        32 bytes  HMAC(session key, direction + frame number + payload)
        n bytes   payload: one pickled message

The session key is HMAC(secret, "session" + both nonces); all HMACs are SHA-256; the direction is
``d`` for the driver's frames and ``t`` for the task's; frame numbers are 8 bytes, from 0. Of a peer
that has not proved the secret 48 bytes are read and no more. A frame is unpickled only after its
HMAC was verified; the frame number makes a repeated or reordered frame fail. With TLS
(:mod:`engine.wire.tls`) all this happens inside of it.
"""

from __future__ import annotations

import hashlib
import hmac
import pickle
import struct
from typing import Any

import cloudpickle

from engine.errors import AuthenticationError, ProtocolError

NONCE_BYTES = 16
MAC_BYTES = 32
PROOF_BYTES = NONCE_BYTES + MAC_BYTES
FRAME_BYTES_MAX = 1 << 30
HANDSHAKE_TIMEOUT_S = 5.0
"""So long the whole of a handshake may take."""
_LENGTH = struct.Struct(">I")
_NUMBER = struct.Struct(">Q")
_HEAD_BYTES = _LENGTH.size + MAC_BYTES


def _mac(key: bytes, *parts: bytes) -> bytes:
    return hmac.digest(key, b"".join(parts), "sha256")


def task_proof(secret: bytes, driver_nonce: bytes, task_nonce: bytes) -> bytes:
    """What the task sends: its nonce and its proof."""
    return task_nonce + _mac(secret, b"task", driver_nonce, task_nonce)


def driver_proof(secret: bytes, driver_nonce: bytes, answer: bytes) -> bytes:
    """Check the task's ``answer`` and return the driver's proof.

    :raises AuthenticationError: the peer does not know the secret.
    """
    task_nonce = answer[:NONCE_BYTES]
    if not hmac.compare_digest(answer, task_proof(secret, driver_nonce, task_nonce)):
        raise AuthenticationError("A peer failed to prove the secret of this run.")
    return _mac(secret, b"driver", driver_nonce, task_nonce)


def check_driver(secret: bytes, driver_nonce: bytes, task_nonce: bytes, proof: bytes) -> None:
    """:raises AuthenticationError: the driver does not know the secret."""
    if not hmac.compare_digest(proof, _mac(secret, b"driver", driver_nonce, task_nonce)):
        raise AuthenticationError("The driver failed to prove the secret of this run.")


def pickled(message: Any) -> bytes:
    """A message as a frame's payload.

    :raises ProtocolError: it is too long.
    """
    try:
        payload = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    except Exception:
        # A class of a notebook's or a script's own: by value, as PySpark sends them.
        payload = bytes(cloudpickle.dumps(message))
    if len(payload) > FRAME_BYTES_MAX:
        raise ProtocolError(
            f"A message of {len(payload)} bytes is over the limit of {FRAME_BYTES_MAX}.",
            hint="Shorten the epoch, or use a sink that does not ship rows to the driver.",
        )
    return payload


class Session:
    """One end of a connection after the handshake. :meth:`seal` and :meth:`open` may be called by
    different threads, each by one at a time.

    :param role: ``b"driver"`` or ``b"task"``.
    """

    def __init__(self, secret: bytes, driver_nonce: bytes, task_nonce: bytes, role: bytes) -> None:
        key = _mac(secret, b"session", driver_nonce, task_nonce)
        self._keyed = hmac.new(key, digestmod=hashlib.sha256)
        self._out, self._in = (b"d", b"t") if role == b"driver" else (b"t", b"d")
        self._sent = self._received = 0
        self._head = bytearray()
        self._payload = bytearray()
        self._missing = 0
        self._mac: hmac.HMAC | None = None
        """Of the payload so far; None while the head is incomplete."""

    def seal(self, *parts: bytes | memoryview) -> bytes:
        """The head of the next frame; the payload, which these make up, follows it.

        :raises ProtocolError: it is too long.
        """
        length = sum(map(len, parts))
        if length > FRAME_BYTES_MAX:
            raise ProtocolError(
                f"A frame of {length} bytes is over the limit of {FRAME_BYTES_MAX}."
            )
        mac = self._keyed.copy()
        mac.update(self._out + _NUMBER.pack(self._sent))
        for part in parts:
            mac.update(part)
        self._sent += 1
        return _LENGTH.pack(length) + mac.digest()

    def open(self, data: memoryview) -> list[bytearray]:
        """Take in what has arrived, in pieces of any size.

        :return: the payloads that are complete now, their HMACs verified.
        :raises AuthenticationError: a frame was forged, repeated, reordered, or is too long.
        """
        payloads: list[bytearray] = []
        while data or (self._mac is not None and not self._missing):
            if self._mac is None:
                data = self._take_head(data)
            elif self._missing:
                piece = data[: self._missing]
                self._payload += piece
                self._mac.update(piece)
                self._missing -= len(piece)
                data = data[len(piece) :]
            else:
                payloads.append(self._verified(self._mac))
        return payloads

    def _take_head(self, data: memoryview) -> memoryview:
        piece = data[: _HEAD_BYTES - len(self._head)]
        self._head += piece
        if len(self._head) == _HEAD_BYTES:
            (self._missing,) = _LENGTH.unpack_from(self._head)
            if self._missing > FRAME_BYTES_MAX:
                raise AuthenticationError("A frame is longer than any message.")
            self._mac = self._keyed.copy()
            self._mac.update(self._in + _NUMBER.pack(self._received))
        return data[len(piece) :]

    def _verified(self, mac: hmac.HMAC) -> bytearray:
        if not hmac.compare_digest(mac.digest(), self._head[_LENGTH.size :]):
            raise AuthenticationError("A frame failed its authentication.")
        payload, self._payload, self._mac = self._payload, bytearray(), None
        self._head.clear()
        self._received += 1
        return payload
