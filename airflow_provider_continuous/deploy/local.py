"""``local``: the query is a process of its own on this machine, ``python -m engine run``."""

from __future__ import annotations

from airflow_provider_continuous.deploy import processes
from airflow_provider_continuous.deploy.contract import Backend, DriverStatus, Handle
from airflow_provider_continuous.deploy.submission import Submission
from airflow_provider_continuous.deploy.worker_end import check_outlives_worker


class LocalProcess(Backend):
    """See the module.

    :param name: ``client`` for a spark-submit of before: to look at it, or to end it, is the same.
    """

    def __init__(self, name: str = "local") -> None:
        self.name = name

    def check(self) -> None:
        """Refuse a machine where the driver would end with the worker."""
        check_outlives_worker()

    def submit(self, submission: Submission, handle: Handle) -> Handle:
        """Start the process, detached from the task."""
        spec_path = submission.write_specification()
        command = [*submission.engine(), "run", str(spec_path), *submission.run_options]
        try:
            return processes.start(command, handle, submission.environment())
        except BaseException:
            spec_path.unlink(missing_ok=True)
            raise

    def find(self, handle: Handle) -> Handle:
        """Find the process by its name."""
        return processes.find(handle)

    def status(self, handle: Handle) -> DriverStatus:
        """Look whether the process runs."""
        return processes.status(handle)

    def kill(self, handle: Handle, *, hard: bool = False) -> bool:
        """Ask the driver to end: it drains, should it run by now."""
        return processes.end(handle, hard=hard)
