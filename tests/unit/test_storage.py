"""Create-if-absent, replace and the rest: the same promises on a disk and on fsspec."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from engine.checkpoint.storage import local_storage
from engine.checkpoint.storage.contract import FileInfo, Storage, checksum_twin
from engine.checkpoint.storage.fenced_storage import FencedStorage
from engine.checkpoint.storage.fsspec_storage import FsspecStorage
from engine.checkpoint.storage.local_storage import LocalStorage
from engine.checkpoint.storage.opening import open_storage, prove_create_if_absent
from engine.errors import CheckpointError, ConfigError
from tests.unit.web_hdfs import web_hdfs


@pytest.fixture(params=["local", "fenced", "file-url", "memory", "hdfs", "fsspec-folders"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Storage]:
    if request.param == "hdfs":
        with web_hdfs() as server:
            yield open_storage(f"webhdfs://{server.address}/a/checkpoint")
        return
    yield _opened(request.param, tmp_path)


def _opened(kind: str, tmp_path: Path) -> Storage:
    if kind == "fsspec-folders":
        # Stands for SFTP and the like: real folders behind fsspec.
        fs = fsspec.filesystem("file", skip_instance_cache=True)
        return FsspecStorage(fs, str(tmp_path / "a" / "checkpoint"), "folders://checkpoint")
    if kind == "fenced":
        fenced = FencedStorage(tmp_path / "a" / "checkpoint")
        fenced.take("query", 0)
        return fenced
    urls = {
        "local": str(tmp_path / "a" / "checkpoint"),
        "file-url": f"file://{tmp_path}/a/checkpoint",
        "memory": f"memory://{uuid.uuid4()}/checkpoint",
    }
    return open_storage(urls[kind])


def test_nothing_is_there_before_the_first_write(storage: Storage) -> None:
    assert storage.list("") == []
    assert storage.list("offsets") == []
    assert not storage.exists("offsets/0")
    with pytest.raises(FileNotFoundError):
        storage.read("offsets/0")
    with pytest.raises(FileNotFoundError):
        storage.info("offsets/0")
    storage.delete("offsets/0")
    storage.delete_all()


def test_first_create_wins(storage: Storage) -> None:
    assert storage.create("offsets/3", b"first") is True
    assert storage.create("offsets/3", b"second, and longer") is False
    assert storage.read("offsets/3") == b"first"
    assert storage.info("offsets/3").size == 5
    assert [storage.beginning("offsets/3", bytes_max) for bytes_max in (2, 9)] == [b"fi", b"first"]


def test_an_empty_file_is_a_file(storage: Storage) -> None:
    assert storage.create("offsets/3", b"") is True
    assert storage.create("offsets/3", b"more") is False
    assert storage.read("offsets/3") == b""
    assert storage.beginning("offsets/3", 2) == b""


def test_replace_creates_and_swaps(storage: Storage) -> None:
    storage.replace("control/lease", b"one")
    storage.replace("control/lease", b"2", durable=False)
    assert storage.read("control/lease") == b"2"
    assert storage.create("control/lease", b"three") is False


def test_list_has_files_and_no_folders(storage: Storage) -> None:
    storage.create("metadata", b"{}")
    storage.create("offsets/1", b"12")
    storage.create("offsets/.1.crc", b"123")
    storage.create("offsets/7/deeper", b"")
    names = {file.name: file.size for file in storage.list("offsets")}
    assert names == {"1": 2, ".1.crc": 3}
    assert [file.name for file in storage.list("")] == ["metadata"]
    assert not storage.exists("offsets")
    assert not storage.exists("offsets/7")


def test_files_tell_when_they_were_written(storage: Storage) -> None:
    storage.create("probe", b"")
    storage.create("later", b"")
    by_name = {file.name: file for file in storage.list("")}
    assert by_name["probe"].modified_s > 1_600_000_000
    assert abs(by_name["later"].modified_s - by_name["probe"].modified_s) < 60
    assert storage.info("probe") == by_name["probe"]


def test_delete_takes_the_checksum_twin_along(storage: Storage) -> None:
    storage.create("offsets/3", b"x")
    storage.create(checksum_twin("offsets/3"), b"crc")
    storage.delete("offsets/3")
    assert storage.list("offsets") == [] or not storage.has_twins


def test_replace_removes_a_stale_checksum_twin(storage: Storage) -> None:
    storage.create("metadata", b"x")
    storage.create(checksum_twin("metadata"), b"crc")
    storage.replace("metadata", b"y")
    assert "metadata" in {file.name for file in storage.list("")}
    assert len(storage.list("")) == 1 or not storage.has_twins


def test_delete_all(storage: Storage) -> None:
    storage.create("offsets/3", b"x")
    storage.create("metadata", b"x")
    storage.delete_all()
    assert storage.list("") == storage.list("offsets") == []


whole = pytest.mark.parametrize("storage", ["local", "memory", "hdfs"], indirect=True)


@whole
def test_of_many_writers_one_wins(storage: Storage) -> None:
    start, won = threading.Barrier(8), []

    def write(name: bytes) -> None:
        start.wait(60)
        if storage.create("offsets/0", name * 1000):
            won.append(name)

    threads = [threading.Thread(target=write, args=(bytes([65 + i]),)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    (winner,) = won
    assert storage.read("offsets/0") == winner * 1000
    assert [file.name for file in storage.list("offsets")] == ["0"]


class SlowMemory(MemoryFileSystem):  # type: ignore[misc]
    """fsspec's memory, with a pause between its look and its write."""

    cachable = False
    both_have_looked: ClassVar[threading.Barrier]

    def exists(self, path: str, **kwargs: Any) -> bool:
        found = bool(super().exists(path, **kwargs))
        with suppress(threading.BrokenBarrierError):
            self.both_have_looked.wait(0.2)
        return found


def test_memory_is_create_if_absent_among_threads() -> None:
    SlowMemory.both_have_looked = threading.Barrier(2)
    storage = FsspecStorage(SlowMemory(), f"/{uuid.uuid4()}", "memory://slow")
    with ThreadPoolExecutor(2) as pool:
        created = list(pool.map(lambda data: storage.create("offsets/0", data), [b"a", b"b"]))
    assert sorted(created) == [False, True]
    assert storage.read("offsets/0") == [b"a", b"b"][created.index(True)]


@whole
def test_readers_of_a_replaced_file_see_whole_contents(storage: Storage) -> None:
    storage.replace("control/lease", b"a" * 50_000)
    done = threading.Event()

    def swap() -> None:
        for letter in b"bcdefghijk" * 3:
            storage.replace("control/lease", bytes([letter]) * 50_000, durable=False)
        done.set()

    writer = threading.Thread(target=swap)
    writer.start()
    while not done.is_set():
        content = storage.read("control/lease")
        assert len(content) == 50_000
        assert len(set(content)) == 1
    writer.join(60)


@whole
def test_doctor_proves_create_if_absent(storage: Storage) -> None:
    prove_create_if_absent(storage)
    assert storage.list("control") == []


class ForgetfulStorage(LocalStorage):
    """A store that ignores the condition of a conditional write."""

    def create(self, name: str, data: bytes) -> bool:
        self.replace(name, data)
        return True


def test_doctor_refuses_a_store_that_overwrites(tmp_path: Path) -> None:
    storage = ForgetfulStorage(tmp_path)
    with pytest.raises(ConfigError, match="does not keep create-if-absent"):
        prove_create_if_absent(storage)
    assert storage.list("control") == []


class LookingStorage(LocalStorage):
    """A store whose create looks first and then writes: right as long as nobody else does."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.all_have_looked = threading.Barrier(4)

    def create(self, name: str, data: bytes) -> bool:
        if self.exists(name):
            return False
        if threading.current_thread() is not threading.main_thread():  # it is one of the race
            self.all_have_looked.wait(60)
        self.replace(name, data)
        return True


def test_doctor_refuses_a_store_on_which_a_race_has_two_winners(tmp_path: Path) -> None:
    storage = LookingStorage(tmp_path)
    with pytest.raises(ConfigError, match="at once, 4 succeeded"):
        prove_create_if_absent(storage)
    assert storage.list("control") == []


# -- locations ------------------------------------------------------------------------------------


def test_local_spellings_mean_the_same_folder(tmp_path: Path) -> None:
    spellings = (str(tmp_path), f"file://{tmp_path}", f"file:{tmp_path}", f"  {tmp_path}/ ")
    assert {open_storage(each).url for each in spellings} == {str(tmp_path)}


def test_a_relative_path_is_resolved_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    storage = open_storage("checkpoint")
    monkeypatch.chdir("/")
    storage.create("metadata", b"{}")
    assert (tmp_path / "checkpoint" / "metadata").exists()


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("", "is empty"),
        ("   ", "is empty"),
        ("nosuch://bucket/path", "nosuch"),
        ("s3:/bucket/path", "one slash"),  # fsspec makes a local folder of these
        ("dbfs:/checkpoints/orders", "one slash"),
        ("file://host/path", "names the host 'host'"),
    ],
)
def test_unusable_locations_are_named(url: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        open_storage(url)


def test_light_at_the_door() -> None:
    program = (
        "import sys, engine.checkpoint.checkpoint, engine.checkpoint.retention;"
        "import engine.coordinator.restart_table, engine.checkpoint.rewind;"
        "import engine.sinks.reopen;"
        "print([m for m in ('pyspark', 'pandas', 'numpy', 'pyarrow', 'airflow', 'fsspec')"
        " if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"


# -- a local disk in trouble ----------------------------------------------------------------------


def test_temporary_files_lie_beside_and_vanish(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    storage.create("offsets/0", b"x")
    storage.create("offsets/0", b"y")
    storage.replace("offsets/1", b"z")
    assert {path.name for path in (tmp_path / "offsets").iterdir()} == {"0", "1"}


def test_a_folder_in_the_place_of_an_entry_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "offsets" / "3").mkdir(parents=True)
    storage = LocalStorage(tmp_path)
    assert storage.create("offsets/3", b"x") is False
    with pytest.raises(CheckpointError, match="offsets/3"):
        storage.replace("offsets/3", b"x")
    assert {path.name for path in (tmp_path / "offsets").iterdir()} == {"3"}


def test_a_file_in_the_place_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "offsets").write_text("not a folder")
    storage = LocalStorage(tmp_path)
    with pytest.raises(CheckpointError, match=r"Cannot write .*offsets/3"):
        storage.create("offsets/3", b"x")
    assert storage.list("offsets") == []
    assert not storage.exists("offsets/3")


def test_storage_that_refuses_is_an_error_that_names_the_path(tmp_path: Path) -> None:
    storage = open_storage("/proc/nowhere")
    with pytest.raises(CheckpointError, match="/proc/nowhere"):
        storage.create("offsets/3", b"x")


@pytest.fixture
def small_disk(tmp_path: Path) -> Path:
    """A disk of 64 KiB."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("mounting a small disk needs root")
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)], capture_output=True
    )
    if mounted.returncode:
        pytest.skip(f"mounting a small disk is not allowed here: {mounted.stderr.decode()}")
    return folder


def test_a_full_disk(small_disk: Path) -> None:
    try:
        storage = LocalStorage(small_disk / "checkpoint")
        assert storage.create("offsets/0", b"x" * 1000)
        storage.replace("control/lease", b"old")
        (small_disk / "ballast").write_bytes(b"x" * 48_000)
        for write in (storage.create, storage.replace):
            with pytest.raises(CheckpointError, match=r"No space left on device.*Free space"):
                write("offsets/1", b"y" * 50_000)
        with pytest.raises(CheckpointError, match=r"control/lease: No space left"):
            storage.replace("control/lease", b"z" * 50_000, durable=False)
        assert {file.name for file in storage.list("offsets")} == {"0"}
        assert storage.read("control/lease") == b"old"
        (small_disk / "ballast").unlink()
        assert storage.create("offsets/1", b"y")
    finally:
        subprocess.run(["umount", str(small_disk)], check=True)


def test_killed_at_every_fsync_leaves_whole_entries(tmp_path: Path) -> None:
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("needs strace to kill a process at a system call")
    program = (
        "import sys; from engine.checkpoint.storage.local_storage import LocalStorage;"
        "s = LocalStorage(sys.argv[1]);"
        "[print(s.create(f'offsets/{i}', b'%d' % i * 1000), flush=True) for i in range(3)]"
    )
    reported: list[int] = []
    for nth in range(1, 10):
        folder = tmp_path / str(nth)
        folder.mkdir()
        inject = f"inject=fsync:signal=SIGKILL:when={nth}"
        traced = [strace, "-f", "-qq", "-o", "/dev/null", "-e", "trace=fsync", "-e", inject]
        killed = subprocess.run(
            [*traced, sys.executable, "-c", program, str(folder)],
            capture_output=True,
            text=True,
            timeout=60,
        )
        if killed.returncode == 0:
            break
        if "Operation not permitted" in killed.stderr:
            pytest.skip("tracing is not allowed here")
        storage = LocalStorage(folder)
        entries = {f.name for f in storage.list("offsets") if not f.name.startswith(".")}
        for name in entries:
            assert storage.read(f"offsets/{name}") == name.encode() * 1000
        acknowledged = killed.stdout.count("True")
        assert entries >= {str(i) for i in range(acknowledged)}
        assert len(entries) <= acknowledged + 1
        reported.append(acknowledged)
        # The next run meets the leftovers, and finishes what is missing.
        for i in range(3):
            assert storage.create(f"offsets/{i}", b"%d" % i * 1000) is (str(i) not in entries)
    assert reported[0] == 0
    assert reported[-1] == 2
    # Two fsyncs for the names of the folders, then two per entry: its content and its name.
    assert len(reported) == 8


_WRITER = """
import sys
from engine.checkpoint.storage.local_storage import LocalStorage
from engine.errors import CheckpointError
storage = LocalStorage(sys.argv[1])
for i in range(3):
    try:
        storage.create(f"offsets/{i}", b"%d" % i * 1000)
        storage.replace("control/lease", b"%d" % i * 1000)
        print("done", i, flush=True)
    except CheckpointError as error:
        print("refused", i, error, flush=True)
"""


@pytest.mark.parametrize("error", ["EIO", "ENOSPC"])
@pytest.mark.parametrize("calls", ["fsync", "link,linkat", "rename,renameat,renameat2"])
def test_a_system_call_that_fails(calls: str, error: str, tmp_path: Path) -> None:
    """The second one, whichever it is: a clear error, nothing half-written, and it goes on."""
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("needs strace to let system calls fail")
    # Twice the same: what was refused once can be done again.
    for attempt in range(2):
        inject = ["-e", f"inject={calls}:error={error}:when=2"] if attempt == 0 else []
        done = subprocess.run(
            [strace, "-f", "-qq", "-o", "/dev/null", "-e", f"trace={calls}", *inject,
             sys.executable, "-c", _WRITER, str(tmp_path)],
            capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        if "Operation not permitted" in done.stderr:
            pytest.skip("tracing is not allowed here")
        assert done.returncode == 0, done.stderr
        lines = done.stdout.splitlines()
        refused = [line for line in lines if line.startswith("refused")]
        assert len(lines) == 3
        assert len(refused) == (1 if attempt == 0 else 0)
        for line in refused:
            reason = "Input/output error" if error == "EIO" else "No space left on device"
            assert f"{tmp_path}/" in line
            assert reason in line
            assert ("check it before" if error == "EIO" else "Free space there") in line
        storage = LocalStorage(tmp_path)
        for file in storage.list("offsets"):
            assert storage.read(f"offsets/{file.name}") == file.name.encode() * 1000
        for file in storage.list("control"):
            assert file.name == "lease"
            assert len(set(storage.read("control/lease"))) == 1
            assert file.size == 1000
    assert {file.name for file in storage.list("offsets")} == {"0", "1", "2"}


def test_a_folder_of_which_all_files_are_replaced_while_it_is_listed_is_not_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log that keeps two entries, and a reader that is slow."""
    storage = LocalStorage(tmp_path)
    storage.create("commits/1", b"")
    info, replaced = local_storage._info, []

    def slow(name: str, found: os.stat_result) -> FileInfo:
        if not replaced:
            replaced.append(name)
            storage.create("commits/2", b"")
            storage.delete("commits/1")
            raise FileNotFoundError(name)
        return info(name, found)

    monkeypatch.setattr(local_storage, "_info", slow)
    assert [file.name for file in storage.list("commits")] == ["2"]


class LikeGcsfs(MemoryFileSystem):  # type: ignore[misc]
    """Keeps where it goes as gcsfs does, which reads ``STORAGE_EMULATOR_HOST``."""

    cachable = False

    @property
    def _location(self) -> str:
        return os.environ["STORAGE_EMULATOR_HOST"]


class LikeAdlfs(MemoryFileSystem):  # type: ignore[misc]
    """Keeps where it goes as adlfs does, which reads ``AZURE_STORAGE_CONNECTION_STRING``."""

    cachable = False

    class service_client:
        url = "http://localhost:10000/account?sv=2026&sig=secret"


def test_an_endpoint_is_told_apart_without_what_is_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    def endpoint(fs: Any) -> str | None:
        return FsspecStorage(fs, "bucket/one", "x://bucket/one").identity.get("endpoint")

    monkeypatch.setenv("STORAGE_EMULATOR_HOST", "http://me:secret@localhost:4443")
    assert endpoint(LikeGcsfs()) == "http://localhost:4443"
    assert endpoint(LikeAdlfs()) == "http://localhost:10000/account"
    assert endpoint(MemoryFileSystem()) is None
