"""Which tasks have started which queries: what they have told by XCom, from Airflow's database.

Runs in the api-server or on the command line, where that can be reached.
"""

from __future__ import annotations

from collections.abc import Mapping

from airflow_provider_continuous.tasks.query_note import KEY
from airflow_provider_continuous.view.known import Owner

OWNERS_MAX = 5_000
"""So many are looked at: the newest of each task, then the next of each. A task that tells each
minute leaves those of others, which may have told a year ago."""


def told_owners() -> list[Owner]:
    """Return who has told of which query, the newest first."""
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session
    from sqlalchemy import func, select

    task = XComModel.dag_id, XComModel.task_id, XComModel.map_index
    newest_first = func.row_number().over(partition_by=task, order_by=XComModel.timestamp.desc())
    told = (
        select(
            *task,
            XComModel.run_id,
            XComModel.value,
            XComModel.timestamp,
            newest_first.label("place"),
        )
        .where(XComModel.key == KEY)
        .subquery()
    )
    wanted = select(told).order_by(told.c.place, told.c.timestamp.desc()).limit(OWNERS_MAX)
    with create_session() as session:
        rows = session.execute(wanted).all()
    owners = [
        Owner(dag_id, task_id, run_id, map_index, location, round(at.timestamp() * 1000))
        for dag_id, task_id, map_index, run_id, value, at, _ in rows
        if (location := _location(value)) is not None
    ]
    return sorted(owners, key=lambda each: -each.started_at_ms)


def _location(value: object) -> str | None:
    """What the XCom tells; None of one that is kept elsewhere, or that somebody else has pushed."""
    found = value.get("checkpoint_location") if isinstance(value, Mapping) else None
    return found if isinstance(found, str) else None
