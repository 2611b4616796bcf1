"""Which queries ``continuous top`` shows, and in which order. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from engine.commands.terminal.looks import QueryLook

_TROUBLE: Final = (
    "UNREADABLE", "NO ANSWER", "FAILED", "LOST", "STALLED", "RESTARTING", "WAITING"
)  # fmt: skip
_ENDED: Final = ("STOPPED", "UNKNOWN")


def _trouble(found: QueryLook) -> int:
    """The worst first, then what runs, then what has ended."""
    if found.state in _TROUBLE:
        return _TROUBLE.index(found.state)
    return len(_TROUBLE) + (found.state in _ENDED)


_Key = Callable[[QueryLook], float | int | None]
ORDERS: Final[dict[str, _Key | None]] = {
    "checkpoint": None,
    "trouble": _trouble,
    "lag": lambda found: None if found.lag is None else -found.lag,
    "last commit": lambda found: found.committed_at_ms,
    "rows/s": lambda found: None if found.rows_per_second is None else -found.rows_per_second,
    "p99": lambda found: None if found.p99_ms is None else -found.p99_ms,
    "restarts": lambda found: None if found.status is None else -found.status.restarts,
}
"""Name of an order → what is sorted by, lowest first; what is not known comes last. None: as they
were found. What somebody has to look at comes first: the largest lag, the oldest commit."""


def shown(looks: Sequence[QueryLook], order: str, text: str) -> list[QueryLook]:
    """:param order: one of :data:`ORDERS`.
    :param text: a part of name, checkpoint, state or error, in any case; empty: all.
    """
    wanted = text.strip().lower()
    found = [each for each in looks if not wanted or wanted in _texts(each)]
    key = ORDERS[order]
    if key is None:
        return found
    known = [(value, each) for each in found if (value := key(each)) is not None]
    unknown = [each for each in found if key(each) is None]
    return [each for _, each in sorted(known, key=lambda pair: pair[0])] + unknown


def _texts(found: QueryLook) -> str:
    return "\n".join((found.name, found.location, found.state, found.error or "")).lower()
