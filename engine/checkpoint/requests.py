"""What is asked of a running query, by anyone who may write its checkpoint::

    control/requests/drain    {"kind":"drain","by":"...","run_id":null,"asked_at_ms":1795174660561}
    control/requests/stop
    control/requests/rescale  with as many tasks as :mod:`engine.checkpoint.rescaling` says

A request is for one run: the one it names or, if it names none, the one that holds the lease when
it is asked. A run clears what it finds when it takes the lease
(:meth:`engine.checkpoint.lease.Lease.acquire`), so a request to an earlier run does not end it.
``stop`` goes before ``drain``, and that before ``rescale``. A file with other content,
``touch control/requests/stop``, is a request by somebody who does not say who.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Literal

from engine.base.clock import Clock, SystemClock
from engine.base.json_text import dump, load_object
from engine.checkpoint.storage.contract import Storage

RequestKind = Literal["drain", "stop", "rescale"]
_KINDS: tuple[RequestKind, ...] = ("stop", "drain", "rescale")
_FOLDER = "control/requests"


class Requests:
    """See the module."""

    def __init__(self, storage: Storage, clock: Clock | None = None) -> None:
        self._storage = storage
        self._clock = clock or SystemClock()

    def ask(self, kind: RequestKind, by: str, run_id: str | None = None) -> None:
        """Ask a run to drain, stop or rescale. It looks about once a second; nothing waits here.

        :param by: who asks, for the log.
        :param run_id: the run that is meant; None: whichever runs now.
        :raises ValueError: there is no such request.
        :raises CheckpointError: the checkpoint cannot be written.
        """
        if kind not in _KINDS:
            *others, last = sorted(_KINDS)
            raise ValueError(f"There is no request {kind!r}, only {', '.join(others)} and {last}.")
        request = {"kind": kind, "by": by, "run_id": run_id, "asked_at_ms": self._clock.now_ms()}
        self._storage.replace(f"{_FOLDER}/{kind}", dump(request).encode())

    def pending(self, run_id: str, present: Collection[str] | None = None) -> RequestKind | None:
        """What is asked of this run: ``stop``, else ``drain``, else ``rescale``, else None.

        :param present: the checkpoint's files, if the caller has just looked.
        :raises CheckpointError: the checkpoint cannot be read.
        """
        for kind in self._kinds(present):
            if self._is_for(run_id, kind):
                return kind
        return None

    def pending_end(
        self, run_id: str, present: Collection[str] | None = None
    ) -> Literal["drain", "stop"] | None:
        """As :meth:`pending`, but None of a run that goes on with what is asked of it."""
        kind = self.pending(run_id, present)  # a rescale is told only where no end is asked for
        return None if kind == "rescale" else kind

    def clear(self, present: Collection[str] | None = None) -> None:
        """Forget all requests.

        :param present: the checkpoint's files, if the caller has just looked.
        :raises CheckpointError: the checkpoint cannot be written.
        """
        for kind in self._kinds(present):
            self._storage.delete(f"{_FOLDER}/{kind}")

    def forget(self, kind: RequestKind) -> None:
        """Forget a request that was heard, of a run that goes on.

        :raises CheckpointError: the checkpoint cannot be written.
        """
        self._storage.delete(f"{_FOLDER}/{kind}")

    def clear_for(self, run_id: str, lost_id: str | None, present: Collection[str]) -> None:
        """Forget what was asked of earlier runs, as another one begins.

        :param lost_id: the run that this one goes on for: it ends as that was asked to.
        :param present: the checkpoint's files, as the run that begins has seen them.
        :raises CheckpointError: the checkpoint cannot be read or written.
        """
        asked = None if lost_id is None else self.pending_end(lost_id, present)
        if asked is not None:
            self.ask(asked, by=f"who has asked run {lost_id}", run_id=run_id)
            present = set(present) - {f"{_FOLDER}/{asked}"}
        self.clear(present)

    def _kinds(self, present: Collection[str] | None) -> list[RequestKind]:
        """Of the requests that are there; ``stop`` first."""
        if present is None:
            present = {f"{_FOLDER}/{file.name}" for file in self._storage.list(_FOLDER)}
        return [kind for kind in _KINDS if f"{_FOLDER}/{kind}" in present]

    def _is_for(self, run_id: str, kind: RequestKind) -> bool:
        try:
            request: dict[str, Any] = load_object(self._storage.read(f"{_FOLDER}/{kind}"))
        except FileNotFoundError:
            return False
        except ValueError:
            return True
        return request.get("run_id") in (None, run_id)
