"""Which queries there are: those that a task has told of, and those below a root; each once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from airflow_provider_continuous.view.roots import (
    NotBelowRootsError,
    Place,
    Root,
    open_location,
    resolved,
)
from engine.checkpoint.checkpoint import Checkpoint
from engine.errors import ConfigError


@dataclass(frozen=True)
class Owner:
    """A task that has started a query, or adopted it.

    :param started_at_ms: when it told of it, since 1970.
    """

    dag_id: str
    task_id: str
    run_id: str
    map_index: int
    location: str
    started_at_ms: int


@dataclass(frozen=True)
class KnownQuery:
    """:param owners: the newest first; none of a query that only a root holds.
    :param hides_owners: there are others, whose DAGs the person who asks may not see.
    """

    location: str
    owners: tuple[Owner, ...] = ()
    hides_owners: bool = False

    def open(self) -> Checkpoint:
        """Open its checkpoint.

        :raises ContinuousError: the storage cannot be opened.
        """
        return open_location(self.location)


def known_queries(below_roots: Iterable[str], owners: Iterable[Owner]) -> list[KnownQuery]:
    """Return every query once, each as a root holds it, if one does.

    :param below_roots: locations of checkpoints.
    :param owners: in any order.
    """
    told = _by_place(owners)
    for location in below_roots:
        _, whose = told.get(_place(location), (location, []))
        told[_place(location)] = location, whose
    return [KnownQuery(location, tuple(whose)) for location, whose in told.values()]


def find_one(roots: Iterable[Root], owners: Iterable[Owner], location: str) -> KnownQuery:
    """Find the query of a checkpoint that somebody has named.

    :raises NotBelowRootsError: no task has told of it and it is below no root, or it is not there:
        who asks does not learn which.
    """
    told = _by_place(owners)
    try:
        place = _place(location)
    except ConfigError:
        raise NotBelowRootsError() from None
    found = told.get(place) or _with_connection(told, place)
    if found is not None:
        query = KnownQuery(found[0], tuple(found[1]))
    elif any(root.holds(location) for root in roots):
        query = KnownQuery(location)
    else:
        raise NotBelowRootsError()
    if not query.open().exists():
        raise NotBelowRootsError()
    return query


def _by_place(owners: Iterable[Owner]) -> dict[Place, tuple[str, list[Owner]]]:
    """Each location that was told of, with who has; the newest first, and a task once."""
    found: dict[Place, tuple[str, list[Owner]]] = {}
    for owner in sorted(owners, key=lambda each: -each.started_at_ms):
        try:
            place = _place(owner.location)
        except ConfigError:
            continue  # anybody may push such an XCom
        _, whose = found.setdefault(place, (owner.location, []))
        if not any(_task(each) == _task(owner) for each in whose):
            whose.append(owner)
    return found


def _with_connection(
    told: dict[Place, tuple[str, list[Owner]]], place: Place
) -> tuple[str, list[Owner]] | None:
    """A task's link names the location as its operator has it, and the connection apart."""
    (conn_id, *store), path = place
    same = [at for at in told if conn_id is None and (list(at[0][1:]), at[1]) == (store, path)]
    return told[same[0]] if len(same) == 1 else None


def _task(owner: Owner) -> tuple[str, str, int]:
    return owner.dag_id, owner.task_id, owner.map_index


def _place(location: str) -> Place:
    inner, path = resolved(location)
    return inner, path.rstrip("/") or "/"
