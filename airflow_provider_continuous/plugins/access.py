"""Who may see a query, and who may act on it: as Airflow's auth manager says about its DAGs.

A query with owners, tasks that have told of it, is seen by whoever may see one of their DAGs. Its
records and its log are shown, and it is acted on, as the logs and the task instances of all of
their DAGs are: one more that tells of it, which any DAG can, gives nobody a right. Of a query that
only a root holds Airflow knows no DAG: it is seen by whoever may see Airflow's jobs, and everything
else needs the right to edit all DAGs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Annotated, Any

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import (
    AccessView,
    DagAccessEntity,
    DagDetails,
)
from airflow.api_fastapi.core_api.security import get_user
from fastapi import Depends

from airflow_provider_continuous.view.known import KnownQuery


class Viewer:
    """A person whom Airflow has logged in."""

    def __init__(self, user: Any) -> None:
        self._user = user
        self._manager = get_auth_manager()

    @property
    def name(self) -> str:
        """For the log of a query that is asked to end."""
        return str(self._user.get_name())

    @property
    def sees_roots(self) -> bool:
        """Whether the person may see queries that no DAG owns, and the folders of all."""
        return bool(self._manager.is_authorized_view(access_view=AccessView.JOBS, user=self._user))

    @property
    def edits_all_dags(self) -> bool:
        """Whether the person may edit all DAGs."""
        return bool(self._manager.is_authorized_dag(method="PUT", user=self._user))

    def seen(self, queries: Iterable[KnownQuery]) -> list[KnownQuery]:
        """Return those that the person may see, each with the tasks of DAGs that they may see."""
        visible = self._manager.get_authorized_dag_ids(user=self._user)
        jobs = self.sees_roots
        found = []
        for query in queries:
            owners = tuple(each for each in query.owners if each.dag_id in visible)
            if owners if query.owners else jobs and self._sees_unowned(query):
                hides = any(each.dag_id not in visible for each in (*query.owners, *query.rivals))
                found.append(replace(query, owners=owners, hides_owners=hides))
        return found

    def _sees_unowned(self, query: KnownQuery) -> bool:
        """Of a query without a known owner: one that is not known may hide it from the person."""
        return not query.may_have_more or self.edits_all_dags

    def may_read_logs(self, query: KnownQuery) -> bool:
        """Whether the person may read what the query's driver and its records say."""
        return self._may(query, "GET", DagAccessEntity.TASK_LOGS)

    def may_act(self, query: KnownQuery) -> bool:
        """Whether the person may end the query, or change its checkpoint."""
        return self._may(query, "PUT", DagAccessEntity.TASK_INSTANCE)

    def _may(self, query: KnownQuery, method: Any, entity: DagAccessEntity) -> bool:
        if not query.owners:
            return self.edits_all_dags
        return not query.hides_owners and all(
            self._manager.is_authorized_dag(
                method=method, access_entity=entity, details=_details(dag_id), user=self._user
            )
            for dag_id in {owner.dag_id for owner in (*query.owners, *query.rivals)}
        )


def viewer(user: Annotated[Any, Depends(get_user)]) -> Viewer:
    """Return who asks; whom Airflow does not know gets 401."""
    return Viewer(user)


Person = Annotated[Viewer, Depends(viewer)]
"""The parameter of a route that has one."""


def _details(dag_id: str) -> DagDetails:
    from airflow.models.dag import DagModel

    team = getattr(DagModel, "get_team_name", None)  # Airflow 3.1 has no teams
    return DagDetails(id=dag_id, **({"team_name": team(dag_id)} if team else {}))
