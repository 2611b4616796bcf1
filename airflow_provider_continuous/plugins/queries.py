"""What the pages and ``airflow continuous list`` show: the queries that tasks have told of, and
those below the configured roots."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, replace
from typing import Any

from airflow_provider_continuous import configuration
from airflow_provider_continuous.hooks.query import ContinuousQueryHook
from airflow_provider_continuous.observing.listing import LISTING
from airflow_provider_continuous.observing.places import place_of
from airflow_provider_continuous.observing.pool import POOL
from airflow_provider_continuous.observing.resolving import RESOLVER
from airflow_provider_continuous.plugins.owners import of_every_dag, told_owners
from airflow_provider_continuous.plugins.selecting import rank
from airflow_provider_continuous.view.known import (
    KnownQuery,
    Owner,
    find_one,
    known_queries,
    not_there,
)
from airflow_provider_continuous.view.roots import NotBelowRootsError, Root
from engine.redaction.logs import redact

UNREADABLE = "UNREADABLE"
"""The state of a query, or of a root, that cannot be read now."""
Seen = Callable[[list[KnownQuery]], list[KnownQuery]]
"""Picks the queries that a person may see."""


def shown_roots(problems: list[dict[str, str]]) -> list[Root]:
    """The configured roots and those of the connections of type ``continuous``.

    Runs where Airflow's database can be reached: in the api-server or on the command line.

    :param problems: gets ``{location, error}`` of each connection that cannot be used.
    """
    from airflow.models import Connection
    from airflow.utils.session import create_session
    from sqlalchemy import select

    locations = dict.fromkeys(configuration.checkpoint_roots())
    kind = ContinuousQueryHook.conn_type
    with create_session() as session:
        names = session.scalars(select(Connection.conn_id).where(Connection.conn_type == kind))
        # Connections of the environment or of a vault cannot be listed; the default one is known.
        conn_ids = dict.fromkeys([*names, ContinuousQueryHook.default_conn_name])
    for conn_id in conn_ids:
        try:
            root = ContinuousQueryHook(str(conn_id)).settings.checkpoint_root
        except Exception as error:  # whatever somebody has written into it, or its vault says
            told = {"location": f"connection {conn_id}", "error": redact(str(error))}
            problems.append(told)
            continue
        if root:
            locations.setdefault(root)
    return [Root(location) for location in locations]


def all_queries(
    roots: list[Root],
    owners: Iterable[Owner] = (),
    seen: Seen = list,
) -> dict[str, Any]:
    """Return what a look at every query has shown, now or a moment ago; those in trouble first.

    :param owners: which tasks have told of which.
    :param seen: picks those that are to be shown, and of their tasks those that are to be named.
    :return: ``{roots, absent_roots, queries, absent, problems}``; roots are absent to which nothing
        was ever written; absent is ``{location, owners}`` where tasks have told of a query and
        nothing is, the newest first; a problem is ``{location, error}`` of a root or a checkpoint
        that cannot be read.
    """
    below = LISTING.below(roots)
    known = known_queries(below.queries, owners, RESOLVER.places)
    apart = LISTING.at(each.location for each in known if each.location not in below.queries)
    found, errors = {**below.queries, **apart.queries}, {**below.errors, **apart.errors}
    not_there = set(apart.absent)
    whose = {query.location: _told(query) for query in seen(known)}
    hidden = {query.location for query in known} - whose.keys()
    queries = [
        {**overview.to_dict(), "owners": whose[location]}
        for location, overview in found.items()
        if location in whose
    ]
    return {
        "roots": [root.location for root in roots],
        "absent_roots": below.absent,
        "queries": sorted(queries, key=lambda query: (rank(query["state"]), query["name"])),
        "absent": [
            {"location": query.location, "owners": whose[query.location]}
            for query in known
            if query.location in not_there and query.location in whose
        ],
        "problems": [
            {"location": location, "error": error, "owners": whose.get(location, [])}
            for location, error in errors.items()
            if location not in hidden
        ],
    }


def look_at_all(seen: Seen = list) -> dict[str, Any]:
    """As :func:`all_queries`, for all that Airflow's database and configuration tell of."""
    problems: list[dict[str, str]] = []
    told = told_owners()

    def seen_of_told(queries: list[KnownQuery]) -> list[KnownQuery]:
        return seen([replace(query, may_have_more=told.is_cut) for query in queries])

    listing = all_queries(shown_roots(problems), told.owners, seen_of_told)
    return {**listing, "problems": [*problems, *listing["problems"]]}


def find_query(location: str, seen: Seen = list) -> KnownQuery:
    """As :func:`named_query`, of all that Airflow's database and configuration tell of."""
    # Those of a list, for it names all tasks of a DAG; and whoever is missing there.
    owners = [*told_owners().owners, *of_every_dag()]
    return named_query(shown_roots([]), owners, location, seen)


def named_query(
    roots: list[Root], owners: Iterable[Owner], location: str, seen: Seen = list
) -> KnownQuery:
    """Find the query of a checkpoint that somebody has named.

    :param seen: as for :func:`all_queries`.
    :raises NotBelowRootsError: it is none that people may see, or it is not there: who asks does
        not learn which, unless they may see a task that has told of it.
    :raises ContinuousError: it cannot be opened; told of one that may be seen only.
    """
    found = seen([find_one(roots, owners, location, RESOLVER.places)])
    if not found:
        raise NotBelowRootsError()
    (query,) = found
    key = "exists", query.location
    if not POOL.within(place_of(query.location), lambda: query.open().exists(), key=key):
        raise not_there(query)
    return query


def rows_of(listing: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the queries, and what cannot be read among them; each once. One that was read earlier
    has the figures of then, and ``seen_as``, its state of then."""
    seen = {query["checkpoint_location"]: query for query in listing["queries"]}
    dark = [
        {
            "name": str(problem["location"]).rstrip("/").rpartition("/")[2],
            "checkpoint_location": problem["location"],
            "owners": problem.get("owners", []),
            **(earlier := seen.pop(problem["location"], {})),
            "state": UNREADABLE,
            "seen_as": earlier.get("state"),
            "message": None,
            "error": problem["error"],
        }
        for problem in listing["problems"]
    ]
    return [*seen.values(), *dark]


def _told(query: KnownQuery) -> list[dict[str, Any]]:
    return [asdict(owner) for owner in query.owners]
