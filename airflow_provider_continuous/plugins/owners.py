"""Which tasks have started which queries: what they have told by XCom, from Airflow's database.

Runs in the api-server or on the command line, where that can be reached.
"""

from __future__ import annotations

from collections.abc import Mapping

from airflow_provider_continuous.tasks.query_note import KEY
from airflow_provider_continuous.view.known import Owner

OWNERS_MAX = 5_000
"""So many of the newest are looked at: a query that is started each hour counts each time."""


def told_owners() -> list[Owner]:
    """Return who has told of which query, the newest first."""
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    wanted = (
        select(
            XComModel.dag_id,
            XComModel.task_id,
            XComModel.run_id,
            XComModel.map_index,
            XComModel.value,
            XComModel.timestamp,
        )
        .where(XComModel.key == KEY)
        .order_by(XComModel.timestamp.desc())
        .limit(OWNERS_MAX)
    )
    with create_session() as session:
        rows = session.execute(wanted).all()
    return [
        Owner(dag_id, task_id, run_id, map_index, location, round(at.timestamp() * 1000))
        for dag_id, task_id, run_id, map_index, value, at in rows
        if (location := _location(value)) is not None
    ]


def _location(value: object) -> str | None:
    """What the XCom tells; None of one that is kept elsewhere, or that somebody else has pushed."""
    found = value.get("checkpoint_location") if isinstance(value, Mapping) else None
    return found if isinstance(found, str) else None
