"""Binaries and digests: hex, base64, MD5, SHA, CRC-32.

Source: ``mathExpressions.scala`` (hex), ``stringExpressions.scala``, ``hash.scala`` of Spark;
``java.util.Base64`` (MIME decoder).
"""

from __future__ import annotations

import base64
import hashlib
import re
import zlib

from engine.expressions.ansi import failure
from engine.expressions.java_characters import WHITESPACE
from engine.expressions.java_errors import illegal_argument
from engine.expressions.malformed import BYTES
from engine.expressions.registry import always
from engine.expressions.rowwise import RowFunction, rowwise, rowwise_factory
from engine.expressions.tree import Expr


@rowwise("Hex", malformed=BYTES)
def hex_text(value: str | bytes | int) -> str:
    """``hex``: of a text's UTF-8, of a binary, or of a BIGINT's 64 bits without leading zeros."""
    if isinstance(value, int):
        return f"{value & 0xFFFFFFFFFFFFFFFF:X}"
    return (value.encode() if isinstance(value, str) else value).hex().upper()


@rowwise_factory(
    "Unhex", can_fail=lambda expr: bool(expr.params["fail_on_error"]), reads=("fail_on_error",)
)
def unhex(expr: Expr) -> RowFunction:
    """``unhex``: NULL for what is not hexadecimal; a digit too few counts as a leading zero."""
    strictly = expr.params["fail_on_error"]

    def decode(text: str) -> bytes | None:
        if re.fullmatch("[0-9a-fA-F]*", text):
            return bytes.fromhex("0" + text if len(text) % 2 else text)
        if strictly:
            raise failure("CONVERSION_INVALID_INPUT", f"{text!r} is not hexadecimal.")
        return None

    return decode


@rowwise_factory("Base64", reads=("chunk_base64",))
def to_base64(expr: Expr) -> RowFunction:
    """``base64``: in lines of 76 characters if the session says so."""
    if not expr.params["chunk_base64"]:
        return lambda value: base64.b64encode(value).decode()

    def chunked(value: bytes) -> str:
        text = base64.b64encode(value).decode()
        return "\r\n".join(text[i : i + 76] for i in range(0, len(text), 76))

    return chunked


_NOT_BASE64 = re.compile("[^A-Za-z0-9+/]")
_WHITESPACE = re.compile(f"[{WHITESPACE}]")
_AFTER_PADDING = re.compile("[A-Za-z0-9+/]")


@rowwise_factory("UnBase64", can_fail=always, reads=("fail_on_error",))
def from_base64(expr: Expr) -> RowFunction:
    """``unbase64``: skips other characters, as MIME does; what cannot be decoded raises.
    ``to_binary(s, 'base64')`` refuses other characters."""
    if not expr.params["fail_on_error"]:
        return _from_base64

    def strictly(text: str) -> bytes:
        if not _is_base64(text):
            raise failure("CONVERSION_INVALID_INPUT", f"{text!r} is not base64.")
        return _from_base64(text)

    return strictly


def _is_base64(text: str) -> bool:
    """Digits, perhaps with white space between them, and padding at the very end if at all."""
    body, padding, rest = text.partition("=")
    digits = _WHITESPACE.sub("", body)
    over = len(digits) % 4
    if not padding:
        return _NOT_BASE64.search(digits) is None and over != 1
    return _NOT_BASE64.search(digits) is None and (over, rest) in ((2, "="), (3, ""))


def _from_base64(text: str) -> bytes:
    body, padding, rest = text.partition("=")
    digits = _NOT_BASE64.sub("", body)
    last = len(digits) % 4
    # Java's own messages: Spark passes them on as they are.
    if padding and (last == 0 or (last == 2 and not rest.startswith("="))):
        raise illegal_argument("Input byte array has wrong 4-byte ending unit")
    if last == 1:
        raise illegal_argument("Last unit does not have enough valid bits")
    if extra := _AFTER_PADDING.search(text, len(body)):
        # Java makes one byte of each character, of those beyond the first 256 a "?".
        raise illegal_argument(f"Input byte array has incorrect ending byte at {extra.end()}")
    return base64.b64decode(digits + "=" * (-last % 4))


@rowwise("Md5")
def md5(value: bytes) -> str:
    """``md5``, in hexadecimal."""
    return hashlib.md5(value, usedforsecurity=False).hexdigest()


@rowwise("Sha1")
def sha1(value: bytes) -> str:
    """``sha1``, in hexadecimal."""
    return hashlib.sha1(value, usedforsecurity=False).hexdigest()


_SHA2 = {
    0: hashlib.sha256,
    224: hashlib.sha224,
    256: hashlib.sha256,
    384: hashlib.sha384,
    512: hashlib.sha512,
}


@rowwise("Sha2")
def sha2(value: bytes, bits: int) -> str | None:
    """``sha2``, in hexadecimal; NULL for a length that there is not."""
    algorithm = _SHA2.get(bits)
    return None if algorithm is None else algorithm(value).hexdigest()


@rowwise("Crc32")
def crc32(value: bytes) -> int:
    """``crc32``."""
    return zlib.crc32(value)
