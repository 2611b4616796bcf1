"""Whose fault a failure of a task is, and that what is cleaned up behind it does not hide it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeAlias

from engine.base.listing import partitions_named
from engine.errors import ContinuousError
from engine.redaction.logs import log_failure

logger = logging.getLogger(__name__)
Whose: TypeAlias = Sequence[int] | str


class blaming:
    """Errors inside the block become errors of the engine that say whose they are.

    :param whose: the numbers of the partitions that it may be about, or the name of the task.
    """

    def __init__(
        self,
        blame: type[ContinuousError],
        doing: str,
        whose: Whose | Callable[[], Whose],
        epoch: int | None = None,
    ) -> None:
        self._blame, self._doing = blame, doing
        self._whose, self._epoch = whose, epoch

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None or not isinstance(error, Exception):
            return
        whose = self._whose() if callable(self._whose) else self._whose
        partition = None if isinstance(whose, str) else whose[0]
        if not isinstance(error, ContinuousError):
            named = whose if isinstance(whose, str) else partitions_named(whose)
            raise self._blame(
                f"{named.capitalize()} failed in {self._doing}: {type(error).__name__}: {error}",
                partition=partition,
                epoch=self._epoch,
            ) from error
        error.partition = partition if error.partition is None else error.partition
        error.epoch = self._epoch if error.epoch is None else error.epoch


@contextmanager
def undoing(undo: Callable[[], None], what: str) -> Iterator[None]:
    """Call ``undo`` if the block fails. Of two failures the first is told, and the other logged.

    :param what: names the call in the log.
    """
    try:
        yield
    except BaseException:
        try:
            undo()
        except Exception:
            log_failure(logger, "%s failed as well", what)
        raise


@contextmanager
def closing(close: Callable[[], None], what: str) -> Iterator[None]:
    """Call ``close`` in any case; see :func:`undoing`."""
    with undoing(close, what):
        yield
    close()
