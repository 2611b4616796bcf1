"""A checkpoint's storage on a real HDFS."""

from __future__ import annotations

import multiprocessing
import uuid
from multiprocessing.synchronize import Barrier

import pytest

from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.storage.contract import Storage
from engine.checkpoint.storage.opening import open_storage, prove_create_if_absent
from engine.commands.command_line import main
from engine.errors import CheckpointError
from tests.cluster.guide import commands
from tests.cluster.on_yarn import GUIDE
from tests.servers.hadoop import Hadoop

RACES = 50
WAIT_S = 120.0


@pytest.fixture
def url(hadoop: Hadoop, monkeypatch: pytest.MonkeyPatch) -> str:
    for name, value in hadoop.environment.items():
        monkeypatch.setenv(name, value)
    return f"hdfs:///checkpoints/{uuid.uuid4()}"


@pytest.fixture
def storage(url: str) -> Storage:
    return open_storage(url)


def race(url: str, writer: int, start: Barrier) -> None:
    """Write all files, each when the other does; leave a list of those that were ours."""
    storage, won = open_storage(url), []
    for number in range(RACES):
        start.wait(WAIT_S)
        if storage.create(f"offsets/{number}", b"%d" % writer * 1000):
            won.append(number)
    storage.create(f"won/{writer}", repr(won).encode())


def test_of_two_processes_one_creates_a_file(url: str, storage: Storage) -> None:
    spawn = multiprocessing.get_context("spawn")
    start = spawn.Barrier(2)
    processes = [spawn.Process(target=race, args=(url, writer, start)) for writer in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(WAIT_S)
    assert [process.exitcode for process in processes] == [0, 0]

    won = [eval(storage.read(f"won/{writer}")) for writer in range(2)]
    assert sorted(won[0] + won[1]) == list(range(RACES))
    for writer, numbers in enumerate(won):
        assert all(storage.read(f"offsets/{n}") == b"%d" % writer * 1000 for n in numbers)
    assert len(storage.list("offsets")) == RACES  # no temporary file is left


def test_the_promises_of_a_storage(storage: Storage) -> None:
    prove_create_if_absent(storage)
    assert not storage.files_below("")
    assert storage.list("offsets") == []
    assert storage.create("offsets/0 ü%", b"") is True
    assert storage.create("offsets/0 ü%", b"x") is False
    storage.replace("offsets/0 ü%", b"12")
    storage.create("metadata", b"{}")
    assert storage.read("offsets/0 ü%") == b"12"
    assert [(file.name, file.size) for file in storage.list("offsets")] == [("0 ü%", 2)]
    assert storage.info("metadata").modified_s > 1_600_000_000
    assert sorted(storage.files_below("")) == ["metadata", "offsets/0 ü%"]
    assert not storage.exists("offsets")
    storage.move("metadata", "rewound/metadata")
    storage.delete("rewound/metadata")
    storage.delete("rewound/metadata")
    with pytest.raises(FileNotFoundError):
        storage.read("metadata")
    storage.delete_all()
    storage.delete_all()
    assert not storage.files_below("")


def test_a_name_node_in_safe_mode_is_told(hadoop: Hadoop, storage: Storage) -> None:
    with hadoop.safe_mode(), pytest.raises(CheckpointError, match="safe mode"):
        storage.create("offsets/0", b"x")
    assert storage.create("offsets/0", b"x")


def test_the_guides_command_finds_it_good(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    (command,) = commands(GUIDE)
    assert command[:2] == ["continuous", "doctor"]
    main([*command[1:-1], url])
    assert f"{open_storage(url).url} keeps create-if-absent" in capsys.readouterr().out


def test_a_checkpoint_without_a_query(url: str) -> None:
    assert Checkpoint(url).status().run_id is None
