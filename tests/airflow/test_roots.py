"""Which checkpoints people may see."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest

from airflow_provider_continuous.deploy.submission import default_log_dir
from airflow_provider_continuous.observing import listing, resolving
from airflow_provider_continuous.observing.listing import QueryListing
from airflow_provider_continuous.observing.pool import POOL
from airflow_provider_continuous.plugins import queries
from airflow_provider_continuous.plugins.details import query_details
from airflow_provider_continuous.plugins.queries import all_queries, named_query, rows_of
from airflow_provider_continuous.view.known import KnownQuery, Owner, find_one, known_queries
from airflow_provider_continuous.view.roots import NotBelowRootsError, Root
from engine.checkpoint.query_state import QueryState
from engine.errors import ConfigError
from tests.airflow.live_checkpoint import LiveCheckpoint
from tests.searched import searched

pytestmark = pytest.mark.usefixtures("patient_lists")


@pytest.mark.parametrize(
    ("root", "inside"),
    [
        ("/data", "/data"),
        ("/data/", "/data/orders"),
        ("/data", "file:///data/orders"),
        ("file:///data", "/data/a/../orders"),
        ("/", "/anywhere"),
        ("s3://bucket", "s3://bucket/orders"),
        ("s3://lake@bucket/streams/", "s3://lake@bucket/streams/orders"),
    ],
)
def test_what_lies_below_a_root_is_shown(root: str, inside: str) -> None:
    assert find_one([Root(root)], (), inside).location == inside


@pytest.mark.parametrize(
    ("root", "outside"),
    [
        ("/data", "/database"),
        ("/data", "/data/../etc"),
        ("/data", "file:///data/../etc"),
        ("/data", "s3://data"),
        ("/data", ""),
        ("/data", "data"),
        ("s3://bucket/streams", "s3://bucket/streams-of-others"),
        ("s3://bucket/streams", "s3://bucket/streams/../others"),
        ("s3://bucket/streams", "s3://others/streams"),
        ("s3://lake@bucket", "s3://admin@bucket/orders"),
        ("s3://lake@bucket", "s3://bucket/orders"),
    ],
)
def test_what_lies_elsewhere_is_not(root: str, outside: str) -> None:
    with pytest.raises(NotBelowRootsError):
        find_one([Root(root)], (), outside)


def test_a_link_leads_nowhere(tmp_path: Path) -> None:
    LiveCheckpoint(tmp_path / "elsewhere" / "secret").commit(0)
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "link").symlink_to(tmp_path / "elsewhere")
    root = Root(str(tmp_path / "root"))

    assert QueryListing().below([root]).queries == {}
    with pytest.raises(NotBelowRootsError):
        find_one([root], (), f"{root.location}/link/secret")


def test_checkpoints_are_found_at_any_depth_up_to_a_limit(tmp_path: Path) -> None:
    for path in ("orders", "sales/eu/clicks", "a/b/c/d/too-deep"):
        LiveCheckpoint(tmp_path / path).commit(0)
    (tmp_path / "sales" / "eu" / "clicks" / "offsets" / "metadata").mkdir()
    (tmp_path / "empty").mkdir()

    found = QueryListing().below([Root(str(tmp_path))]).queries

    assert {path[len(str(tmp_path)) + 1 :] for path in found} == {"orders", "sales/eu/clicks"}


def test_a_huge_folder_is_not_walked_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "FOLDERS_MAX", 3)
    for number in range(10):
        LiveCheckpoint(tmp_path / str(number)).commit(0)

    found = QueryListing().below([Root(str(tmp_path))])

    assert len(found.queries) == 2
    assert found.errors == {str(tmp_path): "More than 3 folders are not looked into."}


def test_folders_of_logs_do_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A query of the deploy mode local has one beside its checkpoint."""
    monkeypatch.setattr(listing, "FOLDERS_MAX", 4)
    for number in range(3):
        live = LiveCheckpoint(tmp_path / str(number))
        live.commit(0)
        (default_log_dir(live.checkpoint.url) / "code").mkdir(parents=True)

    found = QueryListing().below([Root(str(tmp_path))])

    assert (len(found.queries), found.errors) == (3, {})
    assert sorted(searched(str(tmp_path)).found) == ["0", "1", "2"]


def test_too_many_folders_are_told_once_however_deep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "FOLDERS_MAX", 4)
    for number in range(4):
        (tmp_path / str(number) / "below").mkdir(parents=True)

    assert set(QueryListing().below([Root(str(tmp_path))]).errors) == {str(tmp_path)}


def test_trouble_comes_first_and_what_cannot_be_read_is_told(tmp_path: Path) -> None:
    for name, end in (
        ("a-stopped", QueryState.STOPPED),
        ("b-runs", None),
        ("c", QueryState.FAILED),
    ):
        query = LiveCheckpoint(tmp_path / name)
        query.hold()
        if end is not None:
            query.end(end)
    LiveCheckpoint(tmp_path / "torn")
    (tmp_path / "torn" / "metadata").write_text("torn")
    (tmp_path / "torn" / "offsets").mkdir(exist_ok=True)

    shown = all_queries([Root(str(tmp_path)), Root(str(tmp_path / "not-there-yet"))])

    assert [query["name"] for query in shown["queries"]] == ["c", "b-runs", "a-stopped"]
    (problem,) = shown["problems"]
    assert problem["location"].endswith("/torn")


def owner(location: str, dag_id: str = "dag", at_ms: int = 1, task_id: str = "run") -> Owner:
    return Owner(dag_id, task_id, f"run at {at_ms}", -1, location, at_ms)


@pytest.mark.parametrize("odd", ["s3://[x", "/tmp/\0x", "\ud800", "x" * 5000, "memory://x/y"])
def test_an_odd_location_darkens_nothing_else(tmp_path: Path, odd: str) -> None:
    """Anybody may push such an XCom, or write it into a connection."""
    live = LiveCheckpoint(tmp_path / "orders")
    live.commit(0)
    roots = [Root(odd), Root(str(tmp_path))]
    owners = [owner(odd), owner(live.location)]

    shown = all_queries(roots, owners)
    assert [query["checkpoint_location"] for query in shown["queries"]] == [live.location]
    assert {each["location"] for each in shown["problems"]} <= {odd}
    assert named_query(roots, owners, live.location).owners == (owners[1],)
    with pytest.raises(ConfigError):
        named_query(roots, owners, odd)


def test_all_tasks_of_a_query_are_listed_with_it(live: LiveCheckpoint) -> None:
    """It is found by each of their DAGs, and how many more there are is counted."""
    live.commit(0)
    dags = [f"dag{number}" for number in range(12)]

    shown = all_queries([], [owner(live.location, dag) for dag in dags])

    (query,) = shown["queries"]
    assert {each["dag_id"] for each in query["owners"]} == set(dags)


def test_a_query_of_a_task_is_known_without_a_root(live: LiveCheckpoint, tmp_path: Path) -> None:
    live.commit(0)
    owners = [owner(live.location), owner(f"{tmp_path}/never-started"), owner("relative")]

    shown = all_queries([], owners)

    (query,) = shown["queries"]
    assert (query["checkpoint_location"], query["owners"][0]["dag_id"]) == (live.location, "dag")
    assert shown["problems"] == []
    assert [each["location"] for each in shown["absent"]] == [f"{tmp_path}/never-started"]
    assert [each["dag_id"] for each in shown["absent"][0]["owners"]] == ["dag"]
    assert all_queries([], owners, lambda queries: [])["absent"] == []
    assert named_query([], owners, live.location).location == live.location
    for nobodys in (f"{tmp_path}/never-started", f"{tmp_path}/other", "relative"):
        with pytest.raises(NotBelowRootsError):
            named_query([], owners, nobodys)


def test_each_query_is_there_once_with_its_newest_owners(live: LiveCheckpoint) -> None:
    live.commit(0)
    owners = [
        owner(f"{live.location}/", at_ms=1),
        owner(f"file://{live.location}", at_ms=3),
        owner(live.location, "other", at_ms=2),
    ]

    (query,) = known_queries([live.location], owners)

    assert [(each.dag_id, each.started_at_ms) for each in query.owners] == [
        ("dag", 3),
        ("other", 2),
    ]


@pytest.fixture
def dead_mount(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of which no link is told until the end of the test."""
    mount, over, told = tmp_path / "dead", threading.Event(), os.path.realpath

    def realpath(path: str) -> str:
        if path.startswith(f"{mount}/"):
            over.wait()
        return told(path)

    monkeypatch.setattr("os.path.realpath", realpath)
    monkeypatch.setattr(resolving, "RESOLVER", resolving.Resolver())
    monkeypatch.setattr(queries, "RESOLVER", resolving.RESOLVER)
    monkeypatch.setattr(resolving, "RESOLVED_WITHIN_S", 0.1)
    yield mount
    over.set()


@pytest.mark.parametrize("is_known", [True, False])
def test_a_mount_that_hangs_keeps_no_request(
    live: LiveCheckpoint, dead_mount: Path, monkeypatch: pytest.MonkeyPatch, is_known: bool
) -> None:
    """What is on it is taken for where it says that it is, everything else for what it is."""
    if is_known:
        monkeypatch.setattr(
            resolving,
            "place_of",
            lambda path: "dead" if path.startswith(f"{dead_mount}/") else "here",
        )
    live.commit(0)
    dead = LiveCheckpoint(dead_mount / "orders")
    dead.commit(0)
    link = Path(f"{live.location}-link")
    link.symlink_to(live.location)
    owners = [owner(dead.location), owner(live.location), owner(str(link), "other")]

    shown = all_queries([Root(str(dead_mount))], owners)

    found = [each["checkpoint_location"] for each in shown["queries"]]
    assert set(found) >= {dead.location, live.location}
    assert len(found) == (2 if is_known else 3), "a link that nobody could look at is another"
    assert named_query([], owners, live.location).location == live.location


def test_a_mount_that_hangs_takes_one_thread(dead_mount: Path) -> None:
    locations = [f"{dead_mount}/{number}" for number in range(100)]
    for _ in range(5):
        assert len(resolving.RESOLVER.places(locations)) == 100
    names = [thread.name for thread in threading.enumerate()]
    assert sum(POOL.hanging(0.0).values()) <= 1, names


def test_what_was_asked_meanwhile_is_resolved_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who comes while another one asks the same mount waits for both."""
    (tmp_path / "link").symlink_to(tmp_path / "real")
    asked, resolver = threading.Event(), resolving.Resolver()
    begun, told = threading.Event(), os.path.realpath

    def realpath(path: str) -> str:
        if path.endswith("/first"):
            begun.set()
            asked.wait()
        return told(path)

    monkeypatch.setattr("os.path.realpath", realpath)
    monkeypatch.setattr(resolving, "RESOLVED_WITHIN_S", 60.0)
    with ThreadPoolExecutor() as pool:
        first = pool.submit(resolver.places, [f"{tmp_path}/first"])
        begun.wait()
        second = pool.submit(resolver.places, [f"{tmp_path}/link/q"])
        asked.set()
        assert first.result() == {f"{tmp_path}/first": ((None, "file", ""), f"{tmp_path}/first")}
        ((_, where),) = second.result().values()
    assert where == f"{tmp_path}/real/q"


def test_the_link_of_a_task_finds_its_query_with_the_connection() -> None:
    owners = [owner("s3://lake@bucket/orders")]

    def opened(location: str) -> str:
        with pytest.MonkeyPatch.context() as patch:
            there = SimpleNamespace(exists=lambda: True)
            patch.setattr(KnownQuery, "open", lambda query: there)
            return named_query([], owners, location).location

    assert opened("s3://bucket/orders") == "s3://lake@bucket/orders"
    assert opened("s3://lake@bucket/orders") == "s3://lake@bucket/orders"
    with pytest.raises(NotBelowRootsError):
        opened("s3://admin@bucket/orders")


def test_one_broken_connection_darkens_one_row(live: LiveCheckpoint) -> None:
    live.commit(0)
    owners = [owner("s3://no_such_conn@bucket/orders", "broken"), owner(live.location)]

    shown = all_queries([], owners)

    assert [each["checkpoint_location"] for each in shown["queries"]] == [live.location]
    (dark,) = [row for row in rows_of(shown) if row["state"] == "UNREADABLE"]
    assert dark["owners"][0]["dag_id"] == "broken"
    assert "no_such_conn" in dark["error"]


def test_a_query_that_cannot_be_read_any_more_is_one_row(
    live: LiveCheckpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "FRESH_S", 0.0)
    monkeypatch.setattr(listing, "REFRESHED_WITHIN_S", 60.0)
    live.commit(0, 1)
    owners = [owner(live.location)]
    (seen,) = rows_of(all_queries([], owners))
    folder = Path(live.location)
    folder.rename(folder.with_name("aside"))
    folder.symlink_to(folder)  # in circles: every look fails

    (dark,) = rows_of(all_queries([], owners))

    assert (seen["state"], dark["state"]) == ("UNKNOWN", "UNREADABLE")
    assert (dark["seen_as"], dark["epoch"]) == ("UNKNOWN", 1)
    assert "symbolic links" in dark["error"]
    assert dark["owners"] == seen["owners"]


def test_a_checkpoint_of_spark_itself_is_shown(tmp_path: Path, live: LiveCheckpoint) -> None:
    live.commit(0, 1)

    details = query_details(KnownQuery(live.location), with_records=True)

    assert (details["state"], details["epoch"]) == ("UNKNOWN", 1)
    assert [epoch["offsets"] for epoch in details["epochs"]] == [({"0": 20},), ({"0": 10},)]


def test_roots_are_those_of_the_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__CONTINUOUS__CHECKPOINT_ROOTS", "/data/a, s3://lake@bucket/b\n/c")

    from airflow_provider_continuous import configuration

    assert configuration.checkpoint_roots() == ["/data/a", "s3://lake@bucket/b", "/c"]


def test_a_root_whose_connection_is_missing_hides_no_other_one(tmp_path: Path) -> None:
    LiveCheckpoint(tmp_path / "query").commit(0)

    shown = all_queries([Root("s3://nowhere@bucket/streams"), Root(str(tmp_path))])

    assert [query["checkpoint_location"] for query in shown["queries"]] == [f"{tmp_path}/query"]
    (problem,) = shown["problems"]
    assert problem["location"] == "s3://nowhere@bucket/streams"
    assert "nowhere" in problem["error"]
