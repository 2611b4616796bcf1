"""The command line in this process, on real checkpoints: what it prints, and its exit codes."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pytest

from engine.base.clock import SystemClock
from engine.checkpoint.checkpoint import Checkpoint, CheckpointStatus
from engine.checkpoint.lease import Lease
from engine.checkpoint.logs.commit_log import CommitEntry
from engine.checkpoint.logs.offset_log import OffsetEntry
from engine.checkpoint.process import Process
from engine.checkpoint.query_state import QueryState
from engine.checkpoint.standing_by import OwnNote
from engine.commands.command_line import main
from engine.errors import CheckpointError
from tests.unit.leases import held_by

GOLDEN = Path(__file__).parents[1] / "golden" / "checkpoints"
RATE = "spark-4.3-rate-continuous"
RATE_ID = "4b7a3015-c3be-4a79-8add-28429c257919"

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def spark_checkpoint(tmp_path: Path) -> Path:
    """A checkpoint that Spark's own continuous mode has written: epochs 0 to 7."""
    return Path(shutil.copytree(GOLDEN / RATE, tmp_path / "checkpoint"))


def called(capsys: Captured, *arguments: str | Path) -> tuple[int, str, str]:
    """Exit code, standard output, standard error."""
    code = main([str(argument) for argument in arguments])
    return code, *capsys.readouterr()


def called_json(capsys: Captured, *arguments: str | Path) -> tuple[int, dict[str, Any]]:
    """Exit code and the one object on standard output."""
    code, out, _ = called(capsys, *arguments, "--json")
    assert out.count("\n") == 1
    found: dict[str, Any] = json.loads(out)
    return code, found


# -- status -------------------------------------------------------------------------------------


def test_status_of_a_checkpoint_of_spark(spark_checkpoint: Path, capsys: Captured) -> None:
    code, found = called_json(capsys, "status", spark_checkpoint)
    assert code == 0
    assert found["id"] == RATE_ID
    assert found["state"] == "UNKNOWN"
    assert found["epoch"] == 7
    (offset,) = found["offsets"]
    assert offset["0"] == {"value": 22, "runTimeMs": 1795174660561}
    assert offset["1"] == {"value": 23, "runTimeMs": 1795174660561}
    assert [found[key] for key in ("run_id", "generation", "error")] == [None, None, None]


def test_status_for_people(spark_checkpoint: Path, capsys: Captured) -> None:
    code, out, err = called(capsys, "status", spark_checkpoint)
    assert (code, err) == (0, "")
    shown = dict(line.split(maxsplit=1) for line in out.splitlines())
    assert shown.keys() == {"query", "state", "epoch", "offsets"}
    assert (shown["query"], shown["state"], shown["epoch"]) == (RATE_ID, "UNKNOWN", "7")


def test_status_of_a_failed_run(spark_checkpoint: Path, capsys: Captured) -> None:
    lease = Lease.acquire(Checkpoint(str(spark_checkpoint)), run_id="run-1", application="app-1")
    lease.release(QueryState.FAILED, error="The sink is full.")
    code, found = called_json(capsys, "status", spark_checkpoint)
    assert code == 0, "the status was told, whatever it is"
    assert found["state"] == "FAILED"
    assert found["error"] == "The sink is full."
    assert (found["run_id"], found["application"], found["generation"]) == ("run-1", "app-1", 0)


def test_status_has_the_last_progress(spark_checkpoint: Path, capsys: Captured) -> None:
    checkpoint = Checkpoint(str(spark_checkpoint))
    checkpoint.progress.write([{"batchId": 6}, {"batchId": 7, "numInputRows": 3}])
    _, found = called_json(capsys, "status", spark_checkpoint)
    assert found["last_progress"] == {"batchId": 7, "numInputRows": 3}


@pytest.mark.parametrize("command", ["status", "epochs", "drain", "stop", "prune"])
def test_no_checkpoint(command: str, tmp_path: Path, capsys: Captured) -> None:
    code, out, err = called(capsys, command, tmp_path / "nowhere")
    assert (code, out) == (2, "")
    assert err.startswith(f"continuous {command}: There is no checkpoint at ")
    assert err.count("\n") == 1
    assert not (tmp_path / "nowhere").exists()
    code, found = called_json(capsys, command, tmp_path / "nowhere")
    assert code == 2
    assert found["error"] in err


def test_a_corrupt_checkpoint_is_a_failure(spark_checkpoint: Path, capsys: Captured) -> None:
    (spark_checkpoint / "metadata").write_text("nonsense")
    code, out, err = called(capsys, "status", spark_checkpoint)
    assert (code, out) == (1, "")
    assert "metadata is not the metadata of a query" in err
    assert "Traceback" not in err
    _, _, err = called(capsys, "status", spark_checkpoint, "--debug")
    assert "Traceback" in err


# -- epochs -------------------------------------------------------------------------------------


def test_epochs(spark_checkpoint: Path, capsys: Captured) -> None:
    Checkpoint(str(spark_checkpoint)).progress.write(
        [{"batchId": 7, "numInputRows": 3, "latencyMs": {"readToWritten": {"p50": 0.4, "p99": 1}}}]
    )
    code, found = called_json(capsys, "epochs", spark_checkpoint, "--last", "2")
    assert (code, found["first"], found["last"], found["kept"]) == (0, 0, 7, 8)
    assert [row["epoch"] for row in found["epochs"]] == [6, 7]
    six, seven = found["epochs"]
    assert (six["rows"], six["p50_ms"]) == (None, None)
    assert (seven["rows"], seven["p50_ms"], seven["p99_ms"]) == (3, 0.4, 1)
    assert seven["offsets"][0]["0"]["value"] == 22
    assert seven["committed_at"].endswith("Z")


def test_epochs_for_people(spark_checkpoint: Path, capsys: Captured) -> None:
    code, out, _ = called(capsys, "epochs", spark_checkpoint)
    lines = out.splitlines()
    assert code == 0
    assert lines[0].split()[:3] == ["epoch", "committed", "at"]
    assert [line.split()[0] for line in lines[2:10]] == [str(epoch) for epoch in range(8)]
    assert lines[-1] == "8 committed epochs are kept, 0 to 7."


def test_no_epoch_is_committed_yet(tmp_path: Path, capsys: Captured) -> None:
    Checkpoint(str(tmp_path / "new")).create_or_read_query_id("id-1")
    assert called(capsys, "epochs", tmp_path / "new")[:2] == (0, "No epoch is committed yet.\n")


# -- prune --------------------------------------------------------------------------------------


def test_one_is_told_in_the_singular(spark_checkpoint: Path, capsys: Captured) -> None:
    told = called(capsys, "prune", spark_checkpoint, "--keep-epochs", "7")[1]
    assert told.startswith("Removed 1 epoch: 4 files, ")
    for epoch in range(1, 8):
        (spark_checkpoint / "commits" / str(epoch)).unlink(missing_ok=True)
    (spark_checkpoint / "commits" / "1").write_text("v1\n{}")
    told = called(capsys, "epochs", spark_checkpoint)[1]
    assert told.splitlines()[-1] == "1 committed epoch is kept, 1."


def test_prune(spark_checkpoint: Path, capsys: Captured) -> None:
    arguments = ("prune", spark_checkpoint, "--keep-epochs", "3")
    code, dry = called_json(capsys, *arguments, "--dry-run")
    assert (code, dry["removed_epochs"], dry["kept_from"], dry["dry_run"]) == (0, 5, 5, True)
    assert len(list((spark_checkpoint / "commits").glob("[0-9]*"))) == 8
    code, out, _ = called(capsys, *arguments)
    assert code == 0
    assert out.startswith(f"Removed 5 epochs: {dry['removed_files']} files, ")
    assert out.endswith("Kept from epoch 5.\n")
    assert sorted(p.name for p in (spark_checkpoint / "offsets").glob("[0-9]*")) == ["5", "6", "7"]


def test_prune_by_age(spark_checkpoint: Path, capsys: Captured) -> None:
    code, found = called_json(capsys, "prune", spark_checkpoint, "--keep-for", "7000 days")
    assert (code, found["removed_epochs"]) == (0, 0)
    code, found = called_json(capsys, "prune", spark_checkpoint, "--keep-for", "0 s")
    assert (code, found["kept_from"]) == (0, 6)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--keep-epochs", "1"], "keep_epochs is 1; a restart needs the last 2 epochs."),
        (["--keep-for", "a while"], "--keep-for: 'a while' cannot be used"),
    ],
)
def test_prune_refuses(
    arguments: list[str], reason: str, spark_checkpoint: Path, capsys: Captured
) -> None:
    code, _, err = called(capsys, "prune", spark_checkpoint, *arguments)
    assert code == 2
    assert reason in err


# -- drain and stop -----------------------------------------------------------------------------


@contextmanager
def running(location: Path, ends: QueryState, error: str | None = None) -> Iterator[list[str]]:
    """A run that holds the lease until it is asked to end; yields what it was asked for."""
    checkpoint = Checkpoint(str(location))
    asked: list[str] = []
    lease = Lease.acquire(checkpoint, run_id="run-1", heartbeat_interval_ms=60_000)
    lease.heartbeat(state=QueryState.RUNNING)
    given_up = threading.Event()

    def run() -> None:
        while not given_up.wait(0.01):
            kind = checkpoint.requests.pending("run-1")
            if kind is not None:
                asked.append(kind)
                lease.release(ends, error=error)
                return

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield asked
    finally:
        given_up.set()
        thread.join()


@pytest.mark.parametrize("command", ["drain", "stop"])
def test_a_run_is_ended(command: str, spark_checkpoint: Path, capsys: Captured) -> None:
    with running(spark_checkpoint, QueryState.STOPPED) as asked:
        code, found = called_json(capsys, command, spark_checkpoint, "--timeout", "60")
    assert asked == [command]
    assert (code, found["state"], found["run_id"]) == (0, "STOPPED", "run-1")
    code, out, _ = called(capsys, command, spark_checkpoint)
    assert (code, out) == (0, "No run holds the checkpoint: the query is STOPPED.\n")


@pytest.mark.parametrize("command", ["drain", "stop"])
def test_a_query_that_spark_runs_alone_cannot_be_asked(
    command: str, spark_checkpoint: Path, capsys: Captured
) -> None:
    code, out, err = called(capsys, command, spark_checkpoint)
    assert (code, out) == (2, "")
    assert "Spark's own query, started without this engine, cannot be asked from outside" in err
    assert "query.stop() in its own process" in err
    assert not (spark_checkpoint / "control").exists()


def test_a_run_that_fails_while_it_drains(spark_checkpoint: Path, capsys: Captured) -> None:
    with running(spark_checkpoint, QueryState.FAILED, "The sink is full."):
        code, out, _ = called(capsys, "drain", spark_checkpoint)
    assert code == 1
    assert out == "The query is FAILED, last committed epoch 7. The sink is full.\n"


def test_a_run_that_does_not_end_in_time(spark_checkpoint: Path, capsys: Captured) -> None:
    checkpoint = Checkpoint(str(spark_checkpoint))
    lease = Lease.acquire(checkpoint, run_id="run-1", heartbeat_interval_ms=60_000)
    code, out, _ = called(capsys, "drain", spark_checkpoint, "--timeout", "0")
    assert code == 1
    assert out == "The query was asked to drain, and has not ended after 0 s.\n"
    assert checkpoint.requests.pending("run-1") == "drain"
    lease.release(QueryState.STOPPED)


def test_storage_that_is_away_while_the_run_ends(
    spark_checkpoint: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, looks = Checkpoint.status, iter(range(3))

    def status(self: Checkpoint) -> CheckpointStatus:
        if next(looks, 0):
            raise CheckpointError("the storage is away")
        return whole(self)

    monkeypatch.setattr(Checkpoint, "status", status)
    with running(spark_checkpoint, QueryState.STOPPED):
        code, out, _ = called(capsys, "drain", spark_checkpoint, "--timeout", "60")
    assert (code, out) == (0, "The query is STOPPED, last committed epoch 7.\n")
    assert next(looks, None) is None


@pytest.mark.parametrize("takes_over", [False, True])
def test_the_standby_of_a_lost_run_is_asked(
    takes_over: bool, spark_checkpoint: Path, capsys: Captured
) -> None:
    """It may look at the lost run for seconds before it takes over, and does not if it was asked
    in time."""
    checkpoint = Checkpoint(str(spark_checkpoint))
    lease = Lease.acquire(checkpoint, run_id="run-1", heartbeat_interval_ms=60_000)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        held_by(checkpoint, lease, Process.of(child.pid))
        child.communicate(b"\n")
    assert checkpoint.status().state is QueryState.LOST
    note, given_up = OwnNote(checkpoint.storage, SystemClock()), threading.Event()
    note.tell()

    def stand_by() -> None:
        while checkpoint.requests.pending("run-1") != "drain" and not given_up.wait(0.01):
            continue
        if takes_over:
            Lease.acquire(checkpoint, run_id="run-2").release(QueryState.STOPPED)
        note.forget()

    thread = threading.Thread(target=stand_by)
    thread.start()
    try:
        code, out, _ = called(capsys, "drain", spark_checkpoint, "--timeout", "60")
    finally:
        given_up.set()
        thread.join()
    state = "STOPPED" if takes_over else "LOST"
    assert out.startswith(f"The query is {state}, last committed epoch 7.")
    assert code == (0 if takes_over else 1)


# -- run, as far as it needs no Spark -----------------------------------------------------------


def test_run_lists_what_is_wrong_with_the_specification(tmp_path: Path, capsys: Captured) -> None:
    spec = tmp_path / "query.yaml"
    spec.write_text("source: {fromat: rate}\n")
    code, out, err = called(capsys, "run", spec)
    assert (code, out) == (2, "")
    assert err == (
        f"continuous run: {spec} has 4 problems:\n"
        "  source.fromat: unknown key; did you mean format?\n"
        "  source.format: is missing\n"
        "  sink: is missing\n"
        "  checkpoint_location: is missing\n"
    )
    code, found = called_json(capsys, "run", spec)
    assert code == 2
    assert "sink: is missing" in found["error"]


def test_run_without_its_file(tmp_path: Path, capsys: Captured) -> None:
    code, _, err = called(capsys, "run", tmp_path / "nowhere.yaml")
    assert code == 2
    assert err.endswith("nowhere.yaml cannot be read: No such file or directory.\n")


# -- usage --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ([], "arguments are required: COMMAND"),
        (["stats"], "invalid choice: 'stats'"),
        (["status"], "arguments are required: CHECKPOINT"),
        (["epochs", "c", "--last", "0"], "'0' is not a whole number from 1"),
        (["drain", "c", "--timeout", "soon"], "'soon' is not a number of seconds"),
    ],
)
def test_wrong_arguments(arguments: list[str], reason: str, capsys: Captured) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert reason in capsys.readouterr().err


def test_as_a_module() -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "engine", "status", "--json", str(GOLDEN / RATE)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert shown.returncode == 0, shown.stderr
    assert json.loads(shown.stdout)["id"] == RATE_ID


def test_what_is_no_utf8_is_printed_by_its_escape(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    checkpoint = Checkpoint(str(tmp_path))
    checkpoint.create_or_read_query_id("id")
    checkpoint.offsets.add(0, OffsetEntry(({"caf\udce9": 1},)))
    checkpoint.commits.add(0, CommitEntry())
    lease = Lease.acquire(checkpoint, run_id="run")
    lease.release(QueryState.FAILED, error="no /in/caf\udce9.log")
    assert main(["status", str(tmp_path)]) == 0
    assert "no /in/caf\\udce9.log" in capfd.readouterr().out


def epochs_into(written: IO[bytes], folder: Path, *more: str) -> tuple[int, str]:
    """Exit code and standard error of ``continuous epochs`` on a query that has ended."""
    lease = Lease.acquire(Checkpoint(str(folder)), run_id="run-1")
    lease.release(QueryState.STOPPED)
    ended = subprocess.run(
        [sys.executable, "-m", "engine", "epochs", str(folder), *more],
        stdout=written,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
    )
    return ended.returncode, ended.stderr


@pytest.mark.parametrize("more", [[], ["--follow"], ["--json"]])
def test_who_reads_may_leave(more: list[str], spark_checkpoint: Path) -> None:
    unread, output = os.pipe()
    os.close(unread)
    with os.fdopen(output, "wb") as written:
        assert epochs_into(written, spark_checkpoint, *more) == (141, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
@pytest.mark.parametrize("more", [[], ["--follow"], ["--json"]])
def test_output_that_cannot_be_written_is_told(more: list[str], spark_checkpoint: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        code, told = epochs_into(full, spark_checkpoint, *more)
    assert code == 1
    (line,) = told.splitlines()
    assert line.startswith("continuous epochs: Standard output cannot be written to: ")
    assert "No space left on device" in line


def test_what_the_encoding_has_not_is_escaped(tmp_path: Path) -> None:
    checkpoint = Checkpoint(str(tmp_path))
    checkpoint.create_or_read_query_id("id")
    Lease.acquire(checkpoint, run_id="run").release(QueryState.FAILED, error="no 3 → 2, é")
    ended = subprocess.run(
        [sys.executable, "-m", "engine", "status", str(tmp_path)],
        capture_output=True,
        timeout=60,
        env={**os.environ, "PYTHONIOENCODING": "latin-1"},
    )
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert "no 3 \\u2192 2, é".encode("latin-1") in ended.stdout


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
@pytest.mark.parametrize("redirected", ["2>&-", "2>/dev/full"])
@pytest.mark.parametrize("asked", [["status", "nowhere"], ["status", "nowhere", "--bad"], ["x"]])
def test_wrong_use_is_told_by_the_exit_code_if_nobody_hears(
    redirected: str, asked: list[str], tmp_path: Path
) -> None:
    command = shlex.join([sys.executable, "-m", "engine", *asked])
    root = str(Path(__file__).parents[2])
    ended = subprocess.run(
        f"{command} {redirected}",
        shell=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": root},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (2, "", "")
