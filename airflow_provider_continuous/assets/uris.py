"""``continuous://`` URIs: the output of a query as an Airflow asset.

::

    continuous://orders                      the query of this name
    continuous://connection/lake/orders      lake:orders, of this name in the root of the connection
    continuous://s3/lake/checkpoints/orders  the query of the checkpoint s3://lake/checkpoints/orders
    continuous://file/data/checkpoints/orders                             /data/checkpoints/orders

A connection in a location (``s3://my_conn@lake/...``) is no part of the URI: it says how to get
there, not which query it is.
"""

from __future__ import annotations

import posixpath
import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, quote, urlsplit

from airflow.sdk import Asset, AssetWatcher

from airflow_provider_continuous.connections.location import CheckpointLocation
from airflow_provider_continuous.tasks.arguments import duration

if TYPE_CHECKING:
    from airflow.providers.common.compat.openlineage.facet import Dataset as OpenLineageDataset

SCHEME = "continuous"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_OF_CONNECTION = "connection"
"""In the place of a storage's scheme; none has this name."""


def query_asset(
    query: str,
    *,
    name: str | None = None,
    every: int | None = None,
    at_most_every_s: float | None = None,
    complete_every: timedelta | None = None,
    from_epoch: int | None = None,
    storage_conn_id: str | None = None,
    poll_interval_s: float = 1.0,
    extra: dict[str, Any] | None = None,
) -> Asset:
    """Return the asset that is a query's output.

    :param query: the location of its checkpoint, or its name. The triggerer looks for what has
        only a name in the checkpoint root of the connection ``continuous_default``, for
        ``lake:orders`` in that of ``lake``.
    :param name: the asset's; default its URI.
    :param every: have the triggerer make every k-th committed epoch an event of the asset; 1 is
        every epoch.
    :param at_most_every_s: have it make one event of all that was committed in so many seconds.
    :param complete_every: have it make an event of each period of this length that is complete by
        event time, e.g. ``timedelta(days=1)``: the query's watermark has passed its end. Periods
        begin at midnight, UTC. Whole seconds; not together with the other two.
    :param from_epoch: the first epoch that the events tell of; default the first one that commits
        after the triggerer's first look.
    :param storage_conn_id: the Airflow connection that opens the checkpoint's storage.
    :param poll_interval_s: seconds between two looks at the checkpoint.
    :param extra: the asset's own.
    :raises ConfigError: ``query`` is neither a location nor a name.
    :raises ValueError: epochs and periods are to be watched, or neither from ``from_epoch`` on, or
        a time is none.
    """
    uri = asset_uri(query)
    watchers = []
    epochs = every is not None or at_most_every_s is not None or from_epoch is not None
    # Triggers are imported here: who only names an asset needs none.
    if complete_every is not None:
        if epochs:
            raise ValueError(
                "complete_every makes events of periods: leave every, at_most_every_s and "
                "from_epoch out, or make another asset of them."
            )
        period_s = duration("complete_every", complete_every, minimum=1)
        if not period_s.is_integer():
            raise ValueError(f"complete_every is {complete_every!r}; it has whole seconds.")
        from airflow_provider_continuous.triggers.periods import PeriodEventTrigger

        complete = PeriodEventTrigger(
            query,
            period_s=int(period_s),
            storage_conn_id=storage_conn_id,
            poll_interval_s=poll_interval_s,
            asset_name=name or uri,
        )
        watchers.append(AssetWatcher(name=f"periods of {name or uri}", trigger=complete))
    elif every is not None or at_most_every_s is not None:
        from airflow_provider_continuous.triggers.events import EpochEventTrigger

        trigger = EpochEventTrigger(
            query,
            every=1 if every is None else every,
            at_most_every_s=at_most_every_s or 0.0,
            from_epoch=from_epoch,
            storage_conn_id=storage_conn_id,
            poll_interval_s=poll_interval_s,
            asset_name=name or uri,
        )
        watchers.append(AssetWatcher(name=f"epochs of {name or uri}", trigger=trigger))
    elif from_epoch is not None:
        raise ValueError("from_epoch is of events of epochs: give every, or at_most_every_s.")
    return Asset(name=name or uri, uri=uri, group=SCHEME, extra=extra or {}, watchers=watchers)


def asset_uri(query: str) -> str:
    """Return the URI of a query's output.

    :param query: the location of its checkpoint, or its name.
    :raises ConfigError: it is neither.
    """
    if _NAME.fullmatch(query):
        return f"{SCHEME}://{query}/"
    conn_id, colon, named = query.partition(":")
    if colon and _NAME.fullmatch(conn_id) and _NAME.fullmatch(named):
        return f"{SCHEME}://{_OF_CONNECTION}/{conn_id}/{named}"
    parts = urlsplit(CheckpointLocation.parse(query).url)
    path = posixpath.join("/", parts.netloc, parts.path.lstrip("/"))
    path = quote(path, safe="/%:=+@~,", errors="surrogateescape")
    uri = SplitResult(SCHEME, parts.scheme or "file", path, "", "")
    return sanitize_uri(uri).geturl()


def sanitize_uri(uri: SplitResult) -> SplitResult:
    """Bring a URI into its one form; Airflow calls this for every asset of the scheme.

    :raises ValueError: it names no query.
    """
    if uri.query:
        raise ValueError(f"URI format {SCHEME}:// takes no query: {uri.geturl()}")
    store = uri.netloc.rpartition("@")[2] or "file"
    path = posixpath.normpath("/" + uri.path.lstrip("/"))
    if not _NAME.fullmatch(store):
        raise ValueError(f"{store!r} in {uri.geturl()} is neither a query's name nor a storage.")
    if path == "/" and not uri.netloc:
        raise ValueError(f"URI format {SCHEME}:// must name a query, or a checkpoint's location.")
    return uri._replace(netloc=store, path=path, fragment="")


def create_asset(
    *,
    checkpoint_location: str | None = None,
    query_name: str | None = None,
    extra: dict[str, Any] | None = None,
) -> Asset:
    """Return the asset of a query; Airflow's factory for the scheme.

    :raises ValueError: not exactly one of location and name is given.
    """
    query = checkpoint_location or query_name
    if query is None or (checkpoint_location and query_name):
        raise ValueError("Give exactly one of checkpoint_location and query_name.")
    return query_asset(query, extra=extra)


def convert_asset_to_openlineage(asset: Asset, lineage_context: Any) -> OpenLineageDataset:
    """Return the asset as a dataset of OpenLineage."""
    from airflow.providers.common.compat.openlineage.facet import Dataset

    parts = urlsplit(asset.uri)
    if parts.path in ("", "/"):
        return Dataset(namespace=SCHEME, name=parts.netloc)
    return Dataset(namespace=f"{SCHEME}://{parts.netloc}", name=parts.path)
