"""Hashes, and what is encrypted."""

from __future__ import annotations

import pyarrow as pa

from tests.parity.columns import draw, one_of

_KEYS = (b"0123456789abcdef", b"0123456789abcdef01234567", bytes(range(32)), bytes(16))

COLUMNS = {
    "aes_key": (
        pa.binary(),
        draw((*_KEYS, *_KEYS, b"", b"short", bytes(33)), lambda rng: rng.choice(_KEYS)),
    ),
    # Less a byte: what is empty is random.
    "iv": (pa.binary(), one_of(bytes(11), bytes(range(15)), b"other bytes")),
    "mode": (pa.string(), one_of("GCM", "CBC", "ecb", "gcm", "CTR")),
    "padding": (pa.string(), one_of("DEFAULT", "none", "PKCS", "p\u212acs")),
    "clear": (
        pa.binary(),
        draw((b"", bytes(15), bytes(16), bytes(17)), lambda rng: rng.randbytes(rng.randint(0, 50))),
    ),
}
_KEY = "unhex('000102030405060708090a0b0c0d0e0f')"
_MODES = ("GCM", "CBC", "ECB")
_IVS = {"GCM": "binary('twelve bytes')", "CBC": _KEY, "ECB": "binary('')"}
_SEALED = {
    mode: f"aes_encrypt(clear, {_KEY}, '{mode}', 'DEFAULT', {_IVS[mode]})" for mode in _MODES
}
_TYPES = ["t", "b", "h", "i", "l", "f", "d", "dec", "big", "s", "raw", "bin", "dt", "ts", "ntz"]
_MANY = [
    "i, l, s",
    "s, null, d",
    "dec, bin, dt, t",
    "named_struct('a', i, 'b', s)",
    "null",
    "1, 'a'",
]

TEMPLATES = {
    "md5": ["md5(s)", "md5(raw)", "md5(bin)"],
    "sha1": ["sha1(s)", "sha(bin)"],
    "sha2": ["sha2(s, 256)", "sha2(bin, 224)", "sha2(s, 384)", "sha2(s, 512)", "sha2(s, n)"],
    "aes_encrypt": [
        "aes_encrypt(clear, aes_key, mode, padding, concat(iv, X'2a'))",
        "aes_encrypt(clear, aes_key, mode, padding, concat(iv, X'2a'), bin)",
        "aes_encrypt(clear, aes_key, 'CBC', 'DEFAULT', unhex('000102030405060708090a0b0c0d0e0f'))",
        "aes_encrypt(s, '0123456789abcdef', 'GCM', 'DEFAULT', binary('twelve bytes'), s2)",
        "aes_encrypt(clear, aes_key, 'ECB')",
        "aes_decrypt(aes_encrypt(clear, aes_key), aes_key)",
        "length(aes_encrypt(clear, aes_key, 'CBC'))",
    ],
    "aes_decrypt": [
        *(f"aes_decrypt({_SEALED[mode]}, {_KEY}, '{mode}')" for mode in _MODES),
        *(f"aes_decrypt({_SEALED[mode]}, aes_key, mode, padding)" for mode in _MODES),
        f"aes_decrypt({_SEALED['GCM']}, {_KEY}, 'GCM', 'NONE', clear)",
        f"aes_decrypt({_SEALED['ECB']}, {_KEY}, 'ECB', 'PKCS', clear)",
        f"aes_decrypt(substr({_SEALED['CBC']}, 1, m * 16), {_KEY}, 'CBC')",
        "aes_decrypt(clear, aes_key, mode, padding, bin)",
        *(f"aes_decrypt(clear, {_KEY}, '{mode}')" for mode in _MODES),
    ],
    "try_aes_decrypt": [
        f"try_aes_decrypt({_SEALED['CBC']}, {_KEY}, mode)",
        "try_aes_decrypt(clear, aes_key, mode, padding)",
        f"try_aes_decrypt({_SEALED['GCM']}, aes_key, 'GCM', 'DEFAULT', s)",
    ],
    "crc32": ["crc32(s)", "crc32(bin)"],
    "hash": [f"hash({columns})" for columns in _TYPES + _MANY],
    "xxhash64": [f"xxhash64({columns})" for columns in _TYPES + _MANY],
}
