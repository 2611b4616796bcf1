"""One run owns a checkpoint; the others find out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.base.clock import ManualClock, SystemClock
from engine.checkpoint import process
from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.lease import EXPIRES_AFTER_INTERVALS, Lease, read_holder
from engine.checkpoint.process import Process
from engine.checkpoint.query_state import QueryState
from engine.checkpoint.storage.contract import FileInfo
from engine.checkpoint.storage.local_storage import LocalStorage
from engine.errors import ConcurrentRunError, SinkUnavailableError, StaleRunError
from tests.unit.leases import EXPIRED_S, acquire, claims, elsewhere, on_disk


def test_the_first_run(checkpoint: Checkpoint, clock: ManualClock) -> None:
    assert read_holder(checkpoint.storage) is None
    lease = Lease.acquire(
        checkpoint,
        run_id="run-a",
        application="app-1",
        application_url="http://127.0.0.1:1",
        heartbeat_interval_ms=500,
        clock=clock,
    )
    assert (lease.run_id, lease.generation, lease.heartbeat_interval_ms) == ("run-a", 0, 500)
    record = on_disk(checkpoint)
    assert record == lease.record == read_holder(checkpoint.storage)
    assert record.state is QueryState.STARTING
    assert record.process == Process.current()
    assert (record.application, record.application_url) == ("app-1", "http://127.0.0.1:1")
    assert record.started_at_ms == record.heartbeat_at_ms == clock.now_ms()
    assert record.epoch == -1
    lease.check()


def test_heartbeats_change_what_they_are_given(checkpoint: Checkpoint, clock: ManualClock) -> None:
    lease = acquire(checkpoint, clock)
    clock.advance(1)
    lease.heartbeat(state=QueryState.RUNNING, epoch=3)
    clock.advance(1)
    lease.heartbeat(application_url="http://127.0.0.1:2", application="app-1")
    record = on_disk(checkpoint)
    assert record.heartbeat_at_ms == record.started_at_ms + 2000 == clock.now_ms()
    assert (record.state, record.epoch) == (QueryState.RUNNING, 3)
    assert (record.application_url, record.application) == ("http://127.0.0.1:2", "app-1")


def test_a_live_run_is_not_taken_over(checkpoint: Checkpoint, clock: ManualClock) -> None:
    lease = acquire(checkpoint, clock)
    lease.heartbeat(state=QueryState.RUNNING)
    clock.advance(EXPIRES_AFTER_INTERVALS - 0.001)
    with pytest.raises(ConcurrentRunError) as caught:
        acquire(checkpoint, clock, "run-b")
    message = str(caught.value)
    for part in ("run-a", f"process {os.getpid()}", lease.record.host, "10.0 s ago", "RUNNING"):
        assert part in message
    lease.check()
    assert on_disk(checkpoint).run_id == "run-a"
    assert claims(checkpoint) == ["0"]


@pytest.mark.parametrize("state", [QueryState.STOPPED, QueryState.FAILED])
def test_a_released_checkpoint_is_free(
    checkpoint: Checkpoint, clock: ManualClock, state: QueryState
) -> None:
    lease = acquire(checkpoint, clock)
    lease.heartbeat(epoch=7)
    lease.release(state, error="why")
    assert on_disk(checkpoint).state is state
    assert on_disk(checkpoint).error == "why"
    again = acquire(checkpoint, clock, "run-b")
    assert again.generation == 1
    assert on_disk(checkpoint).error is None
    assert on_disk(checkpoint).epoch == 7
    assert claims(checkpoint) == ["1"]
    with pytest.raises(StaleRunError, match="has released"):
        lease.check()
    with pytest.raises(StaleRunError, match="has released"):
        lease.heartbeat()
    lease.release(QueryState.FAILED)
    assert on_disk(checkpoint).run_id == "run-b"


def test_a_silent_run_is_fenced(checkpoint: Checkpoint, clock: ManualClock) -> None:
    old = acquire(checkpoint, clock)
    clock.advance(EXPIRED_S)
    new = acquire(checkpoint, clock, "run-b")
    assert new.generation == 1
    for use in (old.check, old.heartbeat):
        with pytest.raises(StaleRunError, match=r"run-a \(generation 0\).*run run-b"):
            use()
    old.release(QueryState.FAILED, error="too late")
    assert on_disk(checkpoint) == new.record
    new.check()


def test_a_run_that_slept_through_many_takeovers_is_fenced(
    checkpoint: Checkpoint, clock: ManualClock
) -> None:
    old = acquire(checkpoint, clock)
    for index in range(5):
        clock.advance(EXPIRED_S)
        acquire(checkpoint, clock, f"run-{index}")
    assert claims(checkpoint) == ["5"]
    with pytest.raises(StaleRunError, match="run-4"):
        old.check()


def test_a_run_that_slept_and_was_not_missed_goes_on(
    checkpoint: Checkpoint, clock: ManualClock
) -> None:
    lease = acquire(checkpoint, clock)
    clock.advance(3600)
    lease.check()
    assert on_disk(checkpoint).heartbeat_at_ms == clock.now_ms()
    with pytest.raises(ConcurrentRunError):
        acquire(checkpoint, clock, "run-b")


def test_checking_costs_one_look(tmp_path: Path, clock: ManualClock) -> None:
    class Counting(LocalStorage):
        asked: list[str]

        def exists(self, name: str) -> bool:
            self.asked.append(name)
            return super().exists(name)

        def list(self, folder: str) -> list[FileInfo]:
            self.asked.append(folder)
            return super().list(folder)

        def read(self, name: str) -> bytes:
            self.asked.append(name)
            return super().read(name)

    storage = Counting(tmp_path)
    storage.asked = []
    lease = acquire(Checkpoint(storage), clock)
    storage.asked = []
    lease.check()
    assert storage.asked == ["control/generations/0"]


# -- who is alive ---------------------------------------------------------------------------------

HOLDER = """
import sys
from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.lease import Lease
lease = Lease.acquire(Checkpoint(sys.argv[1]), run_id="victim", heartbeat_interval_ms=600_000)
print("held", flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")
@pytest.mark.parametrize("reaped", [True, False], ids=["gone", "zombie"])
def test_after_kill_9_the_next_run_takes_over_at_once(tmp_path: Path, reaped: bool) -> None:
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as victim:
        assert victim.stdout is not None
        assert victim.stdout.readline() == "held\n"
        checkpoint = Checkpoint(str(tmp_path))
        with pytest.raises(ConcurrentRunError, match=f"process {victim.pid}"):
            Lease.acquire(checkpoint, run_id="heir")
        assert checkpoint.status().state is QueryState.STARTING
        victim.kill()
        if reaped:
            victim.wait(60)
        else:
            assert victim.stdout.read() == ""  # the pipe ends with the process
            os.waitid(os.P_PID, victim.pid, os.WEXITED | os.WNOWAIT)
        assert checkpoint.status().state is QueryState.LOST
        clock = ManualClock(SystemClock().now_ms())
        heir = Lease.acquire(checkpoint, run_id="heir", clock=clock)
        assert clock.monotonic_s() == 0, "it was not watched before"
        assert heir.generation == 1
        assert checkpoint.status().state is QueryState.STARTING


def test_a_reused_pid_is_another_process() -> None:
    me = Process.current()
    assert me.is_running() is True
    place, _, ticks = me.started.rpartition("/")
    assert replace(me, started=f"{place}/{int(ticks) - 1}").is_running() is False
    assert replace(me, pid=2**22 + 1).is_running() is False


@pytest.mark.parametrize(
    "change",
    [{"host": "another-host"}, {"started": ""}, {"started": "another-boot/4026531836/1"}],
    ids=str,
)
def test_a_process_elsewhere_cannot_be_judged(change: dict[str, str]) -> None:
    me = Process.current()
    assert replace(me, **change).is_running() is None  # type: ignore[arg-type]
    assert replace(me, pid=2**22 + 1, **change).is_running() is None


@pytest.fixture
def hidden_proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A /proc that shows nothing but the process that looks, as with hidepid=2."""
    proc = tmp_path / "proc"
    (proc / "sys/kernel/random").mkdir(parents=True)
    boot = Path("/proc/sys/kernel/random/boot_id").read_text()
    (proc / "sys/kernel/random/boot_id").write_text(boot)
    (proc / str(os.getpid())).symlink_to(f"/proc/{os.getpid()}")
    (proc / "self").symlink_to(str(os.getpid()))
    monkeypatch.setattr(process, "_PROC", proc)
    process._place.cache_clear()
    yield proc
    process._place.cache_clear()


def test_a_process_may_have_any_name(hidden_proc: Path) -> None:
    """The kernel cuts it to 15 bytes, in the middle of a character, too."""
    me = Process.current()
    (stat := hidden_proc / str(os.getpid())).unlink()
    stat.mkdir()
    ticks = me.started.rpartition("/")[2]
    rest = b" ".join([b"1"] * 18)
    (stat / "stat").write_bytes(b"1 (14 bytes, then \xc3) S " + rest + f" {ticks} 0\n".encode())
    assert me.is_running() is True


def test_a_process_that_proc_does_not_show_is_not_dead(hidden_proc: Path) -> None:
    me = Process.current()
    assert me.is_running() is True
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        assert replace(me, pid=child.pid).is_running() is None
        child.communicate(b"\n")
    assert replace(me, pid=child.pid).is_running() is False  # the kernel knows that it is gone


@pytest.mark.skipif(os.getuid() == 0, reason="root may signal every process")
def test_a_process_of_another_user_is_not_dead(hidden_proc: Path) -> None:
    assert replace(Process.current(), pid=1).is_running() is None


def test_who_holds_a_checkpoint_unseen_keeps_it_until_the_lease_expires(
    checkpoint: Checkpoint, clock: ManualClock, hidden_proc: Path
) -> None:
    lease = acquire(checkpoint, clock)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        for name in ("control/lease", "control/generations/0"):
            hidden = replace(lease.record, pid=child.pid)
            checkpoint.storage.replace(name, hidden.serialize())
        with pytest.raises(ConcurrentRunError):
            acquire(checkpoint, clock, "run-b")
        clock.advance(EXPIRED_S)
        assert acquire(checkpoint, clock, "run-b").generation == 1
        child.communicate(b"\n")


def test_a_proc_of_another_namespace_tells_nothing(hidden_proc: Path) -> None:
    """As in a container that sees the /proc of its host: the numbers are those of others."""
    me = Process.current()
    (hidden_proc / "self").unlink()
    (hidden_proc / "self").symlink_to("1")
    (hidden_proc / "1").symlink_to(f"/proc/{os.getpid()}")
    process._place.cache_clear()
    assert Process.current().started == ""
    assert me.is_running() is None


class EventfulClock(ManualClock):
    """Something happens whenever somebody sleeps."""

    meanwhile: Callable[[], Any]
    slept_s = 0.0

    def sleep(self, seconds: float) -> None:
        self.slept_s += seconds
        super().sleep(seconds)
        self.meanwhile()


@pytest.mark.parametrize("where", ["here", "elsewhere"])
def test_an_old_heartbeat_may_be_a_wrong_clock(tmp_path: Path, where: str) -> None:
    checkpoint, clock = Checkpoint(str(tmp_path)), EventfulClock()
    lease = acquire(checkpoint, clock)
    holders = clock.now_ms

    def beat() -> None:
        behind = replace(lease.record, heartbeat_at_ms=holders() - 3_600_000)
        if where == "elsewhere":
            behind = replace(behind, host="another-host", process_started="")
        checkpoint.storage.replace("control/lease", behind.serialize())

    clock.meanwhile = beat
    clock.jump(3600)
    if where == "elsewhere":
        elsewhere(checkpoint, lease)
    with pytest.raises(ConcurrentRunError, match="run-a"):
        acquire(checkpoint, clock, "run-b")
    assert clock.slept_s == 1
    lease.check()


@pytest.mark.parametrize("where", ["here", "elsewhere"])
def test_a_silent_run_is_watched_before_it_is_taken_over(tmp_path: Path, where: str) -> None:
    checkpoint, clock = Checkpoint(str(tmp_path)), EventfulClock()
    clock.meanwhile = lambda: None
    lease = acquire(checkpoint, clock)
    if where == "elsewhere":
        elsewhere(checkpoint, lease)
    clock.advance(EXPIRED_S)
    assert acquire(checkpoint, clock, "run-b").generation == 1
    assert clock.slept_s == EXPIRES_AFTER_INTERVALS


@pytest.mark.parametrize("alive", [True, False])
def test_a_heartbeat_from_the_future_is_watched_too(tmp_path: Path, alive: bool) -> None:
    checkpoint, clock = Checkpoint(str(tmp_path)), EventfulClock()
    lease = acquire(checkpoint, clock)
    clock.meanwhile = lease.heartbeat if alive else lambda: None
    clock.jump(-3600)
    if alive:
        with pytest.raises(ConcurrentRunError):
            acquire(checkpoint, clock, "run-b")
    else:
        assert acquire(checkpoint, clock, "run-b").generation == 1


def test_a_run_that_ends_while_it_is_watched_is_not_waited_for(tmp_path: Path) -> None:
    checkpoint, clock = Checkpoint(str(tmp_path)), EventfulClock()
    lease = acquire(checkpoint, clock)
    clock.meanwhile = lambda: lease.release(QueryState.STOPPED)
    clock.advance(EXPIRED_S)
    after = acquire(checkpoint, clock, "run-b")
    assert after.generation == 1
    assert after.succeeds is None, "it has said that it ends"
    assert clock.slept_s == 1


def test_what_a_run_does_now_is_not_told_of_one_that_has_ended(checkpoint: Checkpoint) -> None:
    lease = Lease.acquire(checkpoint, run_id="a")
    lease.heartbeat(state=QueryState.DRAINING, message="Finishing the open epoch")
    assert checkpoint.status().message == "Finishing the open epoch"
    lease.release(QueryState.STOPPED)
    assert checkpoint.status().message is None


def test_the_class_of_an_error_is_told(checkpoint: Checkpoint) -> None:
    class MyBrokerAwayError(SinkUnavailableError):
        """As a connector of a user's own may have it."""

    lease = Lease.acquire(checkpoint, run_id="a")
    assert checkpoint.status().error_class is None
    lease.heartbeat(last_error="no route", error_class="SourceUnavailableError")
    assert checkpoint.status().error_class == "SourceUnavailableError"
    lease.release(QueryState.FAILED, error="gone", cause=MyBrokerAwayError("gone"))
    assert checkpoint.status().error_class == "SinkUnavailableError"

    other = Lease.acquire(checkpoint, run_id="b")
    other.heartbeat(last_error="no route", error_class="SourceUnavailableError")
    other.release(QueryState.FAILED, error="not of ours", cause=ValueError())
    assert checkpoint.status().error_class is None


def test_a_lease_of_an_earlier_version_tells_no_class(checkpoint: Checkpoint) -> None:
    lease = Lease.acquire(checkpoint, run_id="a")
    lease.release(QueryState.FAILED, error="gone")
    told = json.loads(checkpoint.storage.read("control/lease"))
    del told["error_class"]
    checkpoint.storage.replace("control/lease", json.dumps(told).encode())

    status = checkpoint.status()

    assert (status.error, status.error_class) == ("gone", None)


def test_a_text_that_is_no_utf8_does_not_stop_the_heartbeats(checkpoint: Checkpoint) -> None:
    text = "cannot read /in/caf\udce9.log"
    lease = Lease.acquire(checkpoint, run_id="a")
    lease.heartbeat(state=QueryState.RESTARTING, message=text, last_error=text)
    lease.release(QueryState.FAILED, error=text)
    status = checkpoint.status()
    assert (status.state, status.error) == (QueryState.FAILED, "cannot read /in/caf\\udce9.log")


def test_of_a_run_that_is_lost_it_is_told_who_it_was_and_since_when(tmp_path: Path) -> None:
    clock = ManualClock(1_795_174_660_561)
    checkpoint = Checkpoint(str(tmp_path), clock=clock)
    lease = acquire(checkpoint, clock)
    lease.heartbeat(state=QueryState.RUNNING, message="Running")
    elsewhere(checkpoint, lease)
    clock.advance(EXPIRED_S)

    status = checkpoint.status()

    assert status.state is QueryState.LOST
    text = f"process {status.pid} on another-host has said nothing since 2026-11-20T"
    assert str(status.message).startswith(text)
    after = acquire(checkpoint, clock, "run-b")
    assert after.succeeds is not None
    assert after.succeeds.silence == status.message
    again = acquire(checkpoint, clock, "run-b")
    assert again.succeeds is None, "a restart in place is no loss"
    again.release(QueryState.STOPPED)
    assert acquire(checkpoint, clock, "run-c").succeeds is None
