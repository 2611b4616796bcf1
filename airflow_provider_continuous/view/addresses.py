"""Locations within the addresses of pages: a folder's name need not be UTF-8."""

from __future__ import annotations

from urllib.parse import parse_qs, quote

from engine.redaction.texts import encodable


def quoted(text: str) -> str:
    """For an address; :func:`asked_for` reads it. What nothing can be named leads nowhere."""
    try:
        return quote(text.encode("utf-8", "surrogateescape"), safe="")
    except UnicodeEncodeError:
        return quote(encodable(text), safe="")


def asked_for(query: bytes, name: str) -> str:
    """What the query of an address says last; empty if it says nothing.

    :param query: as it was sent.
    """
    told = parse_qs(query.decode("ascii", "surrogateescape"), errors="surrogateescape")
    return told.get(name, [""])[-1]
