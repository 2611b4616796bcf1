"""UTF-8 as Java reads it where it is malformed.

Source: ``java.lang.String``, ``decodeUTF8_UTF16``.
"""

from __future__ import annotations

import codecs


def decoded(octets: bytes) -> str:
    """The text; U+FFFD for each malformed sequence, of which an encoded surrogate is one."""
    return octets.decode("utf-8", "java-replace")


def _replace(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    octets, start = error.object, error.start
    if octets[start] == 0xED and 0xA0 <= next(iter(octets[start + 1 : start + 2]), 0) <= 0xBF:
        third = octets[start + 2 : start + 3]
        if not third:
            return "\ufffd", start + 2
        if 0x80 <= third[0] <= 0xBF:
            return "\ufffd", start + 3
        return "\ufffd", start + 2
    return "\ufffd", error.end


codecs.register_error("java-replace", _replace)
