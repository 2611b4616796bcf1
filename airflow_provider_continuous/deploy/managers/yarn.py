"""YARN's ResourceManager, over its REST interface: an application is tagged with its submission's
name, and so found again by it.

The address is that of the Spark provider: ``yarn_resourcemanager_webapp_address`` in the extra of
the Spark connection, several with commas. Kerberos is not spoken: such a manager answers 401, and a
driver is UNKNOWN.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from airflow_provider_continuous.deploy.contract import DriverState, DriverStatus, Handle
from airflow_provider_continuous.deploy.managers.contract import (
    REFUSES,
    WORDS_BYTES_MAX,
    Manager,
    ManagerError,
    ask,
    ask_for_text,
    both_ends,
    said,
    web_address,
)

_ID = re.compile(r"\bapplication_\d+_\d{4,}\b")
_LOGS = re.compile(r"(https?://[^/]+)/.*\b(container_[\w]+)")
_CONTENTS, _END = "LogContents:\n", "\nEnd of LogType:"
_STATES = {
    "NEW": DriverState.STARTING,
    "NEW_SAVING": DriverState.STARTING,
    "SUBMITTED": DriverState.STARTING,
    "ACCEPTED": DriverState.STARTING,
    "RUNNING": DriverState.RUNNING,
    "FINISHED": DriverState.ENDED,
    "FAILED": DriverState.ENDED,
    "KILLED": DriverState.ENDED,
}


class Yarn(Manager):
    """A ResourceManager, or several of which one is active.

    :param address: of their web pages, with commas; None: nothing can be asked.
    """

    id_is_proof = False  # spark-submit tells it before it uploads what the application needs

    def __init__(self, address: str | None) -> None:
        given = (address or "").split(",")
        self._apps = [f"{web_address(each)}/ws/v1/cluster/apps" for each in given if each.strip()]

    def marks(self, handle: Handle) -> Mapping[str, str]:
        """A tag."""
        return {"spark.yarn.tags": handle.name}

    def find(self, handle: Handle) -> str | None:
        """Look in what spark-submit has written, then ask for the tag."""
        found = said(handle, _ID)
        if found is not None or not self._apps:
            return found
        try:
            told = self._told(f"?applicationTags={handle.name}")
        except ManagerError:
            return None
        apps = (told.get("apps") or {}).get("app") or []
        return max((str(app["id"]) for app in apps if _ID.fullmatch(str(app["id"]))), default=None)

    def status(self, driver_id: str) -> DriverStatus:
        """Ask for the application."""
        if not self._apps:
            why = "the Spark connection has no yarn_resourcemanager_webapp_address"
            return DriverStatus(DriverState.UNKNOWN, f"{driver_id}: {why}", seen=False)
        try:
            app = self._told(f"/{driver_id}").get("app") or {}
        except ManagerError as error:
            if error.status == 404:
                why = f"YARN does not know {driver_id}"
                return DriverStatus(DriverState.ENDED, why, seen=False)
            told = error.status not in REFUSES
            return DriverStatus(DriverState.UNKNOWN, f"{driver_id}: {error}", seen=told)
        state = str(app.get("state"))
        return DriverStatus(
            _STATES.get(state, DriverState.UNKNOWN),
            f"{driver_id} is {state}, {app.get('finalStatus')}",
        )

    def kill(self, driver_id: str, handle: Handle) -> bool:
        """Ask for its end."""
        if not self._apps or not _ID.fullmatch(driver_id):
            return False
        try:
            self._told(f"/{driver_id}/state", put={"state": "KILLED"})
        except ManagerError:
            return False
        return True

    def last_words(self, driver_id: str, handle: Handle) -> str:
        """Ask the node that has run the application's last attempt, while it keeps its logs.

        Source: ``NMWebServices`` of Hadoop 3; it puts lines around what the file has.
        """
        if not self._apps:
            return ""
        try:
            app = self._told(f"/{driver_id}").get("app") or {}
            where = _LOGS.match(str(app.get("amContainerLogs")))
            if where is None:
                return ""
            node, container = where.groups()
            logs = f"{node}/ws/v1/node/containerlogs/{container}"
            return both_ends(lambda stream: _end_of(f"{logs}/{stream}"))
        except ManagerError:
            return ""

    def _told(self, of: str, *, put: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """What the active one says: one that stands by sends on, one that is down says nothing.

        :raises ManagerError: it refuses, or none answers.
        """
        problems = []
        for apps in self._apps:
            try:
                return ask(f"{apps}{of}", put=put)
            except ManagerError as error:
                if error.status is not None and error.status < 500:
                    raise
                problems.append(str(error))
        raise ManagerError("; ".join(problems))


def _end_of(log: str) -> str:
    found = ask_for_text(f"{log}?size=-{WORDS_BYTES_MAX}")
    return found.rpartition(_CONTENTS)[2].partition(_END)[0]
