"""One query on a cluster, from its start to what is in its sink."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import psutil

from airflow_provider_continuous.deploy.submitted import SubmittedQuery
from airflow_provider_continuous.hooks.checkpoint import CheckpointHook
from airflow_provider_continuous.hooks.query import ContinuousQueryHook
from engine.checkpoint.checkpoint import CheckpointStatus
from engine.checkpoint.query_state import QueryState
from scripts.local_airflow.rest import wait_for
from tests.cluster.guide import ODD, WORD
from tests.sink_files import committed

WAIT_S = 900.0
_DYING = """
import json, sys
from airflow_provider_continuous.deploy import processes
from airflow_provider_continuous.deploy.notes import Notes
from airflow_provider_continuous.hooks.query import ContinuousQueryHook

conn_id, document = json.loads(sys.argv[1])
hook = ContinuousQueryHook(conn_id)
Notes.write = lambda *_: None
submitted = hook.submit(hook.specification(document))
submits = processes.child(submitted.handle)
if submits is not None:
    assert submits.wait() == 0, submitted.log_path.read_text()
    submitted.log_path.unlink()
"""


class OneQuery:
    """It counts from 0, 20 numbers a second.

    :param hook: with the connections that lead to the cluster.
    :ivar location: of its checkpoint.
    :param out: the sink's folder.
    """

    def __init__(self, hook: ContinuousQueryHook, location: str, out: Path) -> None:
        self.hook, self.location, self.out = hook, location, out
        self.document: dict[str, Any] = {
            "name": f"numbers ${{{WORD}}}",
            "source": {"format": "rate", "options": {"rowsPerSecond": 20, "numPartitions": 1}},
            "sql": "SELECT value, timestamp FROM source",
            "sink": {"format": "parquet", "options": {"path": str(out)}},
            "trigger": {"continuous": "500 milliseconds"},
            "checkpoint_location": location,
        }
        self._submitted: SubmittedQuery | None = None

    def start(self) -> tuple[SubmittedQuery, CheckpointStatus]:
        """Submit it, and wait until it runs."""
        submitted = self._submitted = self.hook.submit(self.hook.specification(self.document))
        try:
            status = self.hook.wait_until_started(submitted, WAIT_S)
        except BaseException:
            print(_said(submitted))
            raise
        self._assert_its_variable()
        return submitted, status

    def _assert_its_variable(self) -> None:
        """It is a part of the name, which the driver puts together."""
        checkpoint = CheckpointHook(self.location).checkpoint
        wait_for(lambda: checkpoint.look().summary.name, WAIT_S, "the name of the query", 0.1)
        assert checkpoint.look().summary.name == f"numbers {ODD}"

    def submit_and_die(self) -> None:
        """Submit it in a process of its own, which notes nothing of what it has started, and ends;
        what spark-submit has printed is gone too."""
        given = json.dumps([self.hook.continuous_conn_id, self.document])
        subprocess.run([sys.executable, "-c", _DYING, given], check=True, timeout=WAIT_S)

    @property
    def submitted(self) -> SubmittedQuery:
        """The last submission."""
        assert self._submitted is not None
        return self._submitted

    def end(self) -> None:
        """End what still runs of it, when a test has failed."""
        if self._submitted is not None and self.hook.find(self.location) is not None:
            print(_said(self._submitted))
            self._submitted.end()

    def await_epochs(self, more: int) -> int:
        """Wait for so many more; return the last one's number."""
        begun = self.hook.status(self.location).epoch

        def committed() -> bool:
            status = self.hook.status(self.location)
            assert not status.state.is_over, status.error
            return status.epoch >= begun + more

        wait_for(committed, WAIT_S, f"{more} epochs behind {begun}", 0.1)
        return self.hook.status(self.location).epoch

    def drain(self) -> None:
        """Ask it to drain, and see that it does."""
        self.hook.drain(self.location, by="a test")
        wait_for(lambda: self.hook.find(self.location) is None, WAIT_S, "the end of the query", 0.1)
        ended = self.hook.status(self.location)
        assert (ended.state, ended.error) == (QueryState.STOPPED, None)

    def assert_each_once(self) -> list[int]:
        """Return the numbers in the sink: all from 0, each once."""
        numbers = sorted(committed(self.out, "value"))
        assert numbers == list(range(len(numbers)))
        assert numbers
        return numbers


def _said(submitted: SubmittedQuery) -> str:
    """What the process has written, if one was started."""
    log = submitted.log_path
    return log.read_text()[-20_000:] if log.exists() else ""


def command_line(process: psutil.Process) -> list[str]:
    """Its words; of one that has ended, none."""
    try:
        return process.cmdline()
    except psutil.Error:
        return []


Query = TypeVar("Query", bound=OneQuery)


@contextmanager
def all_ended(make: Callable[[str], Query]) -> Iterator[Callable[[str], Query]]:
    """Yield what makes queries as ``make`` does; at the end, all of them are ended."""
    made: list[Query] = []

    def noted(what: str) -> Query:
        made.append(make(what))
        return made[-1]

    yield noted
    for each in made:
        each.end()
