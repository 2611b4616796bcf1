"""The pool that looks at storage: bounded, fair between places, and in time."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from concurrent.futures import Future, wait
from pathlib import Path

import pytest

from airflow_provider_continuous.observing import places
from airflow_provider_continuous.observing.places import place_of
from airflow_provider_continuous.observing.pool import LookPool, StorageHangsError
from tests.waiting import wait_until

WAIT_S = 120


class Mounts:
    """Places that hang until the test is over."""

    def __init__(self) -> None:
        self.answer = threading.Event()
        self.hanging = 0
        self._lock = threading.Lock()

    def hang(self) -> str:
        with self._lock:
            self.hanging += 1
        self.answer.wait(WAIT_S)
        return "late"


@pytest.fixture
def mounts() -> Iterator[Mounts]:
    made = Mounts()
    yield made
    made.answer.set()


def looking() -> int:
    return sum(thread.name == "continuous-look" for thread in threading.enumerate())


@pytest.mark.parametrize("threads_max", [128, 256])
def test_seven_of_eight_mounts_hang_and_the_eighth_answers(
    mounts: Mounts, threads_max: int
) -> None:
    pool, before = LookPool(threads_max), looking()
    for mount in range(7):
        for _ in range(500):
            pool.submit(f"/mnt/{mount}", mounts.hang)

    def are_full() -> bool:
        at = pool.hanging(0)
        free = threads_max - sum(at.values())
        return len(at) == 7 and all(here >= free for here in at.values())

    wait_until(are_full, "the seven have all that they may have")

    answers = [pool.within("/mnt/7", lambda: "here", WAIT_S) for _ in range(100)]

    assert answers == ["here"] * 100
    assert looking() - before <= threads_max
    # A thread is counted a moment before it looks.
    wait_until(lambda: sum(pool.hanging(0).values()) == mounts.hanging, "they all hang", WAIT_S)
    assert mounts.hanging < threads_max


def test_a_deadline_holds_and_the_error_names_the_place(mounts: Mounts) -> None:
    pool = LookPool()
    pool.submit("/mnt/1", mounts.hang, key="orders")
    wait_until(lambda: mounts.hanging == 1, "it is under way", WAIT_S)
    with pytest.raises(StorageHangsError, match=r"/mnt/1 has not answered for 0\.01 s: 1 looks"):
        pool.within("/mnt/1", mounts.hang, 0.01, key="orders")
    assert pool.hanging(0) == {"/mnt/1": 1}


def test_what_is_under_way_is_not_asked_again(mounts: Mounts) -> None:
    pool = LookPool()
    asked = [pool.submit("/mnt/1", mounts.hang, key="orders") for _ in range(50)]
    other = pool.submit("/mnt/1", mounts.hang, key="sums")
    wait_until(lambda: mounts.hanging == 2, "both are under way")
    assert len({id(future) for future in asked}) == 1
    mounts.answer.set()
    assert [future.result(WAIT_S) for future in (*asked, other)] == ["late"] * 51
    again = pool.submit("/mnt/1", lambda: "anew", key="orders")
    assert again.result(WAIT_S) == "anew"


def test_a_failure_goes_to_who_asked(mounts: Mounts) -> None:
    def fail() -> None:
        raise ValueError("no such bucket")

    with pytest.raises(ValueError, match="no such bucket"):
        LookPool().within("s3://bucket", fail)


def test_places_take_turns(mounts: Mounts) -> None:
    pool, order = LookPool(1), list[str]()
    first = pool.submit("/mnt/0", mounts.hang)
    wait_until(lambda: mounts.hanging == 1, "the only thread is taken")
    futures: list[Future[None]] = []
    for place in ("a", "a", "a", "b"):
        futures.append(pool.submit(place, lambda place=place: order.append(place)))  # type: ignore[misc]
    mounts.answer.set()
    assert not wait([first, *futures], WAIT_S).not_done
    assert order == ["a", "b", "a", "a"]


def test_a_thousand_looks_at_one_place_take_half_of_the_threads() -> None:
    pool, lock = LookPool(32), threading.Lock()
    now = most = 0
    full = threading.Event()

    def look() -> None:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
            if now == 16:
                full.set()
        full.wait(WAIT_S)
        with lock:
            now -= 1

    futures = [pool.submit("s3://bucket", look) for _ in range(1000)]
    assert not wait(futures, WAIT_S).not_done
    assert most == 16


class _AskedAsItLeaves(threading.Condition):
    """Something is asked when an idle thread has waited long enough, and does not know it yet."""

    def __init__(self, pool: LookPool) -> None:
        super().__init__()
        self.pool = pool
        self.asked: Future[str] | None = None

    def wait(self, timeout: float | None = None) -> bool:
        if self.asked is not None or timeout is None:
            return super().wait(timeout)
        self.release()
        self.asked = self.pool.submit("here", lambda: "answer")
        self.acquire()
        return False


def test_an_idle_thread_that_leaves_looks_once_more() -> None:
    pool = LookPool(threads_max=1)
    pool._changed = changed = _AskedAsItLeaves(pool)
    pool.within("here", lambda: None, WAIT_S)
    wait_until(lambda: changed.asked is not None, "an idle thread", WAIT_S)
    assert changed.asked is not None
    assert changed.asked.result(WAIT_S) == "answer"


def test_a_forked_process_has_threads_of_its_own() -> None:
    from airflow_provider_continuous.observing.pool import POOL

    assert POOL.within("/", lambda: 1, WAIT_S) == 1
    child = os.fork()
    if not child:
        code = 1
        try:
            code = POOL.within("/", lambda: 7, WAIT_S)
        finally:
            os._exit(code)  # also when it has no thread: the child must not go on with the tests
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_a_place_is_a_host_or_the_mount_of_a_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = tmp_path / "mountinfo"
    listed.write_bytes(
        b"22 1 8:1 / / rw - ext4 /dev/sda rw\n"
        b"30 22 0:5 / /mnt/nfs rw - nfs host:/x rw\n"
        b"31 22 0:6 / /mnt/with\\040space rw - nfs host:/y rw\n"
        b"32 22 0:7 / /mnt/k\xc3\xb6ln\\134x rw - nfs host:/z rw\n"
        b"33 22 0:8 / /mnt/k\xf6\x85 rw - nfs host:/z rw\n"
    )
    monkeypatch.setattr(places, "_MOUNTS", listed)
    monkeypatch.setattr(places, "_known", (-1e9, []))
    assert place_of("/mnt/nfs/orders") == place_of("file:///mnt/nfs") == "/mnt/nfs/"
    assert place_of("/mnt/nfs2/orders") == place_of("/mnt/nfs/../x") == "/"
    assert place_of("/mnt/with space/orders") == "/mnt/with space/"
    assert place_of("/mnt/köln\\x/orders") == "/mnt/köln\\x/"
    assert place_of("/mnt/k\udcf6\udc85/orders") == "/mnt/k\udcf6\udc85/"
    assert place_of("s3://bucket/orders") == place_of("s3://bucket/sums") == "s3://bucket"
    monkeypatch.setattr(places, "_MOUNTS", tmp_path / "none")
    monkeypatch.setattr(places, "_known", (-1e9, []))
    assert place_of("/mnt/nfs/orders") == "/"
