"""What starts leave on a machine: bounded, and never what is in use."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG, task

from airflow_provider_continuous.deploy import leftovers
from airflow_provider_continuous.deploy.cluster import Cluster
from airflow_provider_continuous.deploy.contract import Handle
from airflow_provider_continuous.deploy.leftovers import KEPT, YOUNG_S, code_folder, tag_of, tidy
from airflow_provider_continuous.deploy.notes import Notes
from airflow_provider_continuous.deploy.options import SubmitOptions
from airflow_provider_continuous.deploy.plan import make_plan
from airflow_provider_continuous.deploy.standbys import STANDBYS
from airflow_provider_continuous.deploy.submission import Submission
from airflow_provider_continuous.deploy.submitted import SubmittedQuery
from airflow_provider_continuous.hooks.query import ContinuousQueryHook
from airflow_provider_continuous.operators.checkpoint import PruneCheckpointOperator
from engine.checkpoint.checkpoint import Checkpoint

MANY = KEPT + 5


@pytest.fixture
def checkpoint(spec: dict[str, Any]) -> Checkpoint:
    return Checkpoint(spec["checkpoint_location"])


@pytest.fixture
def folder(checkpoint: Checkpoint) -> Path:
    found = Path(f"{checkpoint.url}.logs")
    found.mkdir(parents=True)
    return found


def old(path: Path, hours: float, content: str = "text\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    then = time.time() - YOUNG_S - 3600 * hours
    os.utime(path, (then, then))
    return path


def log(folder: Path, url: str, number: int, suffix: str = ".log") -> Path:
    name = f"orders-{tag_of(url)}-20260101T0000{number:02}.000000Z{suffix}"
    return old(folder / name, MANY - number)


def test_the_newest_logs_stay(checkpoint: Checkpoint, folder: Path) -> None:
    logs = [log(folder, checkpoint.url, number) for number in range(MANY)]
    others = [
        log(folder, "/data/another/orders", 0),
        old(folder / "orders-20260101T000000.000000Z.log", 99),
        old(folder / "mine.txt", 99),
    ]

    assert tidy(folder, checkpoint.url, checkpoint.storage) == (5, 25)

    assert [each.exists() for each in logs] == [False] * 5 + [True] * KEPT
    assert all(each.exists() for each in others)
    assert tidy(folder, checkpoint.url, checkpoint.storage) == (0, 0)


def test_what_the_ends_of_drivers_have_written_goes_as_well(
    checkpoint: Checkpoint, folder: Path
) -> None:
    told = [log(folder, checkpoint.url, number, ".log.kill") for number in range(MANY)]
    handle = Handle("standalone", "continuous-1", 0, log=str(told[0]).removesuffix(".kill"))
    assert Notes(checkpoint.storage).take(handle)

    assert tidy(folder, checkpoint.url, checkpoint.storage)[0] == 4

    assert [each.exists() for each in told] == [True, *[False] * 4, *[True] * KEPT]


def test_logs_are_bounded_in_size(
    checkpoint: Checkpoint, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leftovers, "LOGS_BYTES", 12)
    logs = [log(folder, checkpoint.url, number) for number in range(4)]

    assert tidy(folder, checkpoint.url, checkpoint.storage)[0] == 2

    assert [each.exists() for each in logs] == [False, False, True, True]


@pytest.mark.parametrize("notes", ["control/submissions", STANDBYS])
def test_what_is_noted_stays(checkpoint: Checkpoint, folder: Path, notes: str) -> None:
    logs = [log(folder, checkpoint.url, number) for number in range(MANY)]
    code = code_folder(folder, checkpoint.url)
    modules = [old(code / f"query_{number:02}.py", MANY - number) for number in range(MANY)]
    said = {"query": f"{modules[0].stem}:query_of_this_task"}
    handle = Handle("local", "continuous-1", 0, log=str(logs[0]), document=said)
    assert Notes(checkpoint.storage, notes).take(handle)

    assert tidy(folder, checkpoint.url, checkpoint.storage)[0] == 8

    for files in (logs, modules):
        assert [each.exists() for each in files] == [True, *[False] * 4, *[True] * KEPT]


def test_what_was_compiled_goes_with_its_module(checkpoint: Checkpoint, folder: Path) -> None:
    code = code_folder(folder, checkpoint.url)
    compiled = code / "__pycache__"
    for number in range(MANY):
        old(code / f"query_{number:02}.py", MANY - number)
        old(compiled / f"query_{number:02}.cpython-312.pyc", MANY - number)

    tidy(folder, checkpoint.url, checkpoint.storage)

    left = {each.name.partition(".")[0] for each in compiled.iterdir()}
    assert left == {each.stem for each in code.glob("*.py")}
    assert len(left) == KEPT


def test_what_was_sent_along_goes_with_the_last_log_that_needs_it(
    checkpoint: Checkpoint, folder: Path
) -> None:
    """A zip is shared, between queries too; a submission that has no log yet is young."""
    url, another = checkpoint.url, "/data/another/orders"
    logs = [log(folder, url, number) for number in range(MANY)]
    stems = [each.stem for each in (*logs, log(folder, another, 0))]
    names = {
        "of-one.zip": [stems[0]],
        "of-two.zip": [stems[0], stems[6]],
        "of-others.zip": [stems[0], stems[-1]],
        "of-a-run.keytab": [stems[1]],
        "of-no-log.zip": [stems[0].replace("T0000", "T2359")],
    }
    for name, needed in names.items():
        old(folder / "sent" / name, 99)
        for stem in needed:
            old(folder / "sent" / f"{name}.for" / stem, 99)
    old(folder / "sent" / "young.zip.for" / f"{stems[0]}9", 99).touch()
    old(folder / "sent" / "young.zip", 99)
    assert Notes(checkpoint.storage).take(Handle("client", "continuous-1", 0, log=str(logs[1])))

    assert tidy(folder, url, checkpoint.storage) == (4 + 2, 30)

    left = {each.name for each in (folder / "sent").iterdir() if each.is_file()}
    assert left == {"of-two.zip", "of-others.zip", "of-a-run.keytab", "young.zip"}


def test_what_is_sent_along_is_noted(
    spec: dict[str, Any], connection: Callable[..., None], tmp_path: Path
) -> None:
    said = {"deploy-mode": "cluster", "keytab": "a2V5dGFi", "principal": "streams@REALM"}
    connection("a_cluster", "spark", host="yarn", extra=said)
    options, submission = SubmitOptions(), Submission(spec, tmp_path / "logs", tag="5a3c9e01")

    make_plan(submission, Cluster.find("a_cluster", options), options)

    sent = [each for each in (tmp_path / "logs" / "sent").iterdir() if each.is_file()]
    assert {each.suffix for each in sent} == {".zip", ".keytab"}
    for file in sent:
        (note,) = file.with_name(f"{file.name}.for").iterdir()
        assert f"{note.name}.log" == submission.path(".log").name


def test_what_is_young_stays(checkpoint: Checkpoint, folder: Path) -> None:
    """Another task may have written its code, and wait for the query of before to drain."""
    for number in range(MANY):
        log(folder, checkpoint.url, number).touch()

    assert tidy(folder, checkpoint.url, checkpoint.storage) == (0, 0)


def test_a_start_and_a_prune_remove_what_is_too_much(
    submitted: list[SubmittedQuery],
    checkpoint: Checkpoint,
    spec: dict[str, Any],
    folder: Path,
    context: Any,
) -> None:
    first = [log(folder, checkpoint.url, number) for number in range(MANY)]
    hook = ContinuousQueryHook()

    started = hook.submit(hook.specification(spec))

    assert not first[0].exists()
    assert tag_of(checkpoint.url) in started.log_path.name
    hook.wait_until_started(started)
    again = log(folder, checkpoint.url, 0)
    os.utime(started.log_path, (0, 0))
    PruneCheckpointOperator(
        task_id="prune", checkpoint_location=checkpoint.url, keep_epochs=2, dry_run=True
    ).execute(context)
    assert again.exists()
    PruneCheckpointOperator(
        task_id="prune", checkpoint_location=checkpoint.url, keep_epochs=2
    ).execute(context)
    assert not again.exists()
    assert started.log_path.exists(), "the query writes there"


def test_the_code_of_a_query_is_beside_its_logs(
    connection: Callable[..., None], tmp_path: Path, submitted: list[SubmittedQuery], context: Any
) -> None:
    connection("continuous_default", "continuous", extra={"log-dir": str(tmp_path / "logs")})
    location = str(tmp_path / "checkpoint")
    code = code_folder(tmp_path / "logs", location)
    earlier = [old(code / f"query_{number:02}.py", MANY - number) for number in range(MANY)]
    with DAG("queries", schedule=None):

        @task.continuous_query(checkpoint_location=location, deferrable=False, poll_interval=0.05)
        def rows(spark):  # type: ignore[no-untyped-def]
            return spark

        rows().operator.execute(context)

    (written,) = (each for each in code.iterdir() if each not in earlier)
    noted = submitted[0].handle.document
    assert noted is not None
    assert noted["query"] == f"{written.stem}:query_of_this_task"
    assert [each.exists() for each in earlier[:5]] == [False] * 5


def test_where_nothing_is_too_much_nothing_is_asked(
    folder: Path, checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a thousand queries, whose notes are in an object store, nor of files of others."""
    for number in range(KEPT):
        log(folder, checkpoint.url, number)
        log(folder, "/data/another/orders", number)
    asked: list[str] = []
    monkeypatch.setattr(leftovers, "all_notes", lambda _: asked.append("notes"))
    is_file = Path.is_file
    monkeypatch.setattr(Path, "is_file", lambda path: asked.append(path.name) or is_file(path))

    assert tidy(folder, checkpoint.url, checkpoint.storage) == (0, 0)

    assert len(asked) == KEPT
    assert all(tag_of(checkpoint.url) in name for name in asked)
