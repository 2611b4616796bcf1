"""Binaries and digests: hex, base64, MD5, SHA, CRC-32.

Source: ``mathExpressions.scala`` (hex), ``stringExpressions.scala``, ``hash.scala`` of Spark;
``java.util.Base64`` (MIME decoder).
"""

from __future__ import annotations

import base64
import hashlib
import re
import zlib

import pyarrow as pa

from engine.expressions.ansi import failure
from engine.expressions.java_errors import illegal_argument
from engine.expressions.registry import Context, ValueFunction, strict
from engine.expressions.tree import Expr
from engine.expressions.vectors import per_row


@strict("Hex", loop=True)
def hex_text(expr: Expr, context: Context) -> ValueFunction:
    """``hex``: of a text's UTF-8, of a binary, or of a BIGINT's 64 bits without leading zeros."""
    if pa.types.is_integer(expr.children[0].dtype):
        return lambda n: per_row(lambda i: f"{i & 0xFFFFFFFFFFFFFFFF:X}", expr.dtype, n)
    return lambda s: per_row(
        lambda value: (value.encode() if isinstance(value, str) else value).hex().upper(),
        expr.dtype, s,
    )  # fmt: skip


@strict(
    "Unhex",
    can_fail=lambda expr: bool(expr.params["fail_on_error"]),
    loop=True,
    reads=("fail_on_error",),
)
def unhex(expr: Expr, context: Context) -> ValueFunction:
    """``unhex``: NULL for what is not hexadecimal; a digit too few counts as a leading zero."""
    strictly = expr.params["fail_on_error"]

    def decode(text: str) -> bytes | None:
        if re.fullmatch("[0-9a-fA-F]*", text):
            return bytes.fromhex("0" + text if len(text) % 2 else text)
        if strictly:
            raise failure("CONVERSION_INVALID_INPUT", f"{text!r} is not hexadecimal.")
        return None

    return lambda s: per_row(decode, expr.dtype, s)


@strict("Base64", loop=True, reads=("chunk_base64",))
def to_base64(expr: Expr, context: Context) -> ValueFunction:
    """``base64``: in lines of 76 characters if the session says so."""
    if not expr.params["chunk_base64"]:
        return lambda b: per_row(lambda v: base64.b64encode(v).decode(), expr.dtype, b)

    def chunked(value: bytes) -> str:
        text = base64.b64encode(value).decode()
        return "\r\n".join(text[i : i + 76] for i in range(0, len(text), 76))

    return lambda b: per_row(chunked, expr.dtype, b)


_NOT_BASE64 = re.compile("[^A-Za-z0-9+/]")
_WHITESPACE = re.compile("[\t-\r\x1c-\x20\u1680\u2000-\u2006\u2008-\u200a\u2028\u2029\u205f\u3000]")
"""What ``java.lang.Character.isWhitespace`` takes for such."""
_AFTER_PADDING = re.compile("[A-Za-z0-9+/]")


@strict("UnBase64", can_fail=lambda expr: True, loop=True, reads=("fail_on_error",))
def from_base64(expr: Expr, context: Context) -> ValueFunction:
    """``unbase64``: skips other characters, as MIME does; what cannot be decoded raises.
    ``to_binary(s, 'base64')`` refuses other characters."""
    if not expr.params["fail_on_error"]:
        return lambda s: per_row(_from_base64, expr.dtype, s)

    def strictly(text: str) -> bytes:
        if not _is_base64(text):
            raise failure("CONVERSION_INVALID_INPUT", f"{text!r} is not base64.")
        return _from_base64(text)

    return lambda s: per_row(strictly, expr.dtype, s)


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
        position = len(text[: extra.end()].encode())
        raise illegal_argument(f"Input byte array has incorrect ending byte at {position}")
    return base64.b64decode(digits + "=" * (-last % 4))


@strict("Md5", loop=True)
def md5(expr: Expr, context: Context) -> ValueFunction:
    """``md5``, in hexadecimal."""
    return lambda b: per_row(
        lambda v: hashlib.md5(v, usedforsecurity=False).hexdigest(), expr.dtype, b
    )


@strict("Sha1", loop=True)
def sha1(expr: Expr, context: Context) -> ValueFunction:
    """``sha1``, in hexadecimal."""
    return lambda b: per_row(
        lambda v: hashlib.sha1(v, usedforsecurity=False).hexdigest(), expr.dtype, b
    )


_SHA2 = {
    0: hashlib.sha256,
    224: hashlib.sha224,
    256: hashlib.sha256,
    384: hashlib.sha384,
    512: hashlib.sha512,
}


@strict("Sha2", loop=True)
def sha2(expr: Expr, context: Context) -> ValueFunction:
    """``sha2``, in hexadecimal; NULL for a length that there is not."""

    def digest(value: bytes, bits: int) -> str | None:
        algorithm = _SHA2.get(bits)
        return None if algorithm is None else algorithm(value).hexdigest()

    return lambda b, bits: per_row(digest, expr.dtype, b, bits)


@strict("Crc32", loop=True)
def crc32(expr: Expr, context: Context) -> ValueFunction:
    """``crc32``."""
    return lambda b: per_row(zlib.crc32, expr.dtype, b)
