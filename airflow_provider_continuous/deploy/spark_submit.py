"""``spark-submit``: the query is an application of a cluster that the Spark provider knows.

In client mode its driver is a child of spark-submit on this machine; in cluster mode it is on the
cluster, whose manager is asked about it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from airflow_provider_continuous.deploy import processes
from airflow_provider_continuous.deploy.cluster import Cluster
from airflow_provider_continuous.deploy.contract import (
    Backend,
    DriverState,
    DriverStatus,
    Handle,
)
from airflow_provider_continuous.deploy.driver_log import end_of_driver
from airflow_provider_continuous.deploy.managers.contract import Manager
from airflow_provider_continuous.deploy.options import SubmitOptions
from airflow_provider_continuous.deploy.plan import make_plan
from airflow_provider_continuous.deploy.submission import (
    PROPERTIES_SUFFIX,
    SPEC_SUFFIX,
    Submission,
)
from airflow_provider_continuous.deploy.worker_end import check_outlives_worker


class SparkSubmit(Backend):
    """Starts spark-submit, detached from the task. What becomes of the driver is known to the
    modes, below."""

    def __init__(self, cluster: Cluster, options: SubmitOptions) -> None:
        self._cluster, self._options = cluster, options

    def submit(self, submission: Submission, handle: Handle) -> Handle:
        """Execute spark-submit.

        :raises ConfigError: the program is missing, or something that it would send along.
        """
        try:
            plan = make_plan(submission, self._cluster, self._options, self._marks(handle))
            return processes.start(plan.command, handle, plan.environment)
        except BaseException:
            for suffix in (SPEC_SUFFIX, PROPERTIES_SUFFIX):
                submission.path(suffix).unlink(missing_ok=True)
            raise

    def find(self, handle: Handle) -> Handle:
        """Find spark-submit by its name."""
        return processes.find(handle)

    def _marks(self, handle: Handle) -> Mapping[str, str]:
        """Settings that make a driver known to the cluster by the submission's name."""
        return {}


class ClientMode(SparkSubmit):
    """The driver is a child of spark-submit, on the machine that has submitted it."""

    name = "client"

    def check(self) -> None:
        """Refuse a machine where the driver would end with the worker."""
        check_outlives_worker()

    def status(self, handle: Handle) -> DriverStatus:
        """Look whether spark-submit runs."""
        return processes.status(handle)

    def kill(self, handle: Handle, *, hard: bool = False) -> bool:
        """Ask spark-submit and its driver to end."""
        return processes.end(handle, hard=hard)


class ClusterMode(SparkSubmit):
    """The driver is on the cluster, whose manager is asked about it.

    :param manager: how that is done.
    """

    def __init__(self, cluster: Cluster, options: SubmitOptions, manager: Manager) -> None:
        super().__init__(cluster, options)
        self._manager = manager
        self.name = cluster.manager

    def check(self) -> None:
        """Warn of what will keep a driver from being found."""
        self._manager.check()

    def find(self, handle: Handle) -> Handle:
        """Find the driver's id, in what spark-submit has written or by the submission's name."""
        handle = processes.find(handle)
        if handle.driver_id is None:
            handle = replace(handle, driver_id=self._manager.find(handle))
        return handle

    def status(self, handle: Handle) -> DriverStatus:
        """Ask the manager; before it knows the driver, look how the submission goes."""
        if handle.driver_id is not None:
            told = self._manager.status(handle.driver_id)
            sure = told.seen and told.state is not DriverState.UNKNOWN
            if sure or self._manager.id_is_proof:
                return told
        submits = processes.status(handle)
        if submits.state in (DriverState.RUNNING, DriverState.STARTING):
            return DriverStatus(DriverState.STARTING, f"{submits.detail} submits it")
        if submits.exit_code and (handle.driver_id is None or not told.seen):
            return submits
        if handle.driver_id is None:
            # It may have told the id since that was looked for, and ended.
            if (driver_id := self._manager.find(handle)) is not None:
                return self.status(replace(handle, driver_id=driver_id))
            never = submits.state is DriverState.ENDED and handle.pid is None
            return submits if never else DriverStatus(DriverState.UNKNOWN, "it has no id yet")
        is_open = told.state is DriverState.ENDED and submits.state is DriverState.UNKNOWN
        if is_open and handle.may_be_unseen:
            return DriverStatus(DriverState.UNKNOWN, f"{told.detail}, {submits.detail}")
        return told

    def kill(self, handle: Handle, *, hard: bool = False) -> bool:
        """Ask spark-submit to end, if it runs still, and the manager to kill the driver."""
        stopped = processes.end(handle, hard=hard)
        driver_id = handle.driver_id or self._manager.find(handle)
        if driver_id is None:
            return stopped
        return self._manager.kill(driver_id, handle) or stopped

    def last_words(self, handle: Handle) -> str:
        """Ask the manager for them; what Spark tells of its own end is left out."""
        driver_id = handle.driver_id or self._manager.find(handle)
        if driver_id is None:
            return ""
        return end_of_driver(self._manager.last_words(driver_id, handle))

    def _marks(self, handle: Handle) -> Mapping[str, str]:
        return self._manager.marks(handle)
