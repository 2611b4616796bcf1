"""YARN's ResourceManager, over its REST interface: an application is tagged with its submission's
name, and so found again by it.

The address is that of the Spark provider: ``yarn_resourcemanager_webapp_address`` in the extra of
the Spark connection. Kerberos is not spoken: such a manager answers 401, and a driver is UNKNOWN.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

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
    """A ResourceManager.

    :param address: of its web page; None: nothing can be asked.
    """

    id_is_proof = False  # spark-submit tells it before it uploads what the application needs

    def __init__(self, address: str | None) -> None:
        self._apps = f"{web_address(address)}/ws/v1/cluster/apps" if address else None

    def marks(self, handle: Handle) -> Mapping[str, str]:
        """A tag."""
        return {"spark.yarn.tags": handle.name}

    def find(self, handle: Handle) -> str | None:
        """Look in what spark-submit has written, then ask for the tag."""
        found = said(handle, _ID)
        if found is not None or self._apps is None:
            return found
        try:
            told = ask(f"{self._apps}?applicationTags={handle.name}")
        except ManagerError:
            return None
        apps = (told.get("apps") or {}).get("app") or []
        return max((str(app["id"]) for app in apps if _ID.fullmatch(str(app["id"]))), default=None)

    def status(self, driver_id: str) -> DriverStatus:
        """Ask for the application."""
        if self._apps is None:
            why = "the Spark connection has no yarn_resourcemanager_webapp_address"
            return DriverStatus(DriverState.UNKNOWN, f"{driver_id}: {why}", seen=False)
        try:
            app = ask(f"{self._apps}/{driver_id}").get("app") or {}
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
        if self._apps is None or not _ID.fullmatch(driver_id):
            return False
        try:
            ask(f"{self._apps}/{driver_id}/state", put={"state": "KILLED"})
        except ManagerError:
            return False
        return True

    def last_words(self, driver_id: str, handle: Handle) -> str:
        """Ask the node that has run the application's last attempt, while it keeps its logs.

        Source: ``NMWebServices`` of Hadoop 3; it puts lines around what the file has.
        """
        if self._apps is None:
            return ""
        try:
            app = ask(f"{self._apps}/{driver_id}").get("app") or {}
            where = _LOGS.match(str(app.get("amContainerLogs")))
            if where is None:
                return ""
            node, container = where.groups()
            logs = f"{node}/ws/v1/node/containerlogs/{container}"
            return both_ends(lambda stream: _end_of(f"{logs}/{stream}"))
        except ManagerError:
            return ""


def _end_of(log: str) -> str:
    found = ask_for_text(f"{log}?size=-{WORDS_BYTES_MAX}")
    return found.rpartition(_CONTENTS)[2].partition(_END)[0]
