"""The last progress reports of a query: ``progress/recent``, one JSON line each, oldest first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engine.base.json_text import dump, load_object
from engine.checkpoint.storage.contract import Storage

_FILE = "progress/recent"


class ProgressFile:
    """See the module.

    :param limit: how many reports are kept.
    """

    def __init__(self, storage: Storage, limit: int = 100) -> None:
        assert limit > 0
        self._storage = storage
        self._limit = limit

    def write(self, reports: Sequence[dict[str, Any]]) -> None:
        """Replace what is there by the last of these reports. A crash of the machine may lose it.

        :raises ValueError: a report is not JSON.
        :raises CheckpointError: the file cannot be written.
        """
        lines = [dump(report) for report in reports[-self._limit :]]
        self._storage.replace(_FILE, "\n".join(lines).encode(), durable=False)

    def read(self) -> list[dict[str, Any]]:
        """The reports, oldest first; lines that a crash has torn are left out.

        :raises CheckpointError: the file cannot be read.
        """
        try:
            data = self._storage.read(_FILE)
        except FileNotFoundError:
            return []
        reports = []
        for line in data.split(b"\n"):
            try:
                reports.append(load_object(line))
            except ValueError:
                continue
        return reports
