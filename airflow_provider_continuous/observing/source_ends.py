"""Where a query's sources end by now, asked by tasks and triggers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow_provider_continuous.connections.document import connected
from airflow_provider_continuous.tasks.arguments import per_source
from engine.errors import SourceError
from engine.sources.latest import lag, latest_offset


class SourceEnds:
    """Sources as a query's specification has them; their connections are looked up once, and again
    after a failure: the password may be another one by then.

    :param source: ``format``, ``options`` and ``connection`` of the query's one source, or a list
        of those, None for one that does not matter.
    """

    def __init__(
        self, source: Mapping[str, Any] | Sequence[Mapping[str, Any] | None] | None
    ) -> None:
        self._given = per_source(source)
        self._found: list[Mapping[str, Any] | None] | None = None

    def latest(self) -> list[Any]:
        """Return the offset behind everything that is in each source now.

        :raises ConfigError: a source cannot be asked, or its connection not be used.
        :raises SourceError: it cannot be reached.
        """
        return [None if each is None else latest_offset(each) for each in self._sources()]

    def lag(self, committed: Sequence[Any]) -> int:
        """Return how far a query is behind all of them; see :func:`engine.sources.latest.lag`."""
        try:
            return lag(committed, self._sources())
        except SourceError:
            self._found = None
            raise

    def _sources(self) -> list[Mapping[str, Any] | None]:
        if self._found is None:
            self._found = [
                None if each is None else connected(each, "source", in_document=False)
                for each in self._given
            ]
        return self._found
