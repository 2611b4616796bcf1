"""Hashes."""

from __future__ import annotations

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
    "crc32": ["crc32(s)", "crc32(bin)"],
    "hash": [f"hash({columns})" for columns in _TYPES + _MANY],
    "xxhash64": [f"xxhash64({columns})" for columns in _TYPES + _MANY],
}
