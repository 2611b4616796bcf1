"""A table's log: what a query has committed to it, and how it commits more.

Each commit tells two things of the query, in the table itself: the generation of the run that
commits, and the epoch with its timeline. So the table tells which epochs it has, and that a later
run, or a rewind, has been here. Epochs come again after a rewind, in another timeline.

Before each commit the table is looked at anew; what another run of the query commits between the
look and the commit makes the commit fail, and is looked at again. What others commit, appends,
compactions, deletions, does not stand in the way: it is tried again on top of it.

An epoch without rows leaves the table as it is. One commit may have several epochs: all of them
come into the table by it, or none.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import ClassVar, Final, Generic, Protocol, TypeVar

from engine.base.failpoints import reach
from engine.checkpoint.sink_context import SinkContext
from engine.errors import (
    ContinuousError,
    SinkCommitUnknownError,
    SinkUnavailableError,
    StaleRunError,
)

TRIES_MAX: Final = 20
"""So often others may be quicker in a row."""


class Facts(Protocol):
    """What a table is to its writers."""

    @property
    def id(self) -> str:
        """Changes if it is dropped and made again."""


T = TypeVar("T")
X = TypeVar("X", bound=Facts)
R = TypeVar("R", contravariant=True)
F = TypeVar("F", contravariant=True)


class TableLog(ABC, Generic[T, X, R, F]):
    """Of a table ``T`` with the facts ``X``, for rows ``R`` in files ``F``. Not safe to use from
    several threads.

    :cvar owner: of the sink, for errors.
    :cvar hint: what to do when the table cannot be reached.
    :ivar where: the table, for people.
    """

    owner: ClassVar[str]
    hint: ClassVar[str]
    where: str

    # -- the table ------------------------------------------------------------------------------

    @abstractmethod
    def another(self) -> TableLog[T, X, R, F]:
        """The same for another thread."""

    @abstractmethod
    def exists(self) -> bool:
        """:raises SinkUnavailableError: it cannot be told."""

    @abstractmethod
    def create(self, rows: R) -> None:
        """Make the table if it is not there.

        :raises SinkUnavailableError: that failed.
        """

    @abstractmethod
    def add_columns(self, rows: R, names: Sequence[str]) -> None:
        """:param names: columns of the rows that the table does not have yet.
        :raises SinkUnavailableError: that failed."""

    @abstractmethod
    def look(self) -> T:
        """The table as it is now.

        :raises SinkUnavailableError: it cannot be read.
        """

    @abstractmethod
    def forget(self) -> None:
        """Look at the table as if for the first time: it may be another one."""

    @abstractmethod
    def strays(self, is_one: Callable[[str], bool]) -> list[str]:
        """Files at the table's place that are no part of it now.

        :param is_one: of which of them is to be told.
        :raises SinkUnavailableError: they cannot be listed.
        """

    @abstractmethod
    def remove_file(self, path: str) -> None:
        """Remove a data file; it may be gone."""

    def facts(self) -> X:
        """What the table is.

        :raises SinkUnavailableError: it cannot be read.
        """
        return self.facts_of(self.look())

    @abstractmethod
    def facts_of(self, table: T) -> X:
        """The same, of a table that was looked at."""

    # -- what a query has in it -----------------------------------------------------------------

    def latest(self, context: SinkContext) -> int | None:
        """The newest epoch with rows that the query has committed in its present timeline. It stays
        so, though the run that has committed it may have died before it could see to that.

        :raises SinkUnavailableError: the table cannot be read.
        """
        table = self.look()
        latest = self._epoch(table, context)
        if latest is not None:
            self._settle_found(table)
        return latest

    def check_run(self, context: SinkContext) -> None:
        """:raises StaleRunError: a later run of the query, or a rewind, has written to the table.
        :raises SinkUnavailableError: it cannot be read."""
        self._check_run(self.look(), context)

    @abstractmethod
    def commit(
        self,
        context: SinkContext,
        epochs: Mapping[int, Sequence[F]],
        check: Callable[[X], None],
    ) -> None:
        """Commit epochs together, those that are not committed already.

        :param epochs: in their order, each with its files, of which it has some.
        :param check: sees that the files fit the table as it is now.
        :raises StaleRunError: the run has lost the query.
        :raises SinkCommitRejectedError: the table does not take it.
        :raises SinkUnavailableError: the table cannot be written; nothing is committed.
        :raises SinkCommitUnknownError: they may be committed.
        """

    def _missing(
        self, table: T, context: SinkContext, epochs: Mapping[int, Sequence[F]]
    ) -> Mapping[int, Sequence[F]]:
        """Those of them that the table does not have: an earlier run may wake up and commit the
        first of them, in a commit of its own."""
        latest = self._epoch(table, context)
        return {epoch: files for epoch, files in epochs.items() if latest is None or epoch > latest}

    @abstractmethod
    def fence(self, context: SinkContext) -> None:
        """Shut out earlier runs, also those that sleep in the middle of a commit: it fails when
        they wake up.

        :raises ContinuousError: as :meth:`commit`.
        """

    @abstractmethod
    def _epoch(self, table: T, context: SinkContext) -> int | None: ...

    @abstractmethod
    def _generation(self, table: T, context: SinkContext) -> int | None: ...

    @abstractmethod
    def _is_overtaken(self, error: Exception) -> bool:
        """Whether others were quicker, so that surely nothing was committed.

        :raises SinkCommitRejectedError: the table does not take it, now or later.
        """

    def _settle_found(self, table: T) -> None:
        """What was found in the table stays so."""

    def _settle(self, table: T) -> None:
        """What was committed on top of this stays so."""

    def _write(
        self,
        context: SinkContext,
        commit: Callable[[T], None],
        is_done: Callable[[T], bool] = lambda table: False,
        check: Callable[[X], None] = lambda facts: None,
    ) -> None:
        """As :meth:`change`, by a run that has not lost the query."""

        def is_ours_and_done(table: T) -> bool:
            self._check_run(table, context)
            return is_done(table)

        self.change(commit, is_ours_and_done, check)

    def change(
        self,
        commit: Callable[[T], None],
        is_done: Callable[[T], bool] = lambda table: False,
        check: Callable[[X], None] = lambda facts: None,
    ) -> None:
        """Commit on top of what others commit meanwhile.

        :param commit: makes a commit that fails if any other was made since the look which would
            make it wrong.
        :raises ContinuousError: as :meth:`commit`.
        """
        reason: Exception | None = None
        for _ in range(TRIES_MAX):
            table = self.look()
            if is_done(table):
                self._settle_found(table)
                return
            check(self.facts_of(table))
            reach("tableLog.before")
            try:
                commit(table)
            except ContinuousError:  # it was not even tried
                raise
            except Exception as exc:
                if self._is_overtaken(exc):
                    reason = exc
                    continue
                # If it arrives late, the next commit of the query finds it, or makes it fail.
                if not self._is_done_after(exc, is_done):
                    raise self.unavailable("cannot be written to", exc) from exc
            reach("tableLog.after")
            self._settle(table)
            reach("tableLog.checked")
            return
        assert reason is not None
        raise self.unavailable(f"has changed {TRIES_MAX} times meanwhile", reason) from reason

    def _is_done_after(self, error: Exception, is_done: Callable[[T], bool]) -> bool:
        self.forget()
        try:
            return is_done(self.look())
        except SinkUnavailableError as exc:
            raise SinkCommitUnknownError(
                f"{exc.message} It may have taken the commit that failed before: "
                f"{reason_of(error)}",
                hint=exc.hint,
            ) from error

    def _check_run(self, table: T, context: SinkContext) -> None:
        found = self._generation(table, context)
        if found is not None and found > context.generation:
            raise StaleRunError(
                f"This run of query {context.query_id} is generation {context.generation}, and "
                f"generation {found} has written to the table {self.where}.",
                hint="The other run goes on from the last committed epoch. If there is none, the "
                "checkpoint is an older copy of itself: start the query with a new one.",
            )

    # -- errors ---------------------------------------------------------------------------------

    @contextmanager
    def speaking(self, what: str) -> Iterator[None]:
        """Errors of the lake's own client become the engine's."""
        try:
            yield
        except ContinuousError:
            raise
        except Exception as exc:
            self.forget()
            raise self.unavailable(what, exc) from exc

    def unavailable(self, what: str, exc: Exception) -> SinkUnavailableError:
        return SinkUnavailableError(
            f"{self.owner}: the table {self.where} {what}: {reason_of(exc)}", hint=self.hint
        )


def reason_of(exc: Exception) -> str:
    """The first line: what follows are debugging values of the client."""
    lines = str(exc).strip().splitlines() or [type(exc).__name__]
    return lines[0].rstrip(". ") + "."
