"""Which queries there are: those that a task has told of, and those below a root; each once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from airflow_provider_continuous.view.roots import (
    NotBelowRootsError,
    Place,
    Resolve,
    Root,
    lies_below,
    open_location,
    resolved_all,
)
from engine.checkpoint.checkpoint import Checkpoint

_SCHEMES: Final = {
    **dict.fromkeys(("s3a", "s3n"), "s3"),
    "gcs": "gs",
    **dict.fromkeys(("abfss", "az"), "abfs"),
    "webhdfs": "hdfs",
}
"""What opens the same store under another name."""


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


_Told = tuple[str, list[Owner]]
"""A location, and who has told of it."""


@dataclass(frozen=True)
class KnownQuery:
    """:param owners: the newest first; none of a query that only a root holds.
    :param rivals: who has told of what may be the same folder: by another connection, or another
        name of its scheme.
    :param hides_owners: there are others, whose DAGs the person who asks may not see.
    :param may_have_more: not everybody was looked at who may have told of it.
    """

    location: str
    owners: tuple[Owner, ...] = ()
    rivals: tuple[Owner, ...] = ()
    hides_owners: bool = False
    may_have_more: bool = False

    def open(self) -> Checkpoint:
        """Open its checkpoint.

        :raises ContinuousError: the storage cannot be opened.
        """
        return open_location(self.location)


def not_there(query: KnownQuery) -> NotBelowRootsError:
    """The error for a query without a checkpoint; told of one that may be seen only."""
    if not query.owners:
        return NotBelowRootsError()
    newest = query.owners[0]
    return NotBelowRootsError(
        f"Nothing is at {query.location}, of which the task {newest.task_id} of the DAG "
        f"{newest.dag_id} has told.",
        hint="Its start has failed, and the log of the task says why; or it is about to begin, or "
        "its checkpoint was removed.",
    )


def known_queries(
    below_roots: Iterable[str], owners: Iterable[Owner], resolve: Resolve = resolved_all
) -> list[KnownQuery]:
    """Return every query once, each as a root holds it, if one does.

    :param below_roots: locations of checkpoints.
    :param owners: in any order.
    :param resolve: tells where locations are.
    """
    owners, below_roots = list(owners), list(below_roots)
    places = _places([*(owner.location for owner in owners), *below_roots], resolve)
    told = _by_place(owners, places)
    for location in below_roots:
        if location in places:
            _, whose = told.get(places[location], (location, []))
            told[places[location]] = location, whose
    rivals = _by_folder(told)
    return [_known(place, found, rivals) for place, found in told.items()]


def find_one(
    roots: Iterable[Root],
    owners: Iterable[Owner],
    location: str,
    resolve: Resolve = resolved_all,
) -> KnownQuery:
    """Find the query of a checkpoint that somebody has named. Whether it is there is not looked at.

    :param resolve: tells where locations are.
    :raises NotBelowRootsError: no task has told of it, and it is below no root.
    """
    owners, roots = list(owners), list(roots)
    named = [*(owner.location for owner in owners), *(root.location for root in roots), location]
    places = _places(named, resolve)
    if location not in places:
        raise NotBelowRootsError()
    told, place = _by_place(owners, places), places[location]
    if place not in told:
        place = _with_connection(told, place) or place
    if place in told:
        return _known(place, told[place], _by_folder(told))
    tops = (places[root.location] for root in roots if root.location in places)
    if any(lies_below(place, top) for top in tops):
        return KnownQuery(location)
    raise NotBelowRootsError()


def _places(locations: Iterable[str], resolve: Resolve) -> dict[str, Place]:
    """Where each is that is a location: anybody may push any XCom."""
    opened = {location: location.rpartition("::")[2] for location in locations}
    found = resolve(opened.values())  # what is cached is the same
    return {
        location: (found[where][0], found[where][1].rstrip("/") or "/")
        for location, where in opened.items()
        if where in found
    }


def _by_place(owners: Iterable[Owner], places: Mapping[str, Place]) -> dict[Place, _Told]:
    """Each location that was told of, with who has; the newest first, and a task once."""
    found: dict[Place, _Told] = {}
    for owner in sorted(owners, key=lambda each: -each.started_at_ms):
        if owner.location not in places:
            continue
        _, whose = found.setdefault(places[owner.location], (owner.location, []))
        if not any(_task(each) == _task(owner) for each in whose):
            whose.append(owner)
    return found


def _by_folder(told: Mapping[Place, _Told]) -> dict[Place, list[Owner]]:
    """Who has told of which folder, by whatever connection: nobody here knows whether two of them
    open the same store."""
    found: dict[Place, list[Owner]] = {}
    for place, (_, whose) in told.items():
        found.setdefault(_folder(place), []).extend(whose)
    return found


def _folder(place: Place) -> Place:
    (_, scheme, host), path = place
    scheme = _SCHEMES.get(scheme, scheme)
    return (None, scheme, "" if scheme == "hdfs" else host), path


def _known(place: Place, told: _Told, by_folder: Mapping[Place, list[Owner]]) -> KnownQuery:
    location, whose = told
    rivals = tuple(each for each in by_folder[_folder(place)] if each not in whose)
    return KnownQuery(location, tuple(whose), rivals)


def _with_connection(told: Mapping[Place, _Told], place: Place) -> Place | None:
    """A task's link names the location as its operator has it, and the connection apart."""
    (conn_id, *store), path = place
    same = [at for at in told if conn_id is None and (list(at[0][1:]), at[1]) == (store, path)]
    return same[0] if len(same) == 1 else None


def _task(owner: Owner) -> tuple[str, str, int]:
    return owner.dag_id, owner.task_id, owner.map_index
