"""What every way to run a query's driver can do; a backend a file.

A submission has a **handle**: plain JSON without secrets, which says where the driver is, or will
be. It is noted in the query's checkpoint before anything starts, and completed as more is known
(see :mod:`~airflow_provider_continuous.deploy.notes`). So whoever comes later, on any machine,
finds the submission again by the checkpoint, and waits for it or kills it instead of submitting
twice.

Who runs a query is told by the lease in its checkpoint, never by a handle. A handle matters until
the run holds that lease.
"""

from __future__ import annotations

import hashlib
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from airflow_provider_continuous.deploy.driver_log import DriverLog
from engine.checkpoint.process import Process
from engine.redaction.texts import encodable

if TYPE_CHECKING:
    from airflow_provider_continuous.deploy.submission import Submission

UNSEEN_MAX_S = 300.0
"""A submission by another machine, of which no driver is known, may come to run for so long."""

PROCESSES: Final = ("local", "client")
"""The backends whose drivers are processes of the machine that submits them."""


class DriverState(Enum):
    """Where a submission has come to."""

    STARTING = "starting"
    """It is being submitted, or waits for room on the cluster."""
    RUNNING = "running"
    """The driver's process runs."""
    ENDED = "ended"
    """It has ended, or was never started."""
    UNKNOWN = "unknown"
    """It cannot be told from here."""


@dataclass(frozen=True)
class DriverStatus:
    """One look at a driver.

    :param detail: the backend's own word, for people: ``SUBMITTED``, ``exit code 1``.
    :param exit_code: of a process on this machine that has ended, if it is known.
    :param seen: false if the cluster knows no such driver: it may never have, or not yet. Also if
        it never tells who asks from here: then it is UNKNOWN for good.
    """

    state: DriverState
    detail: str
    exit_code: int | None = None
    seen: bool = True


@dataclass(frozen=True)
class Handle:
    """A submission, in JSON.

    :param backend: ``local``, ``client``, ``standalone``, ``yarn``, ``kubernetes`` or
        ``spark-operator``.
    :param label: of the checkpoint, see :func:`label_of`; with ``number`` it names the submission.
    :param by: who has submitted it.
    :param submitted_at: seconds since 1970.
    :param log: of the process that was started, on the machine ``host``; ``log_position`` is the
        byte to go on reading at.
    :param previous_run_id: the run that held the checkpoint before, if there was one.
    :param host: the machine that has submitted it.
    :param pid: of the process that was started there, the driver or spark-submit; None before.
    :param started: which process of that number, see :class:`engine.checkpoint.process.Process`.
    :param submitter: the process that submits, as ``pid`` and ``started``.
    :param cluster: the master, and on Kubernetes the namespace, that it was submitted to; empty for
        a process.
    :param driver_id: the driver or application on the cluster, once it is known.
    :param run_id: the run, once it holds the checkpoint.
    :param ended: somebody has seen its end, or has killed it.
    :param stands_by: it is no driver yet: it waits for the lease, see :mod:`..standbys`.
    :param noted_at: when the storage has got its note, seconds since 1970, if that is known; no
        part of the note.
    :param document: what was submitted, as :mod:`..described` tells it; None: an
        earlier release has noted this.
    """

    backend: str
    label: str
    number: int
    by: str = ""
    submitted_at: float = 0.0
    log: str = ""
    log_position: int = 0
    previous_run_id: str | None = None
    host: str = ""
    pid: int | None = None
    started: str = ""
    submitter: tuple[int, str] = (0, "")
    cluster: str = ""
    driver_id: str | None = None
    run_id: str | None = None
    ended: bool = False
    document: Mapping[str, str] | None = None
    stands_by: bool = False
    noted_at: float = field(default=0.0, compare=False)

    @classmethod
    def read(cls, given: Mapping[str, Any]) -> Handle:
        """Read JSON; what another version has added is left out.

        :raises ValueError: it is no handle.
        """
        known = {each.name: given[each.name] for each in fields(cls) if each.name in given}
        known.pop("noted_at", None)
        try:
            handle = cls(**known)
            return replace(handle, submitter=(int(handle.submitter[0]), str(handle.submitter[1])))
        except (TypeError, LookupError) as error:
            raise ValueError(f"not a handle: {error}") from error

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        found = {**asdict(self), "submitter": list(self.submitter)}
        del found["noted_at"]
        return found

    @property
    def age_s(self) -> float:
        """Seconds since it was noted: the submitter's clock is asked only if the storage does not
        tell, as it may be any hour there."""
        return time.time() - (self.noted_at or self.submitted_at)

    @property
    def may_be_unseen(self) -> bool:
        """Whether it is so young that its driver may come to run though nobody knows of it."""
        return self.age_s <= UNSEEN_MAX_S

    @property
    def name(self) -> str:
        """What names this one submission wherever it gets a name: letters, digits and ``-``.

        With its time, for numbers begin anew in a checkpoint that was deleted.
        """
        return f"{self.label}-{self.number}-{int(self.submitted_at):x}"

    @property
    def is_process(self) -> bool:
        """Whether its driver is a process of the machine that has submitted it, not of a cluster's
        choice."""
        return self.backend in PROCESSES

    @property
    def process(self) -> Process | None:
        """The process that was started, None before."""
        return None if self.pid is None else Process(self.host, self.pid, self.started)


class Backend(ABC):
    """One way to run drivers. Makes no difference between the process that has submitted and one
    that has found a handle."""

    name: str
    """As :attr:`Handle.backend` has it."""

    def check(self) -> None:  # noqa: B027
        """Look whether a driver can be started from here at all.

        :raises ConfigError: it cannot.
        """

    @abstractmethod
    def submit(self, submission: Submission, handle: Handle) -> Handle:
        """Start a driver; return at once, with a handle that tells the process.

        :param handle: what is noted already.
        :raises ConfigError: something is missing; nothing was started.
        """

    @abstractmethod
    def find(self, handle: Handle) -> Handle:
        """Return a handle with what can be told by now besides: the process that was started under
        its name, the driver's id."""

    @abstractmethod
    def status(self, handle: Handle) -> DriverStatus:
        """Look once. Never raises for a cluster that does not answer: that is UNKNOWN."""

    @abstractmethod
    def kill(self, handle: Handle, *, hard: bool = False) -> bool:
        """Ask a driver to end; return at once.

        :param hard: a process that was asked before and has not ended.
        :returns: whether there was somebody to ask.
        """

    def logs(self, handle: Handle, since: int, *, ended: bool = False) -> tuple[list[str], int]:
        """Return new lines, without secrets, and where to go on; see :class:`DriverLog`. Of a
        process on another machine there are none."""
        log = DriverLog(Path(handle.log), since)
        return log.new_lines(ended=ended), log.position

    def last_words(self, handle: Handle) -> str:
        """Return the end of what a driver on a cluster has written there, without its secrets;
        empty where that cannot be read, or :meth:`logs` has it."""
        return ""


def label_of(checkpoint_url: str) -> str:
    """Return what marks all submissions of a checkpoint: 31 letters, digits and ``-``."""
    digest = hashlib.sha256(encodable(checkpoint_url.rstrip("/")).encode()).hexdigest()
    return f"continuous-{digest[:20]}"
