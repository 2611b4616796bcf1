"""What a task tells about its query: an XCom, by which the page knows the query and its owner.

It is pushed before the query is started, so a query is on the page for as long as it has a
checkpoint, whether that lies below a root or not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_continuous.connections.location import CheckpointLocation

if TYPE_CHECKING:
    from airflow.sdk import Context

KEY = "continuous_query"


def tell_query(context: Context, location: str, storage_conn_id: str | None) -> None:
    """Tell where the query of this task has its checkpoint.

    :param storage_conn_id: the connection that opens it, unless the location names it.
    """
    parsed = CheckpointLocation.parse(location, storage_conn_id)
    context["ti"].xcom_push(KEY, {"checkpoint_location": parsed.text})
