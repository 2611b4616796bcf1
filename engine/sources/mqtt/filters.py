"""Filters of topics: what one may be. Source: MQTT 5.0, OASIS, sections 4.7 and 4.8.2."""

from __future__ import annotations

from typing import Final

FILTER_BYTES_MAX: Final = 65_535


def is_filter(text: str) -> bool:
    """Whether it is one, perhaps of a shared subscription: ``$share/NAME/FILTER``."""
    if "\0" in text or len(text.encode()) > FILTER_BYTES_MAX:
        return False
    if text.startswith("$share/"):
        _, name, text = (*text.split("/", 2), "")[:3]
        if not _is_plain(name) or name in ("", "+"):
            return False
    *levels, last = text.split("/")
    return bool(text) and all(map(_is_plain, levels)) and (last == "#" or _is_plain(last))


def _is_plain(level: str) -> bool:
    return level == "+" or not ("+" in level or "#" in level)
