"""How errors of a client become the engine's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from engine.errors import ContinuousError


@dataclass(frozen=True)
class ClientErrors:
    """What the errors of a client mean.

    :param base: the class of all of them; asked only when there is one, for it loads the client.
    :param is_passing: whether time may mend one.
    :param reason: what one says, in one line.
    :param check: what to look at while time may mend it.
    """

    base: Callable[[], type[Exception]]
    is_passing: Callable[[Any], bool]
    reason: Callable[[Any], str]
    check: str

    @contextmanager
    def speaking(
        self,
        unavailable: type[ContinuousError],
        final: type[ContinuousError],
        what: str,
        *,
        hint: str | None = None,
        epoch: int | None = None,
    ) -> Iterator[None]:
        """Errors of the client inside the block become errors of the engine.

        :param unavailable: for what time may mend.
        :param final: for what it will not; ``hint`` tells what does.
        :param what: was tried: ``PostgreSQL at host:5432/shop cannot be written to``.
        """
        try:
            yield
        except self.base() as exc:
            kind, todo = (unavailable, self.check) if self.is_passing(exc) else (final, hint)
            raise kind(f"{what}: {self.reason(exc)}.", hint=todo, epoch=epoch) from exc
