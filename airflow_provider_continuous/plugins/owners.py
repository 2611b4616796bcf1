"""Which tasks have started which queries: what they have told by XCom, from Airflow's database.

Runs in the api-server or on the command line, where that can be reached.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from airflow_provider_continuous.tasks.query_note import KEY
from airflow_provider_continuous.view.known import Owner

OWNERS_MAX = 5_000
"""So many are listed: the newest of each task, then the next of each. A task that tells each
minute leaves those of others, which may have told a year ago."""


class Told(NamedTuple):
    """:param owners: the newest first.
    :param is_cut: there are more than :data:`OWNERS_MAX`: who is missing may own any query.
    """

    owners: list[Owner]
    is_cut: bool


def told_owners() -> Told:
    """Return who has told of which query, for a list. Rights go by :func:`of_every_dag`."""
    from airflow.models.xcom import XComModel
    from sqlalchemy import select

    told = _ranked(XComModel.dag_id, XComModel.task_id, XComModel.map_index)
    in_turn = select(told).order_by(told.c.place, told.c.timestamp.desc())
    rows = _rows(in_turn.limit(OWNERS_MAX + 1))
    return Told(_owners(rows[:OWNERS_MAX]), len(rows) > OWNERS_MAX)


def of_every_dag() -> list[Owner]:
    """Return who has told of which query, the newest first: of each DAG and location the newest
    task. None of these is left out, however many notes one DAG makes: rights follow from them."""
    from airflow.models.xcom import XComModel
    from sqlalchemy import select

    # Its text: not every database tells whether two JSON objects are equal.
    told = _ranked(XComModel.dag_id, XComModel.value["checkpoint_location"].as_string())
    return _owners(_rows(select(told).where(told.c.place == 1)))


def _ranked(*group: Any) -> Any:
    """All that was told, with its place in its group; the newest has the first."""
    from airflow.models.xcom import XComModel
    from sqlalchemy import func, select

    newest_first = func.row_number().over(partition_by=group, order_by=XComModel.timestamp.desc())
    return (
        select(
            XComModel.dag_id,
            XComModel.task_id,
            XComModel.run_id,
            XComModel.map_index,
            XComModel.value,
            XComModel.timestamp,
            newest_first.label("place"),
        )
        .where(XComModel.key == KEY)
        .subquery()
    )


def _rows(wanted: Any) -> list[Any]:
    from airflow.utils.session import create_session

    with create_session() as session:
        return list(session.execute(wanted).all())


def _owners(rows: Iterable[Any]) -> list[Owner]:
    owners = [
        Owner(dag_id, task_id, run_id, map_index, location, round(at.timestamp() * 1000))
        for dag_id, task_id, run_id, map_index, value, at, _ in rows
        if (location := _location(value)) is not None
    ]
    return sorted(owners, key=lambda each: -each.started_at_ms)


def _location(value: object) -> str | None:
    """What the XCom tells; None of one that is kept elsewhere, or that somebody else has pushed."""
    found = value.get("checkpoint_location") if isinstance(value, Mapping) else None
    return found if isinstance(found, str) else None
