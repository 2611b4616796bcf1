"""How large checkpoints are: measured now and then, since a state may have very many files."""

from __future__ import annotations

import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from concurrent.futures import wait
from dataclasses import dataclass
from typing import Any

from airflow_provider_continuous.observing.places import place_of
from airflow_provider_continuous.observing.pool import POOL
from engine.checkpoint.checkpoint import Checkpoint
from engine.redaction.logs import redact

EVERY_S = 60.0
PATIENCE_S = 0.3
"""So long a page waits for a size that was never measured; the next look shows it."""
_REMEMBERED_MAX = 1000


@dataclass(frozen=True)
class _Measured:
    at_s: float
    told: dict[str, Any]


class Sizes:
    """What was measured last of each checkpoint. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[str, _Measured] = OrderedDict()

    def of(self, location: str, opened: Callable[[], Checkpoint]) -> dict[str, Any] | None:
        """Return ``{bytes, parts, measured_at_ms, error}``; None: it is being measured.

        ``parts`` are ``{folder, files, bytes}``, the largest first; the folder of the files right
        in the checkpoint is ``""``. With an error, why it cannot be measured, there are none.

        :param opened: returns the checkpoint.
        """
        known = self._of(location)
        if known is None or time.monotonic() - known.at_s >= EVERY_S:
            look = POOL.submit(
                place_of(location), lambda: self._measure(location, opened), ("size", location)
            )
            wait([look], 0 if known else PATIENCE_S)
            known = self._of(location)
        return known.told if known else None

    def _of(self, location: str) -> _Measured | None:
        with self._lock:
            return self._known.get(location)

    def _measure(self, location: str, opened: Callable[[], Checkpoint]) -> None:
        parts, error = [], None
        try:
            parts = _parts(opened())
        except Exception as exc:  # the connection's, too: the rest of the page needs no size
            error = redact(str(exc) or type(exc).__name__)
        told = {
            "bytes": None if error else sum(part["bytes"] for part in parts),
            "parts": parts,
            "measured_at_ms": round(time.time() * 1000),
            "error": error,
        }
        with self._lock:
            self._known[location] = _Measured(time.monotonic(), told)
            self._known.move_to_end(location)
            while len(self._known) > _REMEMBERED_MAX:
                self._known.popitem(last=False)


def _parts(checkpoint: Checkpoint) -> list[dict[str, Any]]:
    files: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for name, size in checkpoint.storage.files_below("").items():
        folder = name.partition("/")[0] if "/" in name else ""
        files[folder] += 1
        sizes[folder] += size
    return [
        {"folder": folder, "files": files[folder], "bytes": size}
        for folder, size in sizes.most_common()
    ]


SIZES = Sizes()
"""Those of this process."""
