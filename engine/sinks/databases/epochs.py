"""What a database has of a query: one row, changed by the transaction that takes an epoch's rows.

::

    continuous_epochs(query_id, target, generation, timeline, epoch, changed_at)

Its lock makes drivers wait for each other, also for what a dead one has left to the server: only
then does a driver see whether an epoch is there. A generation that is lower than the row's has lost
the query.

An epoch without rows leaves the row as it is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from engine.base.failpoints import reach
from engine.checkpoint.sink_context import SinkContext
from engine.clients.errors import ClientErrors
from engine.errors import (
    ConfigError,
    ContinuousError,
    SinkCommitRejectedError,
    SinkCommitUnknownError,
    SinkUnavailableError,
    StaleRunError,
)

EPOCHS: Final = "continuous_epochs"


@dataclass(frozen=True)
class Noted:
    """The row of a query; ``epoch`` is -1 before the first one with rows."""

    generation: int
    timeline: int
    epoch: int

    def newest(self, context: SinkContext) -> int:
        """The newest epoch that a run finds, -1 if there is none of its timeline."""
        return self.epoch if self.timeline == context.timeline else -1


class Epochs(ABC):
    """The row, over a connection of its own.

    :cvar owner: the sink, for errors.
    :cvar errors: of its client.
    :param database: for errors.
    :param table: that the query writes to, as its options name it.
    """

    owner: ClassVar[str]
    errors: ClassVar[ClientErrors]
    _connection: Any = None

    def __init__(self, database: str, table: str) -> None:
        self.database, self.table = database, table
        self._target: str | None = None

    # -- what each client does in its own way ------------------------------------------------------

    @abstractmethod
    def find_target(self) -> str:
        """Schema and name of the table that the query writes to, as the database has them: the
        same for all queries and both sinks, however their options spell them."""

    @property
    @abstractmethod
    def place(self) -> str:
        """The table that has the row, for errors."""

    @abstractmethod
    def connected(self) -> Any:
        """The connection; it raises the client's error if there is none to be had."""

    @abstractmethod
    def forget(self) -> None:
        """Speak to the database anew. A transaction that is open ends."""

    @abstractmethod
    def look(self, context: SinkContext) -> Noted | None:
        """The row, None if there is none."""

    @abstractmethod
    def others(self, context: SinkContext) -> int:
        """How many other queries write to the table, also by the note of an earlier release, which
        may have it as their options spell it."""

    @abstractmethod
    def make(self, context: SinkContext) -> None:
        """Make the row if there is none.

        :raises ConfigError: the database has no transactions.
        """

    @abstractmethod
    def locked(self, context: SinkContext) -> AbstractContextManager[Noted | None]:
        """A transaction that has the row for itself, committed at the end."""

    @abstractmethod
    def note(self, context: SinkContext, epoch: int) -> None:
        """Inside of :meth:`changing`: the newest epoch that the table has."""

    @abstractmethod
    def delete_behind(self, epoch: int, column: str) -> None:
        """Inside of :meth:`changing`: delete the rows of later epochs, if the table is there.

        :param column: has the epoch of a row.
        """

    @abstractmethod
    def is_refusal(self, error: Any) -> bool:
        """Whether a transaction that ended with this error has surely changed nothing."""

    # -- what all do -------------------------------------------------------------------------------

    @property
    def target(self) -> str:
        """The table that the query writes to, as the row has it."""
        if self._target is None:
            self._target = self.find_target()
        return self._target

    def check_run(self, context: SinkContext) -> Noted | None:
        """The row, None if there is none.

        :raises StaleRunError: a later run has written.
        """
        noted = self.look(context)
        if noted is not None:
            self._check_run(context, noted)
        return noted

    def begin(self, context: SinkContext) -> None:
        """Shut out earlier runs, and make the row if there is none.

        :raises ConfigError: the database has no transactions.
        :raises StaleRunError: the run has lost the query.
        """
        self._target = self.find_target()  # it may have been asked for when there was no table
        self.make(context)
        with self.changing(context) as noted:
            self.note(context, noted.newest(context))

    def commit(self, context: SinkContext, epoch: int, take: Callable[[], None]) -> None:
        """Make the rows of an epoch the table's; nothing changes if they are already.

        :param take: does that, within the transaction.
        :raises StaleRunError: the run has lost the query.
        :raises SinkUnavailableError: the epoch is not committed.
        :raises SinkCommitUnknownError: it may be.
        """
        with self.changing(context, epoch) as noted:
            reach("database.locked")
            if noted.newest(context) >= epoch:
                return
            take()
            reach("database.taken")
            self.note(context, epoch)
        reach("database.committed")

    @contextmanager
    def changing(self, context: SinkContext, epoch: int | None = None) -> Iterator[Noted]:
        """A transaction that has the row for itself.

        :raises ContinuousError: as :meth:`commit`.
        """
        is_at_end = False
        try:
            with self.locked(context) as noted:
                if noted is None:
                    raise ConfigError(
                        self.says(f"has no row of query {context.query_id} in {self.place}."),
                        hint="Restore the table from where it was, or start the query with a "
                        "checkpoint of its own.",
                    )
                self._check_run(context, noted)
                yield noted
                is_at_end = True
        except self.errors.base() as exc:
            self.forget()
            unknown = is_at_end and not self.is_refusal(exc)
            with self.speaking(
                "cannot be written to",
                SinkCommitUnknownError if unknown else SinkUnavailableError,
                SinkCommitUnknownError if unknown else SinkCommitRejectedError,
                hint="Mend it in the database: the epoch is prepared, and the next start of the "
                "query commits it.",
                epoch=epoch,
            ):
                raise exc
        except BaseException:
            self.forget()
            raise

    def speaking(
        self,
        what: str,
        unavailable: type[ContinuousError] = SinkUnavailableError,
        final: type[ContinuousError] = SinkCommitRejectedError,
        *,
        hint: str | None = None,
        epoch: int | None = None,
    ) -> AbstractContextManager[None]:
        """See :class:`ClientErrors`.

        :param what: the database does not do: ``cannot be written to``.
        """
        return self.errors.speaking(unavailable, final, self.says(what), hint=hint, epoch=epoch)

    def says(self, what: str) -> str:
        """A sentence of an error."""
        return f"{self.owner}: {self.database} {what}"

    def _check_run(self, context: SinkContext, noted: Noted) -> None:
        if noted.generation > context.generation:
            raise StaleRunError(
                f"This run of query {context.query_id} is generation {context.generation}, and "
                f"generation {noted.generation} has written to {self.target}.",
                hint="The other run goes on from the last committed epoch. If there is none, the "
                "checkpoint is an older copy of itself: start the query with a new one.",
            )

    def __del__(self) -> None:
        self.forget()  # nobody tells the driver's side of a sink that the query has ended

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_connection": None}
