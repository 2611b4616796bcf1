"""A search for checkpoints, to its end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.base.daemon_threads import DaemonThreads
from engine.checkpoint.find import AT_ONCE, CheckpointSearch


def searched(top: str, storage_options: Mapping[str, Any] | None = None) -> CheckpointSearch:
    with DaemonThreads(AT_ONCE, "test") as threads:
        search = CheckpointSearch(top, threads, storage_options)
        search.run()
    return search
