"""The character sets that Spark knows, and Python's codecs of them."""

from __future__ import annotations

from typing import Final

CODECS: Final = {
    "US-ASCII": "ascii",
    "ISO-8859-1": "latin-1",
    "UTF-8": "utf-8",
    "UTF-16BE": "utf-16-be",
    "UTF-16LE": "utf-16-le",
    "UTF-16": "utf-16-be",
    "UTF-32": "utf-32-be",
}
"""By Spark's names in upper case; users may write them in any. Written without a mark."""
