"""Who sees a query on the page, and who may do what to it, whatever Airflow's auth manager is."""

from __future__ import annotations

import html
import os
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest
from fastapi.testclient import TestClient

from airflow_provider_continuous.hooks.checkpoint import CheckpointHook
from airflow_provider_continuous.plugins import access, actions, pages, queries
from airflow_provider_continuous.plugins.access import Viewer
from airflow_provider_continuous.plugins.owners import Told
from airflow_provider_continuous.view.known import KnownQuery, Owner, known_queries
from airflow_provider_continuous.view.overview import look_at
from airflow_provider_continuous.view.roots import Root
from engine.checkpoint.fingerprint_file import write_fingerprint
from engine.checkpoint.query_state import QueryState
from tests.airflow.live_checkpoint import LiveCheckpoint

pytestmark = pytest.mark.usefixtures("patient_lists")
WAIT_S = 30
HEADER = {"X-Continuous-Action": "1"}


class Manager:
    """Of a person who may see the DAG ``seen``, and edit the DAG ``edited`` besides."""

    jobs = False
    all_dags = False

    def get_authorized_dag_ids(self, *, user: Any) -> set[str]:
        return {"seen", "edited"}

    def is_authorized_view(self, *, access_view: Any, user: Any) -> bool:
        return self.jobs

    def is_authorized_dag(
        self, *, method: str, user: Any, access_entity: Any = None, details: Any = None
    ) -> bool:
        if details is None:
            return self.all_dags
        return details.id == "edited" or (method == "GET" and details.id == "seen")


@pytest.fixture
def manager(monkeypatch: pytest.MonkeyPatch) -> Manager:
    found = Manager()
    monkeypatch.setattr(access, "get_auth_manager", lambda: found)
    monkeypatch.setattr(access, "_details", lambda dag_id: SimpleNamespace(id=dag_id))
    return found


@pytest.fixture
def viewer(manager: Manager) -> Viewer:
    return Viewer(SimpleNamespace(get_name=lambda: "ann"))


@pytest.fixture
def running(live: LiveCheckpoint) -> LiveCheckpoint:
    live.hold()
    live.commit(0, 1, 2, 3)
    return live


@pytest.fixture
def client(viewer: Viewer) -> TestClient:
    app = pages.create_app()
    app.dependency_overrides[access.viewer] = lambda: viewer
    return TestClient(app)


def of(dag_id: str, location: str = "/data/orders") -> KnownQuery:
    return KnownQuery(location, (Owner(dag_id, "run", "manual", -1, location, 0),))


def told(monkeypatch: pytest.MonkeyPatch, owners: list[Owner], *, is_cut: bool = False) -> None:
    """These have told, as Airflow's database has it."""
    monkeypatch.setattr(queries, "told_owners", lambda: Told(owners, is_cut))
    monkeypatch.setattr(queries, "of_every_dag", lambda: owners)


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch, running: LiveCheckpoint) -> Any:
    """Makes the one query that of a DAG, or of none."""

    def make(dag_id: str | None) -> None:
        query = of(dag_id, running.location) if dag_id else KnownQuery(running.location)
        monkeypatch.setattr(queries, "shown_roots", lambda problems: [])
        monkeypatch.setattr(queries, "find_one", lambda *_: query)
        told(monkeypatch, [])

    return make


def test_the_dag_decides_who_sees_a_query(viewer: Viewer, manager: Manager) -> None:
    unowned = KnownQuery("/data/lost")

    assert viewer.seen([of("seen"), of("hidden"), unowned]) == [of("seen")]
    manager.jobs = True
    assert viewer.seen([of("hidden"), unowned]) == [unowned]


def test_of_a_query_only_the_dags_are_told_that_the_person_may_see(
    client: TestClient, running: LiveCheckpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    owners = [
        Owner(dag_id, "run", "manual", -1, running.location, at_ms)
        for dag_id, at_ms in [("seen", 1), *(("hidden", 10 + number) for number in range(9))]
    ]
    monkeypatch.setattr(queries, "shown_roots", lambda problems: [])
    told(monkeypatch, owners)

    (listed,) = client.get("/queries.json").json()["queries"]
    shown = client.get("/query.json", params={"at": running.location}).json()

    assert [each["dag_id"] for each in listed["owners"]] == ["seen"]
    assert [each["dag_id"] for each in shown["owners"]] == ["seen"]
    for path in ("/", "/query"):
        assert "hidden</" not in client.get(path, params={"at": running.location}).text


def test_records_and_logs_are_those_of_the_dag(viewer: Viewer, manager: Manager) -> None:
    assert viewer.may_read_logs(of("seen"))
    assert not viewer.may_act(of("seen"))
    assert viewer.may_act(of("edited"))
    assert not viewer.may_act(KnownQuery("/data/lost"))
    manager.all_dags = True
    assert viewer.may_act(KnownQuery("/data/lost"))


def test_whoever_names_the_query_of_another_dag_gets_no_right_to_it(
    client: TestClient, running: LiveCheckpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any DAG may push the XCom by which a query is known."""
    owners = [
        Owner(dag_id, "run", "manual", -1, running.location, at_ms)
        for at_ms, dag_id in enumerate(("hidden", "edited"))
    ]
    monkeypatch.setattr(queries, "shown_roots", lambda problems: [])
    told(monkeypatch, owners)
    at = {"at": running.location}

    shown = client.get("/query.json", params=at).json()
    assert (shown["state"], shown["letters"], shown["log"]) == ("RUNNING", None, None)
    refused = client.post("/act/stop", params=at, json={}, headers=HEADER)
    assert refused.status_code == 403
    assert running.checkpoint.requests.pending("run-1") is None
    told(monkeypatch, owners[1:])
    assert client.post("/act/stop", params=at, json={}, headers=HEADER).status_code == 200


@pytest.mark.parametrize(
    ("is_cut", "all_dags", "sees"), [(False, False, 1), (True, False, 0), (True, True, 1)]
)
def test_a_query_whose_owner_may_be_one_too_many_is_not_shown_as_nobodys(
    client: TestClient,
    manager: Manager,
    running: LiveCheckpoint,
    monkeypatch: pytest.MonkeyPatch,
    is_cut: bool,
    all_dags: bool,
    sees: int,
) -> None:
    root = Root(str(Path(running.location).parent))
    monkeypatch.setattr(queries, "shown_roots", lambda problems: [root])
    told(monkeypatch, [], is_cut=is_cut)
    manager.jobs, manager.all_dags = True, all_dags

    assert len(client.get("/queries.json").json()["queries"]) == sees


@pytest.mark.parametrize("other", ["s3a://lake@b/q", "s3://admin@b/q", "simplecache::s3://b/q"])
def test_another_name_of_the_same_folder_gives_no_right_either(viewer: Viewer, other: str) -> None:
    owners = [
        Owner(dag_id, "run", "manual", -1, location, 0)
        for dag_id, location in (("hidden", "s3://lake@b/q"), ("edited", other))
    ]

    (seen,) = viewer.seen(known_queries((), owners))
    assert [owner.dag_id for owner in seen.owners] == ["edited"]
    assert not viewer.may_act(seen)
    assert not viewer.may_read_logs(seen)
    (alone,) = viewer.seen(known_queries((), owners[1:]))
    assert viewer.may_act(alone)


def test_dead_letters_from_anywhere_are_for_who_may_edit_all_dags(
    client: TestClient, manager: Manager, known: Any, running: LiveCheckpoint
) -> None:
    known("seen")
    told = {"description": "noop, dead letters: json[/no/such]"}
    running.checkpoint.progress.write([{"batchId": 3, "runId": "r", "sink": told}])
    at = {"at": running.location}

    letters = client.get("/query.json", params=at).json()["letters"]
    assert (letters["path"], letters["letters"]) == ("/no/such", [])
    assert "who may edit all DAGs" in letters["error"]
    manager.all_dags = True
    assert client.get("/query.json", params=at).json()["letters"]["error"] is None


def test_a_checkpoint_that_cannot_be_opened_is_not_there_for_others(
    client: TestClient, manager: Manager, live: LiveCheckpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the storage says of it is told to nobody who may not see the query."""
    location = "s3://no_such_conn@bucket/orders"
    monkeypatch.setattr(queries, "shown_roots", lambda problems: [Root("s3://no_such_conn@bucket")])
    at = {"at": location}

    for dag_id, status in (("hidden", 404), ("seen", 502), (None, 404)):
        owners = [Owner(dag_id, "run", "manual", -1, location, 0)] if dag_id else []
        told(monkeypatch, owners)
        answer = client.get("/query.json", params=at)
        assert answer.status_code == status
        assert ("no_such_conn" in answer.json()["detail"]) is (status == 502)
    manager.jobs = True
    assert client.get("/query.json", params=at).status_code == 502


def test_a_hidden_query_is_not_there(client: TestClient, known: Any) -> None:
    known("hidden")

    for answer in (
        client.get("/query.json", params={"at": "/x"}),
        client.post("/act/stop", params={"at": "/x"}, json={}, headers=HEADER),
    ):
        assert answer.status_code == 404


@pytest.mark.parametrize(
    "headers", [{}, {**HEADER, "Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-origin"}]
)
def test_another_site_cannot_act(
    client: TestClient, known: Any, running: LiveCheckpoint, headers: dict[str, str]
) -> None:
    known("edited")

    answer = client.post("/act/stop", params={"at": "/x"}, json={}, headers=headers)

    assert answer.status_code == 403
    assert running.checkpoint.requests.pending("run-1") is None


def test_an_address_that_asks_for_what_there_is_not(
    client: TestClient, known: Any, running: LiveCheckpoint
) -> None:
    known("seen")
    asked = {"at": running.location, "window": "a while", "epoch": "soon"}
    page = client.get("/query", params=asked, headers={"accept": "text/html"})
    told = client.get("/query.json", params=asked)
    assert page.status_code == told.status_code == 422
    assert page.headers["content-type"].startswith("text/html")
    for text in (page.text, told.json()["detail"]):
        told_apart = html.unescape(text)
        assert "window='a while': Input should be '5m', '1h', '12h' or '7d'." in told_apart
        assert "epoch=" in text


@pytest.mark.parametrize("said", ["often", "0.5", "-5"])
def test_a_refresh_that_is_no_time_is_told(
    client: TestClient,
    known: Any,
    running: LiveCheckpoint,
    monkeypatch: pytest.MonkeyPatch,
    said: str,
) -> None:
    known("seen")
    monkeypatch.setenv("AIRFLOW__CONTINUOUS__PAGE_REFRESH", said)

    answer = client.get("/query", params={"at": running.location}, headers={"accept": "text/html"})

    assert answer.status_code == 500
    assert f"[continuous] page_refresh is '{said}'" in answer.text


def act(client: TestClient, action: str, **asked: Any) -> Any:
    return client.post(f"/act/{action}", params={"at": "/x"}, json=asked, headers=HEADER)


@pytest.mark.parametrize("action", ["drain", "stop"])
def test_a_query_is_asked_to_end(
    client: TestClient, known: Any, running: LiveCheckpoint, action: str
) -> None:
    known("seen")
    assert act(client, action).status_code == 403
    known("edited")

    assert act(client, action, run_id="run-0").status_code == 409
    assert running.checkpoint.requests.pending("run-1") is None
    assert act(client, action, run_id="run-1").status_code == 200
    assert running.checkpoint.requests.pending("run-1") == action
    running.end(QueryState.STOPPED)
    assert act(client, action).status_code == 409


def test_epochs_are_pinned_and_pruned(
    client: TestClient, known: Any, running: LiveCheckpoint
) -> None:
    known("edited")

    assert act(client, "pin", name="kept", epoch=0).status_code == 200
    assert act(client, "pin", name="../nasty", epoch=0).status_code == 400
    assert act(client, "pin", name="kept", epoch="0").status_code == 400
    dry = act(client, "prune", keep_epochs=2).json()
    assert (dry["report"]["dry_run"], dry["report"]["removed_epochs"]) == (True, 2)
    assert running.checkpoint.epochs() == [0, 1, 2, 3]
    assert act(client, "prune", keep_epochs=2, dry_run=False).status_code == 200
    assert running.checkpoint.epochs() == [2, 3]
    assert act(client, "prune", keep_epochs=1).status_code == 400
    assert act(client, "unpin", name="kept").status_code == 200
    assert running.checkpoint.pins() == []
    assert act(client, "explode").status_code == 404


def test_a_rewind_tells_first_what_it_undoes(
    client: TestClient, known: Any, running: LiveCheckpoint
) -> None:
    known("edited")
    assert act(client, "rewind", to_epoch=1).status_code == 409
    running.end(QueryState.STOPPED)

    told = act(client, "rewind", to_epoch=1).json()

    assert told["message"].startswith("2 epochs would be undone, 2 to 3. The sink cannot")
    assert running.checkpoint.epochs() == [0, 1, 2, 3]
    # Nobody knows the sink of this checkpoint: so it is refused.
    assert act(client, "rewind", to_epoch=1, dry_run=False).status_code == 400
    assert act(client, "rewind", to_epoch=9).status_code == 400


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (
            {},
            "The rewind will be refused: sink sqlalchemy: which rows of numbers came behind",
        ),
        ({"mode": "upsert", "keycolumns": "id"}, "The sink keeps their rows, and writes over them"),
        ({"epochcolumn": "epoch"}, "The sink takes their rows back."),
    ],
)
def test_a_rewind_tells_first_what_becomes_of_the_rows_of_a_table(
    client: TestClient,
    known: Any,
    running: LiveCheckpoint,
    tmp_path: Path,
    options: dict[str, str],
    told: str,
) -> None:
    known("edited")
    running.end(QueryState.STOPPED)
    database = f"sqlite:///{tmp_path}/shop.db"
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection:
        connection.execute("CREATE TABLE numbers (id BIGINT PRIMARY KEY, epoch BIGINT)")
    sink = {"format": "sqlalchemy", "options": {"path": database, "table": "numbers", **options}}
    write_fingerprint(running.checkpoint.storage, {"source": {}, "sink": sink})

    assert told in act(client, "rewind", to_epoch=1).json()["message"]


def test_storage_that_hangs_holds_no_thread_of_the_server(
    client: TestClient, known: Any, running: LiveCheckpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    known("edited")
    begun: list[int] = []
    answers, ended = Event(), Event()
    prune = CheckpointHook.prune

    def slow(hook: CheckpointHook, keep: int, **given: Any) -> Any:
        begun.append(keep)
        answers.wait(WAIT_S)
        try:
            return prune(hook, keep, **given)
        finally:
            ended.set()

    monkeypatch.setattr(CheckpointHook, "prune", slow)
    monkeypatch.setattr(actions, "ANSWER_MAX_S", 0.1)

    for _ in range(3):
        told = act(client, "prune", keep_epochs=2, dry_run=False)
        assert told.status_code == 504
        assert "prune has not ended within 0.1 s, and goes on" in told.json()["detail"]
    assert begun == [2], "who asks again waits for the same"
    answers.set()
    assert ended.wait(WAIT_S)
    assert running.checkpoint.epochs() == [2, 3]


def test_a_log_is_shown_only_from_where_logs_are(tmp_path: Path, running: LiveCheckpoint) -> None:
    from airflow_provider_continuous.deploy.contract import Handle
    from airflow_provider_continuous.deploy.notes import Notes
    from airflow_provider_continuous.plugins.driver_logs import log_tail

    own = Path(f"{running.location}.logs")
    own.mkdir()
    (own / "query.log").write_text("epoch 7 password=hunter2\n")
    (tmp_path / "secret.log").write_text("nobody's business\n")
    (own / "link.log").symlink_to(tmp_path / "secret.log")
    assert log_tail(running.checkpoint) is None

    shown = []
    for number, log in enumerate((own / "query.log", tmp_path / "secret.log", own / "link.log")):
        assert Notes(running.checkpoint.storage).take(
            Handle("local", "continuous-1", number, log=str(log), host="here")
        )
        told = log_tail(running.checkpoint)
        assert told is not None
        shown.append(told["text"])

    assert shown == ["epoch 7 password=***", "", ""]


def test_a_name_that_is_no_text_darkens_no_page(
    client: TestClient, known: Any, running: LiveCheckpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = {"batchId": 3, "runId": "r", "name": "or\udc80ders", "sink": {"description": "\udc80"}}
    running.checkpoint.progress.write([report])
    running.end(QueryState.FAILED, "The file b\udcff cannot be read.")
    known("edited")
    row = {
        **look_at(running.checkpoint, running.location).to_dict(),
        "owners": [],
    }
    listing = {"roots": [], "absent_roots": [], "queries": [row], "absent": [], "problems": []}
    monkeypatch.setattr(pages, "look_at_all", lambda seen: listing)

    for path in ("/", "/query"):
        shown = client.get(path, params={"at": running.location})
        assert shown.status_code == 200
        assert "cannot be read." in shown.text
    for path in ("/queries.json", "/query.json"):
        told = client.get(path, params={"at": running.location})
        assert told.status_code == 200
        assert "cannot be read." in told.text


@pytest.fixture
def of_no_text(live: LiveCheckpoint, monkeypatch: pytest.MonkeyPatch) -> LiveCheckpoint:
    """A query that only a root holds, beside another one; its folder's name is no UTF-8."""
    root = Root(str(Path(live.location).parent))
    found = LiveCheckpoint(os.fsdecode(os.fsencode(root.location) + b"/b\xff&+%41\xc3"))
    found.commit(0, 1)
    monkeypatch.setattr(pages, "look_at_all", lambda seen: queries.all_queries([root], (), seen))
    monkeypatch.setattr(queries, "shown_roots", lambda problems: [root])
    told(monkeypatch, [])
    return found


def test_a_checkpoint_whose_folder_is_no_text_has_its_page(
    client: TestClient, of_no_text: LiveCheckpoint, manager: Manager
) -> None:
    manager.jobs = manager.all_dags = True
    listed = client.get("/")
    assert listed.status_code == 200
    (link,) = re.findall(r'href="(/query\?at=[^"]*b%FF[^"]*)"', listed.text)

    shown = client.get(html.unescape(link))
    assert shown.status_code == 200
    told = client.get(link.replace("/query?", "/query.json?")).json()
    assert told["checkpoint_location"] == of_no_text.location
    asked = client.post(
        link.replace("/query?", "/act/pin?"), json={"epoch": 1, "name": "p"}, headers=HEADER
    )
    assert asked.status_code == 200
    assert [pin.epoch for pin in of_no_text.checkpoint.pins()] == [1]


def test_no_answer_is_kept_by_who_carries_it(
    client: TestClient, known: Any, running: LiveCheckpoint
) -> None:
    """Records and logs are in the JSON, too; so it is after who has logged in has left."""
    known("edited")
    at = {"at": running.location}

    for told in (
        client.get("/query", params=at),
        client.get("/query.json", params=at),
        act(client, "pin", name="p"),
        client.get("/query.json"),
    ):
        assert told.headers["cache-control"] == "no-store", told.url
        assert told.headers["x-content-type-options"] == "nosniff"
