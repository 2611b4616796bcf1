"""What the pages and ``airflow continuous list`` show: the queries below the configured roots."""

from __future__ import annotations

from functools import partial
from typing import Any

from airflow_provider_continuous import configuration
from airflow_provider_continuous.hooks.query import ContinuousQueryHook
from airflow_provider_continuous.observing.listing import LISTING
from airflow_provider_continuous.observing.places import place_of
from airflow_provider_continuous.observing.pool import POOL
from airflow_provider_continuous.view.overview import look_at
from airflow_provider_continuous.view.roots import Root, checkpoint_below
from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.query_state import QueryState

EPOCHS_SHOWN = 50
_TROUBLE_FIRST = (
    QueryState.FAILED,
    QueryState.LOST,
    QueryState.STALLED,
    QueryState.RESTARTING,
    QueryState.WAITING,
)


def shown_roots() -> list[Root]:
    """The configured roots and those of the connections of type ``continuous``.

    Runs where Airflow's database can be reached: in the api-server or on the command line.
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
        root = ContinuousQueryHook(str(conn_id)).settings.checkpoint_root
        if root:
            locations.setdefault(root)
    return [Root(location) for location in locations]


def all_queries(roots: list[Root]) -> dict[str, Any]:
    """Return what a look at every query has shown, now or a moment ago; those in trouble first.

    :return: ``{roots, queries, problems}``; a problem is a root or a checkpoint that cannot be
        read, ``{location, error}``.
    """
    found = LISTING.below(roots)
    queries = [overview.to_dict() for overview in found.queries.values()]
    return {
        "roots": [root.location for root in roots],
        "queries": sorted(queries, key=lambda query: (_rank(query["state"]), query["name"])),
        "problems": [
            {"location": location, "error": error} for location, error in found.errors.items()
        ],
    }


def query_details(roots: list[Root], location: str) -> dict[str, Any]:
    """Look at one query, with its last epochs, newest first, and its pins.

    :raises NotBelowRootsError: it is none that people may see.
    :raises CheckpointError: it cannot be read, or does not answer.
    """
    return POOL.within(place_of(location), partial(_details, roots, location))


def _details(roots: list[Root], location: str) -> dict[str, Any]:
    checkpoint = checkpoint_below(roots, location)
    reports = {report.get("batchId"): report for report in checkpoint.progress.read()}
    kept = checkpoint.epochs()
    epochs = [_epoch(checkpoint, epoch, reports.get(epoch, {})) for epoch in kept[-EPOCHS_SHOWN:]]
    return {
        **look_at(checkpoint, location).to_dict(),
        "kept_epochs": len(kept),
        "epochs": list(reversed(epochs)),
        "pins": [pin.to_dict() for pin in checkpoint.pins()],
    }


def _epoch(checkpoint: Checkpoint, epoch: int, report: dict[str, Any]) -> dict[str, Any]:
    latency = (report.get("latencyMs") or {}).get("readToWritten") or {}
    return {
        "epoch": epoch,
        "committed_at_ms": checkpoint.committed_at_ms(epoch),
        "rows": report.get("numInputRows"),
        "rows_per_second": report.get("inputRowsPerSecond"),
        "latency_p50_ms": latency.get("p50"),
        "latency_p99_ms": latency.get("p99"),
        "bad_records": report.get("numBadRecords"),
        "offsets": checkpoint.committed_offsets(epoch),
    }


def _rank(state: str) -> int:
    """Trouble, then what runs, then what has ended."""
    known = QueryState(state)
    if known in _TROUBLE_FIRST:
        return _TROUBLE_FIRST.index(known)
    return len(_TROUBLE_FIRST) + (0 if known.is_active else 1)
