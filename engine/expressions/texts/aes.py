"""``aes_encrypt``, ``aes_decrypt``; ``try_aes_decrypt`` is NULL where the latter fails.

===== =========== ================ ========================
mode  padding     begins with      authenticated
===== =========== ================ ========================
GCM   none        12 random bytes  16 bytes behind the text
CBC   PKCS        16 random bytes  no
ECB   PKCS        nothing          no
===== =========== ================ ========================

Needs the package ``cryptography``.

Source: ``ExpressionImplUtils.java`` of Spark.
"""

from __future__ import annotations

import importlib.util
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from engine.errors import TransformError
from engine.expressions.ansi import failure
from engine.expressions.java_errors import java_error
from engine.expressions.registry import always
from engine.expressions.rowwise import RowFunction, rowwise_factory
from engine.expressions.tree import Expr

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers import CipherContext, modes


@dataclass(frozen=True)
class _Mode:
    """One row of the table above; all names in small letters."""

    name: str
    padding: str
    iv_bytes: int


_GCM: Final = _Mode("gcm", "none", 12)
_CBC: Final = _Mode("cbc", "pkcs", 16)
_MODES: Final = {mode.name: mode for mode in (_GCM, _CBC, _Mode("ecb", "pkcs", 0))}
_BLOCK_BYTES: Final = 16
_TAG_BYTES: Final = 16
_KEY_BYTES: Final = (16, 24, 32)


def _needs_package(expr: Expr) -> str | None:
    if importlib.util.find_spec("cryptography") is None:
        return "needs the package cryptography: pip install 'airflow-provider-continuous[tls]'"
    return None


@rowwise_factory("AesEncrypt", can_fail=always, supports=_needs_package)
def aes_encrypt(expr: Expr) -> RowFunction:
    """``aes_encrypt``: begins with the initialization vector, which is random if it is empty."""

    def encrypt(data: bytes, key: bytes, mode: str, padding: str, iv: bytes, aad: bytes) -> bytes:
        cipher = _mode(key, mode, padding)
        iv = _checked_iv(cipher, iv) or os.urandom(cipher.iv_bytes)
        if cipher is _GCM:
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM

            return iv + AESGCM(key).encrypt(iv, data, aad)
        _refuse_aad(cipher, aad)
        missing = _BLOCK_BYTES - len(data) % _BLOCK_BYTES
        blocks = _blocks(cipher, key, iv, encrypts=True)
        return iv + blocks.update(data + bytes([missing]) * missing) + blocks.finalize()

    return encrypt


@rowwise_factory("AesDecrypt", can_fail=always, supports=_needs_package)
def aes_decrypt(expr: Expr) -> RowFunction:
    """``aes_decrypt``: fails for what this key has not encrypted, as far as that can be seen."""

    def decrypt(data: bytes, key: bytes, mode: str, padding: str, aad: bytes) -> bytes:
        cipher = _mode(key, mode, padding)
        iv, rest = data[: cipher.iv_bytes], data[cipher.iv_bytes :]
        if len(iv) < cipher.iv_bytes:
            raise _no_ciphertext("it is too short for an initialization vector")
        if cipher is _GCM:
            return _open_gcm(key, iv, rest, aad)
        if cipher is _CBC:
            _refuse_aad(cipher, aad)
        if len(rest) % _BLOCK_BYTES:
            raise _no_ciphertext(f"its length is no multiple of {_BLOCK_BYTES} bytes")
        blocks = _blocks(cipher, key, iv, encrypts=False)
        return _without_padding(blocks.update(rest) + blocks.finalize())

    return decrypt


def _mode(key: bytes, mode: str, padding: str) -> _Mode:
    if len(key) not in _KEY_BYTES:
        raise failure(
            "INVALID_PARAMETER_VALUE.AES_KEY_LENGTH",
            f"A key of AES has 16, 24 or 32 bytes, and this one has {len(key)}.",
        )
    found = _MODES.get(_folded(mode))
    if found is None or _folded(padding) not in (found.padding, "default"):
        raise failure(
            "UNSUPPORTED_FEATURE.AES_MODE", f"AES has no mode {mode} with the padding {padding}."
        )
    return found


def _folded(name: str) -> str:
    """Names that ``equalsIgnoreCase`` finds equal are equal."""
    return name.upper().lower()


def _checked_iv(mode: _Mode, iv: bytes) -> bytes:
    if iv and not mode.iv_bytes:
        raise failure(
            "UNSUPPORTED_FEATURE.AES_MODE_IV",
            f"The mode {mode.name.upper()} has no initialization vector.",
        )
    if iv and len(iv) != mode.iv_bytes:
        raise failure(
            "INVALID_PARAMETER_VALUE.AES_IV_LENGTH",
            f"An initialization vector of {mode.name.upper()} has {mode.iv_bytes} bytes, and this"
            f" one has {len(iv)}.",
        )
    return iv


def _refuse_aad(mode: _Mode, aad: bytes) -> None:
    if aad:
        raise failure(
            "UNSUPPORTED_FEATURE.AES_MODE_AAD",
            f"The mode {mode.name.upper()} does not authenticate additional data.",
        )


def _open_gcm(key: bytes, iv: bytes, rest: bytes, aad: bytes) -> bytes:
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    if len(rest) < _TAG_BYTES:  # Java's own complaint, which Spark passes on as it is
        raise java_error(
            "java.security.ProviderException",
            "javax.crypto.ShortBufferException: Output buffer invalid",
        )
    try:
        return AESGCM(key).decrypt(iv, rest, aad)
    except InvalidTag as error:
        raise _no_ciphertext("its tag does not match") from error


def _blocks(mode: _Mode, key: bytes, iv: bytes, *, encrypts: bool) -> CipherContext:
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    of_blocks: modes.CBC | modes.ECB = modes.CBC(iv) if mode is _CBC else modes.ECB()  # noqa: S305
    cipher = Cipher(algorithms.AES(key), of_blocks)
    return cipher.encryptor() if encrypts else cipher.decryptor()


def _without_padding(data: bytes) -> bytes:
    if not data:  # Java takes nothing for the ciphertext of nothing
        return data
    length = data[-1]
    if not 1 <= length <= _BLOCK_BYTES or data[-length:] != data[-1:] * length:
        raise _no_ciphertext("its padding is wrong; perhaps the key is another")
    return data[:-length]


def _no_ciphertext(why: str) -> TransformError:
    return failure(
        "INVALID_PARAMETER_VALUE.AES_CRYPTO_ERROR",
        f"A ciphertext cannot be decrypted: {why}.",
        "Correct the value or the key, or use try_aes_decrypt to get NULL instead.",
    )
