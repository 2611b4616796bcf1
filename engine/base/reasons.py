"""Why a query is refused: all reasons together."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from engine.errors import ConfigError, ContinuousError, SourceError

T = TypeVar("T")


class Reasons:
    """Gathers them.

    :ivar errors: in the order in which they were heard, none twice.
    """

    def __init__(self) -> None:
        self.errors: list[ContinuousError] = []

    def hear(self, ask: Callable[[], T]) -> T | None:
        """What is returned; None, and the reason is kept, if it is refused."""
        try:
            return ask()
        except ContinuousError as exc:
            self.add(exc)
        except Exception as exc:  # of somebody else's code
            self.add(SourceError(f"{type(exc).__name__}: {exc}"))
        return None

    def raise_any(self) -> None:
        """:raises ConfigError: there is one; several are told in one. A single one is raised as it
        is."""
        if len(self.errors) == 1:
            raise self.errors[0]
        if self.errors:
            listed = "\n  ".join(map(str, self.errors))
            raise ConfigError(f"The query is refused, for {len(self.errors)} reasons:\n  {listed}")

    def add(self, error: ContinuousError) -> None:
        """One more, if it is not there yet."""
        if str(error) not in map(str, self.errors):
            self.errors.append(error)
