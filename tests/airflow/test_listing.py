"""The list of all queries: one read each, kept for a moment; who hangs keeps nobody waiting."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest
from fsspec.implementations.local import LocalFileSystem

from airflow_provider_continuous.observing import listing
from airflow_provider_continuous.observing.listing import QueryListing
from airflow_provider_continuous.observing.pool import POOL
from airflow_provider_continuous.view.roots import Root
from bench.listing import write_queries
from engine.checkpoint import search
from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.query_state import QueryState
from engine.checkpoint.storage.local_storage import LocalStorage
from tests.airflow.live_checkpoint import LiveCheckpoint
from tests.waiting import wait_until

QUERIES = 1_000
WAIT_S = 120


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("streams")
    write_queries(made, QUERIES)
    return made


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every call of a storage, and every listing of a folder."""
    seen: list[str] = []
    for kind, names in (
        (LocalStorage, ("read", "list", "info", "files_below", "exists")),
        (LocalFileSystem, ("ls",)),
    ):
        for name in names:
            whole = getattr(kind, name)

            def counted(*args: Any, name: str = name, whole: Any = whole, **named: Any) -> Any:
                seen.append(name)
                return whole(*args, **named)

            monkeypatch.setattr(kind, name, counted)
    return seen


@pytest.fixture
def looks_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """No list is fresh, and each is waited for."""
    monkeypatch.setattr(listing, "FRESH_S", 0.0)
    monkeypatch.setattr(listing, "REFRESHED_WITHIN_S", WAIT_S)


def test_a_thousand_queries_are_one_read_each(
    folder: Path, calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "FRESH_S", 600.0)
    monkeypatch.setattr(listing, "LISTED_WITHIN_S", WAIT_S)
    made = QueryListing()
    found = made.below([Root(str(folder))], WAIT_S)
    assert found.errors == {}
    assert len(found.queries) == QUERIES
    shown = found.queries[f"{folder}/query-0007"]
    assert (shown.name, shown.status.epoch, shown.rows_per_second) == ("query-7", 7, 50.0)
    # That of the root: it may be a checkpoint itself, and is listed.
    assert (calls.count("read"), calls.count("ls"), len(calls)) == (QUERIES + 1, 1, QUERIES + 2)
    assert made.below([Root(str(folder))], WAIT_S) is found, "for a moment nobody looks again"
    assert len(calls) == QUERIES + 2


def test_the_same_queries_are_one_list_in_whatever_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "FRESH_S", 600.0)
    one, other = (LiveCheckpoint(tmp_path / name).location for name in ("one", "other"))
    made = QueryListing()
    assert made.at([one, other], WAIT_S) is made.at([other, one], WAIT_S)


@pytest.mark.parametrize("set_back_s", [0, 3600])
@pytest.mark.usefixtures("looks_each_time")
def test_it_is_looked_again_when_the_moment_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, set_back_s: int
) -> None:
    """Also with a clock that was set back."""
    made, live = QueryListing(), LiveCheckpoint(tmp_path / "orders")
    live.hold()
    assert made.below([Root(str(tmp_path))], WAIT_S).queries[live.location].status.epoch == -1
    live.commit(0)
    if set_back_s:
        earlier_s = time.time() - set_back_s
        monkeypatch.setattr("time.time", lambda: earlier_s)
    assert made.below([Root(str(tmp_path))], WAIT_S).queries[live.location].status.epoch == 0


def test_checkpoints_without_a_summary_are_found_in_folders_of_folders(tmp_path: Path) -> None:
    write_queries(tmp_path, 2)
    spark = tmp_path / "team" / "spark"
    for log in ("offsets", "commits"):
        (spark / log).mkdir(parents=True)
    LiveCheckpoint(tmp_path / "team" / "old").hold()
    (tmp_path / "no-query").mkdir()
    found = QueryListing().below([Root(str(tmp_path)), Root(str(tmp_path / "not-there"))], WAIT_S)
    assert {Path(each).name: query.status.state for each, query in found.queries.items()} == {
        "query-0000": QueryState.RUNNING,
        "query-0001": QueryState.RUNNING,
        "spark": QueryState.UNKNOWN,
        "old": QueryState.RUNNING,
    }
    assert found.errors == {}
    assert found.absent == [str(tmp_path / "not-there")]


def test_a_link_out_of_the_root_leads_nowhere(tmp_path: Path) -> None:
    write_queries(tmp_path / "hidden", 1)
    (tmp_path / "shown").mkdir()
    (tmp_path / "shown" / "link").symlink_to(tmp_path / "hidden" / "query-0000")
    assert QueryListing().below([Root(str(tmp_path / "shown"))], WAIT_S).queries == {}


def test_a_root_that_climbs_out_of_its_bucket_is_told() -> None:
    found = QueryListing().below([Root("s3://bucket/a/../b")], WAIT_S)
    assert "dots" in found.errors["s3://bucket/a/../b"]


class _Answers(SimpleQueue[Any]):
    """So many looks are waited for as long as they take; the deadline is that of the others."""

    def __init__(self, count: int) -> None:
        self._left = count

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        self._left -= 1
        return super().get(block, timeout if self._left < 0 else WAIT_S)


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Tells how many looks of a search come back; the search has half a second for all others."""

    def answer(count: int) -> None:
        monkeypatch.setattr(listing, "LISTED_WITHIN_S", 0.5)
        monkeypatch.setattr(search, "SimpleQueue", lambda: _Answers(count))

    return answer


def all_have_come_back() -> None:
    """A look that is late would be one more call of whatever test comes next."""
    wait_until(lambda: not POOL.hanging(0), "the end of all looks", WAIT_S)


@pytest.fixture
def hung(tmp_path: Path) -> Iterator[Path]:
    """A lease that hangs whoever opens it."""
    control = tmp_path / "hung" / "control"
    control.mkdir(parents=True)
    os.mkfifo(control / "lease")
    yield control.parent
    fifo = (control / "lease").rename(control / "fifo")
    os.close(os.open(fifo, os.O_RDWR | os.O_NONBLOCK))
    all_have_come_back()


def test_one_that_hangs_or_is_broken_is_an_error_of_its_own(
    tmp_path: Path, hung: Path, answering: Callable[[int], None]
) -> None:
    write_queries(tmp_path, 3)
    broken = LiveCheckpoint(tmp_path / "broken")
    broken.commit(0)
    Path(broken.location, "metadata").write_text("no JSON")
    answering(5)  # the root's, that of the broken one, and three
    found = QueryListing().below([Root(str(tmp_path))], WAIT_S)
    assert len(found.queries) == 3
    assert found.errors.keys() == {str(hung), broken.location}
    assert found.errors[str(hung)] == "It has not answered in time."
    assert "is not the metadata of a query" in found.errors[broken.location]
    answering(2)
    shown = QueryListing().at([f"{tmp_path}/query-0001", str(hung), f"{tmp_path}/none"], WAIT_S)
    assert (list(shown.queries), list(shown.errors)) == ([f"{tmp_path}/query-0001"], [str(hung)])


@pytest.mark.usefixtures("looks_each_time")
def test_what_does_not_answer_is_shown_as_it_was_seen_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answering: Callable[[int], None]
) -> None:
    write_queries(tmp_path, 2)
    made, answer = QueryListing(), threading.Event()
    first = made.below([Root(str(tmp_path))], WAIT_S)
    whole = Checkpoint.glance

    def hangs(checkpoint: Checkpoint) -> Any:
        if checkpoint.url.endswith("query-0001"):
            answer.wait(WAIT_S)
        return whole(checkpoint)

    monkeypatch.setattr(Checkpoint, "glance", hangs)
    answering(2)  # the root's, and that of the other query
    try:
        again = made.below([Root(str(tmp_path))], WAIT_S)
    finally:
        answer.set()
        all_have_come_back()
    late = f"{tmp_path}/query-0001"
    assert again.queries.keys() == first.queries.keys()
    assert again.queries[late] is first.queries[late]
    assert again.errors == {late: "It has not answered in time."}


def test_who_hangs_darkens_only_itself_in_the_very_first_list(
    tmp_path: Path, hung: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever asks for the list waits no shorter than the look that makes it."""
    write_queries(tmp_path, 3)
    monkeypatch.setattr(listing, "LISTED_WITHIN_S", 1.0)
    whole = listing._Search.finish

    def late(search: Any) -> Any:
        found = whole(search)
        threading.Event().wait(0.2)
        return found

    monkeypatch.setattr(listing._Search, "finish", late)
    found = QueryListing().below([Root(str(tmp_path))], 1.0)
    assert (len(found.queries), list(found.errors)) == (3, [str(hung)])


def test_one_more_query_makes_nothing_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_queries(tmp_path, 2)
    one, other = (f"{tmp_path}/query-000{number}" for number in range(2))
    made = QueryListing()
    first = made.at([one], WAIT_S).queries[one]
    monkeypatch.setattr(Checkpoint, "glance", broken_for("query-0000", Checkpoint.glance))
    shown = made.at([one, other], WAIT_S)
    assert shown.queries.keys() == {one, other}
    assert shown.queries[one] is first
    assert shown.errors.keys() == {one}


@pytest.mark.usefixtures("looks_each_time")
def test_a_root_that_fails_shows_its_queries_as_they_were_and_none_that_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_queries(tmp_path, 2)
    made, root = QueryListing(), Root(str(tmp_path))
    assert len(made.below([root], WAIT_S).queries) == 2
    shutil.rmtree(tmp_path / "query-0001")
    assert len(made.below([root], WAIT_S).queries) == 1
    monkeypatch.setattr(Checkpoint, "glance", broken_for(tmp_path.name, Checkpoint.glance))
    shown = made.below([root], WAIT_S)
    assert list(shown.queries) == [f"{tmp_path}/query-0000"]
    assert list(shown.errors) == [str(tmp_path)]


@pytest.mark.usefixtures("looks_each_time")
def test_what_is_deleted_while_its_root_hangs_does_not_come_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_queries(tmp_path, 1)
    made, root, query = QueryListing(), Root(str(tmp_path)), f"{tmp_path}/query-0000"
    assert made.below([root], WAIT_S).queries.keys() == {query}
    whole = Checkpoint.glance

    def glance(checkpoint: Checkpoint) -> Any:
        if checkpoint.url.rstrip("/") == str(tmp_path):
            shutil.rmtree(query)
            assert made.at([query], WAIT_S).queries == {}
            raise OSError("the storage is away")
        return whole(checkpoint)

    monkeypatch.setattr(Checkpoint, "glance", glance)
    assert made.below([root], WAIT_S).queries == {}


def test_the_root_of_all_is_a_root_like_others() -> None:
    assert list(listing._upwards("/a/b")) == ["/a/b", "/a", ""]
    assert "" not in listing._upwards("s3://b/a")


def broken_for(end: str, whole: Callable[[Checkpoint], Any]) -> Callable[[Checkpoint], Any]:
    """A look that fails where the name of the folder is this one."""

    def glance(checkpoint: Checkpoint) -> Any:
        if checkpoint.url.rstrip("/").endswith(end):
            raise OSError("the storage is away")
        return whole(checkpoint)

    return glance


def test_a_query_that_is_lost_is_one_read_as_well(tmp_path: Path, calls: list[str]) -> None:
    write_queries(tmp_path, 1)
    lease = tmp_path / "query-0000" / "control" / "lease"
    lease.write_text(lease.read_text().replace('"pid":', '"process_started":"x","pid":'))
    checkpoint = Checkpoint(str(tmp_path / "query-0000"))
    calls.clear()
    shown = checkpoint.glance()
    assert shown is not None
    assert shown.status.state in (QueryState.LOST, QueryState.RUNNING)
    assert calls == ["read"]
