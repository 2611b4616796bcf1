"""Spark's standalone master: a driver's id is in spark-submit's output, its state on the master's
web page, as JSON, and it is killed by Spark's client of the master. ``spark-submit`` runs that, for
it reads spark-defaults.conf: there is the secret of a cluster with ``spark.authenticate``.

``spark-submit --status`` and ``--kill`` do the same where the master's REST server is on, which is
off by default, and each look would start a Java machine. The master tells no names of drivers that
wait: one whose submission died before its id was noted is found in the output on that machine.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from airflow_provider_continuous.deploy import processes
from airflow_provider_continuous.deploy.contract import DriverState, DriverStatus, Handle
from airflow_provider_continuous.deploy.managers.contract import (
    WORDS_BYTES_MAX,
    Manager,
    ManagerError,
    ask,
    ask_for_text,
    both_ends,
    said,
    web_address,
)

WEB_PORT = 8080
"""Of a master's web page, unless it is set."""
_CLIENT = (
    *("--master", "local", "--deploy-mode", "client", "--conf", "spark.jars.packages="),
    *("--class", "org.apache.spark.deploy.Client", "spark-internal"),
)
"""Whatever spark-defaults.conf says of applications: no deploy mode that goes with no ``local``,
and no packages, for which Ivy would ask the network first."""
_ID = re.compile(r"\bdriver-\d{14}-\d{4,}\b")
_STATES = {
    "SUBMITTED": DriverState.STARTING,
    "RELAUNCHING": DriverState.STARTING,
    "RUNNING": DriverState.RUNNING,
    "FINISHED": DriverState.ENDED,
    "FAILED": DriverState.ENDED,
    "KILLED": DriverState.ENDED,
    "ERROR": DriverState.ENDED,
}


class StandaloneMaster(Manager):
    """One master, or several of which one is active.

    :param master: ``spark://a:7077,b:7077``.
    :param web: the addresses of their web pages, with commas; None: port 8080 of each.
    :param spark_submit: returns the path of this program; called for a kill alone.
    :param environment: returns the whole environment of that program.
    """

    def __init__(
        self,
        master: str,
        web: str | None,
        spark_submit: Callable[[], str],
        environment: Callable[[], Mapping[str, str]],
    ) -> None:
        self._master, self._spark_submit, self._environment = master, spark_submit, environment
        self._pages = [web_address(page) for page in (web or "").split(",") if page.strip()]
        self._pages = self._pages or [_page_of(each) for each in master.split(",")]

    def find(self, handle: Handle) -> str | None:
        """Look for the id in what spark-submit has written."""
        return said(handle, _ID)

    def status(self, driver_id: str) -> DriverStatus:
        """Ask the active master."""
        try:
            driver = _driver(self._told(), driver_id)
        except ManagerError as error:
            why = f"{error}. Say where its web page is: spark_submit.master_web"
            return DriverStatus(DriverState.UNKNOWN, f"{driver_id}: {why}")
        if driver is None:
            return DriverStatus(DriverState.ENDED, f"the master does not know {driver_id}")
        state = _STATES.get(driver["state"], DriverState.UNKNOWN)
        return DriverStatus(state, f"{driver_id} is {driver['state']}")

    def kill(self, driver_id: str, handle: Handle) -> bool:
        """Start Spark's program for it, which outlives this process."""
        if not _ID.fullmatch(driver_id):
            return False
        command = [self._spark_submit(), *_CLIENT, "kill", self._master, driver_id]
        # Whose submission has no log here has no folder for this either.
        output = f"{handle.log}.kill" if handle.log else os.devnull
        processes.launch(command, Path(output), self._environment())
        return True

    def last_words(self, driver_id: str, handle: Handle) -> str:
        """Ask the web page of the worker that has run it.

        Source: ``LogPage`` of Spark's worker, whose first line says which part that is.
        """
        try:
            told = self._told()
            driver = _driver(told, driver_id) or {}
            for worker in told.get("workers", ()):
                if worker["id"] == driver.get("worker"):
                    page = f"{str(worker['webuiaddress']).rstrip('/')}/log/?driverId={driver_id}"
                    return both_ends(partial(_end_of, page))
        except ManagerError:
            pass
        return ""

    def _told(self) -> dict[str, Any]:
        """What the active master says.

        :raises ManagerError: none does.
        """
        problems = []
        for page in self._pages:
            try:
                told = ask(f"{page}/json/")
            except ManagerError as error:
                problems.append(str(error))
                continue
            if told.get("status") == "ALIVE":
                return told
            problems.append(f"the master of {page} is {told.get('status')}")
        raise ManagerError("; ".join(problems))


def _end_of(page: str, stream: str) -> str:
    found = ask_for_text(f"{page}&logType={stream}&byteLength={WORDS_BYTES_MAX}")
    head, _, text = found.partition("\n")
    return text if head.startswith("==== Bytes ") else ""


def _driver(told: Mapping[str, Any], driver_id: str) -> Mapping[str, Any] | None:
    drivers = [*told.get("activedrivers", ()), *told.get("completeddrivers", ())]
    return next((driver for driver in drivers if driver["id"] == driver_id), None)


def _page_of(master: str) -> str:
    parts = urlsplit(master if "://" in master else f"spark://{master}")
    return f"http://{parts.netloc.rpartition(':')[0] or parts.netloc}:{WEB_PORT}"
