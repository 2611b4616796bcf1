"""Assets of queries: URIs, what followers are told, and what operators emit."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.common.compat.openlineage.facet import Dataset
from airflow.sdk import Asset, AssetAlias
from airflow.sdk.providers_manager_runtime import ProvidersManagerTaskRuntime

from airflow_provider_continuous.assets import uris
from airflow_provider_continuous.assets.events import committed_epochs, emit
from airflow_provider_continuous.assets.uris import query_asset
from airflow_provider_continuous.triggers.events import EpochEventTrigger
from engine.errors import ConfigError


@pytest.mark.parametrize(
    ("query", "uri"),
    [
        ("orders", "continuous://orders/"),
        ("/data/checkpoints/orders/", "continuous://file/data/checkpoints/orders"),
        ("file:///data//orders", "continuous://file/data/orders"),
        ("s3://lake/checkpoints/orders", "continuous://s3/lake/checkpoints/orders"),
        ("s3://aws@lake/checkpoints/orders", "continuous://s3/lake/checkpoints/orders"),
        ("/data/with space", "continuous://file/data/with%20space"),
    ],
)
def test_uris(query: str, uri: str) -> None:
    asset = query_asset(query)

    assert asset.uri == uri
    assert Asset(asset.uri).uri == uri, "it is in its one form"


@pytest.mark.parametrize(
    ("uri", "clean"),
    [
        ("continuous:///data/x/../orders/", "continuous://file/data/orders"),
        ("CONTINUOUS://s3/lake//orders", "continuous://s3/lake/orders"),
        ("continuous://conn@s3/lake/orders", "continuous://s3/lake/orders"),
    ],
)
def test_airflow_brings_uris_into_one_form(uri: str, clean: str) -> None:
    assert "continuous" in ProvidersManagerTaskRuntime().asset_uri_handlers  # type: ignore[no-untyped-call]
    assert Asset(uri).uri == clean


@pytest.mark.parametrize("uri", ["continuous:///", "continuous://a b/", "continuous://x/y?z=1"])
def test_uris_that_name_nothing(uri: str) -> None:
    with pytest.raises(ValueError, match=r"must name a query|neither|takes no query"):
        Asset(uri)


def test_watched_assets() -> None:
    asset = query_asset("s3://aws@lake/orders", name="orders", every=10, from_epoch=0)

    (watcher,) = asset.watchers
    assert isinstance(watcher.trigger, EpochEventTrigger)
    assert watcher.trigger.serialize()[1] == {
        "checkpoint_location": "s3://aws@lake/orders",
        "every": 10,
        "at_most_every_s": 0.0,
        "from_epoch": 0,
        "storage_conn_id": None,
        "poll_interval_s": 1.0,
        "asset_name": "orders",
    }
    assert query_asset("orders").watchers == []
    with pytest.raises(ConfigError, match="relative"):
        query_asset("not/a name")


def test_the_factory_and_lineage() -> None:
    assert uris.create_asset(query_name="orders").uri == "continuous://orders/"
    located = uris.create_asset(checkpoint_location="/data/orders")
    assert uris.convert_asset_to_openlineage(located, None) == Dataset(
        namespace="continuous://file", name="/data/orders"
    )
    with pytest.raises(ValueError, match="exactly one"):
        uris.create_asset()


class AssetStore(dict[str, Any]):
    def set(self, key: str, value: Any) -> None:
        self[key] = value


def payload(epoch: int, query_id: str = "q") -> dict[str, Any]:
    return {"id": f"{query_id}/0/{epoch}", "first_epoch": epoch, "epoch": epoch}


def triggered(context: Any, asset: Asset, store: Any, *payloads: dict[str, Any]) -> Any:
    events = [SimpleNamespace(extra={"from_trigger": True, "payload": p}) for p in payloads]
    return {
        **context,
        "triggering_asset_events": {asset: [*events, SimpleNamespace(extra={"by": "hand"})]},
        "asset_state_store": {asset: store},
        "task_state_store": type(context["task_state_store"])(),
    }


def test_what_followers_are_told(context: Any) -> None:
    asset, store = query_asset("orders"), AssetStore()
    first = triggered(context, asset, store, payload(1), payload(0), payload(1))
    told = committed_epochs(first, asset)
    assert [event["epoch"] for event in told] == [0, 1], "in order, each once"
    assert committed_epochs(first, asset) == told, "a retry is told the same"

    second = triggered(context, asset, store, payload(1), payload(2))
    assert [event["epoch"] for event in committed_epochs(second, asset)] == [2]
    third = triggered(context, asset, store, payload(2))
    assert committed_epochs(third, asset) == []
    again = triggered(context, asset, store, payload(0, "another query"))
    assert len(committed_epochs(again, asset)) == 1


def test_operators_tell_more(context: Any) -> None:
    query, sink, alias = query_asset("orders"), Asset("s3://lake/orders"), AssetAlias("any")
    context["ti"].task = SimpleNamespace(outlets=[query, sink, alias])
    events = {outlet: SimpleNamespace(extra={"a": 1}) for outlet in (query, sink, alias)}
    context["outlet_events"] = events

    emit(context, epoch=3, run_id="r")

    assert events[query].extra == events[sink].extra == {"a": 1, "epoch": 3, "run_id": "r"}
    assert events[alias].extra == {"a": 1}
