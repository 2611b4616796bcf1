"""What a task tells about its query, and where one that may not have told has it: an XCom, by which
the page knows the query and its owner.

It is pushed before the query is started, so a query is on the page for as long as it has a
checkpoint, whether that lies below a root or not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow.sdk.execution_time.xcom import XCom

from airflow_provider_continuous.connections.location import CheckpointLocation, of_connection

if TYPE_CHECKING:
    from airflow.sdk import Context

KEY = "continuous_query"


def tell_query(context: Context, location: str, storage_conn_id: str | None) -> None:
    """Tell where the query of this task has its checkpoint.

    :param storage_conn_id: the connection that opens it, unless the location names it.
    """
    parsed = CheckpointLocation.parse(location, storage_conn_id)
    context["ti"].xcom_push(KEY, {"checkpoint_location": parsed.text})


def location_of(operator: object, ti_key: object = None) -> str | None:
    """Return where a task's query has its checkpoint, None if that cannot be told yet.

    :param ti_key: of its task instance, or that itself: looks into what the task has told as well.
        Only so a query is found whose specification is a file, or that lives below a root.
    """
    location = getattr(operator, "checkpoint_location", None)
    spec: Any = getattr(operator, "spec", None)
    if not location and isinstance(spec, Mapping):
        location = spec.get("checkpoint_location")
    if not location and ti_key is not None:
        location = _told(ti_key)
    many = location is not None and "*" in str(location)  # no page shows those of a pattern
    if not location or many:
        return None
    return of_connection(str(location), getattr(operator, "continuous_conn_id", None))


def _told(ti_key: Any) -> str | None:
    """What a task has told before it started its query or, if it did not, has returned."""
    for name in (KEY, "return_value"):
        told = XCom.get_value(ti_key=ti_key, key=name)
        if isinstance(told, Mapping) and told.get("checkpoint_location"):
            return str(told["checkpoint_location"])
    return None
