"""A collector that is away, or refuses: told once, and once more when it takes metrics again.

OpenTelemetry's SDK has several lines for each export that fails, one per try, for as long as that
lasts; some of its releases a whole trace.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

logger = logging.getLogger(__name__)
_SAID: Final[ContextVar[list[str] | None]] = ContextVar("said", default=None)


class Outage:
    """Of one query's metrics.

    :param query: its name, for the log.
    :param of: the SDK's logger. What others of the process send is not kept from it.
    """

    def __init__(self, query: str, of: logging.Logger) -> None:
        self._query = query
        self._is_told = False
        of.addFilter(_is_others)

    @contextmanager
    def listening(self) -> Iterator[list[str]]:
        """Keep what the SDK says meanwhile, in this thread, from the log."""
        said: list[str] = []
        token = _SAID.set(said)
        try:
            yield said
        finally:
            _SAID.reset(token)

    def failed(self, reason: str) -> None:
        """An export has."""
        if not self._is_told:
            self._is_told = True
            logger.warning(
                "the metrics of %s are not sent, and tried again; told when they are: %s",
                self._query,
                reason,
            )

    def sent(self) -> None:
        """An export has come through."""
        if self._is_told:
            self._is_told = False
            logger.warning("the metrics of %s are sent again", self._query)


def _is_others(record: logging.LogRecord) -> bool:
    said = _SAID.get()
    if said is None:
        return True
    said.append(record.getMessage())
    return False
