"""Checkpoints of Spark itself, and of this engine's earlier versions, always open.

``checkpoints/`` holds what Spark 4.2 and 4.3 wrote (shortened where it was long, and without bulky
state), and what version 1 of this engine's own format looks like. ``prepared-v2/`` holds prepared
epochs that name the engine's own messages by their classes.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.lease import Lease
from engine.checkpoint.logs import commit_log, offset_log
from engine.checkpoint.logs.codec import MessageCodec
from engine.checkpoint.logs.commit_log import CommitEntry
from engine.checkpoint.logs.offset_log import OffsetEntry
from engine.checkpoint.logs.prepared_log import PreparedEntry
from engine.checkpoint.query_state import QueryState
from engine.checkpoint.retention import prune
from engine.coordinator.restart_table import RestartPlan, decide
from engine.errors import CheckpointCorruptError, CheckpointVersionError, ContinuousError
from engine.sinks.files.data_source import FilesMessage, FilesWriter
from engine.sinks.files.file_sink_log import SinkFile
from engine.sinks.noop import NO_MESSAGE, NoMessage
from engine.sinks.shipped import SHIPPED, ShippedRows
from engine.wire.messages import SunkEpoch
from tests.unit import messages_of_a_sink as sink

GOLDENS = Path(__file__).parent / "checkpoints"
SPARKS = sorted(path.name for path in GOLDENS.iterdir() if path.name.startswith("spark-"))
CONTINUOUS = [name for name in SPARKS if name.endswith("-continuous")]


@pytest.fixture
def copy(tmp_path: Path) -> Callable[[str], Path]:
    """A checkpoint that a test may change."""

    def make(name: str) -> Path:
        return Path(shutil.copytree(GOLDENS / name, tmp_path / name))

    return make


def restart(checkpoint: Checkpoint) -> RestartPlan:
    return decide(
        offsets_ids=checkpoint.offsets.ids(),
        commits_ids=checkpoint.commits.ids(),
        prepared=checkpoint.prepared.ids(),
    )


def start(checkpoint: Checkpoint) -> RestartPlan:
    """What a run reads before it begins."""
    checkpoint.create_or_read_query_id("new")
    newest = checkpoint.commits.latest_id()
    if newest is not None:
        checkpoint.commits.get(newest)
    checkpoint.committed_offsets()
    return restart(checkpoint)


def test_the_goldens_are_there() -> None:
    assert SPARKS == [
        "spark-4.2-kafka-continuous",
        "spark-4.2-kafka-microbatch",
        "spark-4.3-files-availablenow",
        "spark-4.3-rate-continuous",
        "spark-4.3-rate-microbatch",
        "spark-4.3-window-watermark",
    ]


@pytest.mark.parametrize(
    ("name", "query_id", "epoch", "offsets"),
    [
        (
            "spark-4.2-kafka-continuous",
            "0bc252e2-1358-4c7e-a79c-aac020d8d524",
            60,
            [{"in": {"0": 9600, "1": 10400}}],
        ),
        (
            "spark-4.2-kafka-microbatch",
            "697cf801-c5b1-4a0d-aa0d-b430fe511f7c",
            40,
            [{"in": {"0": 9600, "1": 10400}}],
        ),
        (
            "spark-4.3-files-availablenow",
            "a53f1e87-40ea-408a-bf60-7b948bd2b0b4",
            5,
            [{"logOffset": 5}],
        ),
        (
            "spark-4.3-rate-continuous",
            "4b7a3015-c3be-4a79-8add-28429c257919",
            7,
            [
                {
                    "0": {"value": 22, "runTimeMs": 1795174660561},
                    "1": {"value": 23, "runTimeMs": 1795174660561},
                }
            ],
        ),
        ("spark-4.3-rate-microbatch", "31be0c72-1ef9-4284-b2bd-fc24de79f72d", 6, [6]),
        ("spark-4.3-window-watermark", "72a8df94-483f-4f12-b866-728920017972", 7, [11]),
    ],
)
def test_status_of_sparks_own(name: str, query_id: str, epoch: int, offsets: list[Any]) -> None:
    checkpoint = Checkpoint(str(GOLDENS / name))
    status = checkpoint.status().to_dict()
    assert checkpoint.exists()
    assert status["id"] == query_id
    assert (status["state"], status["epoch"], status["run_id"]) == ("UNKNOWN", epoch, None)
    assert status["offsets"] == offsets
    assert checkpoint.committed_at_ms(epoch) is not None


@pytest.mark.parametrize("name", SPARKS)
def test_every_entry_opens_and_is_written_back_the_same(name: str) -> None:
    checkpoint = Checkpoint(str(GOLDENS / name))
    epochs = checkpoint.offsets.ids()
    assert len(epochs) >= 3
    assert checkpoint.commits.ids() == epochs
    for epoch in epochs:
        entry, commit = checkpoint.offsets.get(epoch), checkpoint.commits.get(epoch)
        assert entry is not None
        assert commit is not None
        assert offset_log.serialize(entry) == (GOLDENS / name / f"offsets/{epoch}").read_bytes()
        assert commit_log.serialize(commit) == (GOLDENS / name / f"commits/{epoch}").read_bytes()


@pytest.mark.parametrize("name", CONTINUOUS)
def test_our_entries_are_sparks_byte_for_byte(name: str, tmp_path: Path) -> None:
    golden, ours = Checkpoint(str(GOLDENS / name)), Checkpoint(str(tmp_path))
    query_id = golden.query_id()
    assert query_id is not None
    ours.create_or_read_query_id(query_id)
    for epoch in golden.epochs():
        offsets = golden.committed_offsets(epoch)
        assert offsets is not None
        ours.offsets.add(epoch, OffsetEntry(offsets))
        ours.commits.add(epoch, CommitEntry())
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(written) == 1 + 2 * len(golden.epochs())
    for path in written:
        golden_path = GOLDENS / name / path.relative_to(tmp_path)
        assert path.read_bytes() == golden_path.read_bytes(), path


@pytest.mark.parametrize("name", SPARKS)
def test_a_restart_goes_on_behind_the_last_commit(name: str) -> None:
    checkpoint = Checkpoint(str(GOLDENS / name))
    epoch = checkpoint.committed_epoch()
    assert restart(checkpoint) == RestartPlan(first_epoch=epoch + 1, start_from=epoch)


def test_watermarks_are_read() -> None:
    checkpoint = Checkpoint(str(GOLDENS / "spark-4.3-window-watermark"))
    commit, offsets = checkpoint.commits.get(7), checkpoint.offsets.get(7)
    assert commit is not None
    assert commit.next_batch_watermark_ms == 1795174818340
    assert offsets is not None
    assert offsets.metadata is not None
    assert offsets.metadata["batchWatermarkMs"] == 1795174817340


@pytest.mark.parametrize("name", SPARKS)
def test_pruning_sparks_own(name: str, copy: Callable[[str], Path]) -> None:
    folder = copy(name)
    checkpoint = Checkpoint(str(folder))
    epochs = checkpoint.epochs()
    others = {
        path: path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.relative_to(folder).parts[0] not in ("offsets", "commits")
    }
    files = sum(path.is_file() for path in folder.rglob("*"))
    report = prune(checkpoint, keep_epochs=2)
    assert checkpoint.epochs() == checkpoint.offsets.ids() == epochs[-2:]
    assert report.removed_epochs == len(epochs) - 2
    assert report.removed_files == files - sum(path.is_file() for path in folder.rglob("*"))
    assert {path: path.read_bytes() for path in others} == others
    # With its last checksum twin went none of a file that stays.
    for log in ("offsets", "commits"):
        twins = {path.name[1:-4] for path in (folder / log).glob(".*.crc")}
        assert twins <= {str(epoch) for epoch in epochs[-2:]}
    assert restart(checkpoint).start_from == epochs[-1]


def test_a_run_of_ours_on_a_checkpoint_of_spark(copy: Callable[[str], Path]) -> None:
    checkpoint = Checkpoint(str(copy("spark-4.3-rate-continuous")))
    lease = Lease.acquire(checkpoint, run_id="run")
    checkpoint.prepared.add(8, PreparedEntry(lease.generation, "run", (None, None)))
    checkpoint.offsets.add(8, OffsetEntry(({"0": {"value": 24}},)))
    assert restart(checkpoint) == RestartPlan(first_epoch=9, start_from=8, recommit=(8,))
    checkpoint.commits.add(8, CommitEntry())
    assert checkpoint.status().epoch == 8


# -- damage ---------------------------------------------------------------------------------------


def _write(name: str, content: bytes) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        (folder / name).write_bytes(content)

    return damage


def _remove(*names: str) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        for name in names:
            (folder / name).unlink()

    return damage


@pytest.mark.parametrize(
    ("damage", "error", "text"),
    [
        (_remove("metadata"), CheckpointCorruptError, "MISSING_METADATA_FILE"),
        (_write("metadata", b"{"), CheckpointCorruptError, "metadata is not the metadata"),
        (_remove("offsets/7"), CheckpointCorruptError, "without end"),
        (_remove("offsets/3", "commits/3"), CheckpointCorruptError, "the offset log has a gap"),
        (_remove("commits/3"), CheckpointCorruptError, "the commit log has a gap"),
        (_write("offsets/7", b""), CheckpointCorruptError, r"offsets/7\. Incomplete log file"),
        (_write("offsets/7", b"v1\n\n{"), CheckpointCorruptError, "Failed to read log file"),
        (_write("offsets/7", b"v99999"), CheckpointVersionError, "encountered v99999"),
        (_write("commits/7", b"v9\n{}"), CheckpointVersionError, "encountered v9"),
        (_write("commits/7", b""), CheckpointCorruptError, "Incomplete log file in the offset com"),
        (_write("commits/7", b"10"), CheckpointCorruptError, "failed to read correct log version"),
    ],
)
def test_damage_is_named(
    copy: Callable[[str], Path],
    damage: Callable[[Path], None],
    error: type[ContinuousError],
    text: str,
) -> None:
    folder = copy("spark-4.3-rate-continuous")
    damage(folder)
    checkpoint = Checkpoint(str(folder))
    with pytest.raises(error, match=text):
        start(checkpoint)


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda folder: [p.unlink() for p in folder.rglob("*.crc")], id="no checksums"),
        pytest.param(_write("offsets/.7.crc", b"crc\0\0\0\2\0\0\0\0\0"), id="stale checksum"),
        pytest.param(_write("commits/7", b'v2\n{"nextBatchWatermarkMs":0}'), id="v2 commit"),
        pytest.param(_write("commits/7", b"v1\n{}"), id="commit of Spark 2.3"),
        pytest.param(_write("commits/.8.0b5f.tmp", b'v1\n{"nextBatchWatermarkMs":0}'), id="tmp"),
    ],
)
def test_what_spark_tolerates(copy: Callable[[str], Path], damage: Callable[[Path], None]) -> None:
    folder = copy("spark-4.3-rate-continuous")
    damage(folder)
    checkpoint = Checkpoint(str(folder))
    assert checkpoint.status().epoch == 7
    assert restart(checkpoint) == RestartPlan(first_epoch=8, start_from=7)


def test_offsets_ahead_of_the_commits(copy: Callable[[str], Path]) -> None:
    """After kill -9, Spark's offset log may be ahead; Spark would commit the stale entries."""
    folder = copy("spark-4.3-rate-continuous")
    _remove("commits/6", "commits/7")(folder)
    assert restart(Checkpoint(str(folder))) == RestartPlan(
        first_epoch=6, start_from=5, replay=6, set_aside=(("offsets", 7),)
    )


# -- our own format -------------------------------------------------------------------------------


def test_version_1_of_our_own_always_opens() -> None:
    checkpoint = Checkpoint(str(GOLDENS / "engine-v1"))
    status = checkpoint.status()
    assert status.to_dict() == {
        "id": "0b9d6a43-7f3c-4a58-9d5c-52d5c1f1f0aa",
        "epoch": 2,
        "offsets": [{"0": {"value": 4, "runTimeMs": 1795174656061}}],
        "state": "FAILED",
        "run_id": "5f2a3f0e-2c55-4d0f-8a55-d3a1c4a0c9b1",
        "generation": 4,
        "error": "The sink failed to commit epoch 3: disk full",
        "host": "worker-1",
        "pid": 4711,
        "application": "local-1795174650000",
        "application_url": None,
        "heartbeat_at_ms": 1795174658000,
        "started_at_ms": 1795174654000,
        "message": None,
        "restarts": 0,
        "last_error": None,
        "next_attempt_at_ms": None,
        "failing_since_ms": None,
        "error_class": None,
    }
    assert checkpoint.prepared.get(3) == PreparedEntry(
        4, "5f2a3f0e-2c55-4d0f-8a55-d3a1c4a0c9b1", (None, None)
    )
    assert checkpoint.requests.pending(status.run_id or "") == "drain"
    assert checkpoint.progress.read() == [{"batchId": 1}, {"batchId": 2}]
    assert restart(checkpoint) == RestartPlan(first_epoch=4, start_from=3, recommit=(3,))


FILES = FilesMessage(
    (SinkFile("file:///data/out/part-00000-1-5f2a-c000.json", 412, 1795174656061),)
)


@pytest.mark.parametrize(
    ("epoch", "messages"),
    [
        (0, (FILES, FilesMessage(()), None)),  # with the modules of an earlier release
        (1, (ShippedRows(b"\xde\xad"), ShippedRows(), NoMessage())),
        (2, (SunkEpoch(FILES, None), SunkEpoch(FILES, FILES))),
        (
            3,
            (
                SunkEpoch(sink.Slotted("x"), FILES),
                SunkEpoch(sink.Plain(datetime(2024, 2, 29, 12, 30), {"a"}), FILES),
            ),
        ),
    ],
)
def test_messages_by_the_names_of_their_classes_always_open(
    epoch: int, messages: tuple[Any, ...]
) -> None:
    """Version 2 of what is prepared; the classes have moved since."""
    types = {**FilesWriter.messageTypes, **SHIPPED, **NO_MESSAGE}
    modules = (sink.__name__,) if epoch == 3 else ()
    log = Checkpoint(str(GOLDENS.parent / "prepared-v2")).prepared_with(
        MessageCodec(types, modules)
    )
    assert log.get(epoch) == PreparedEntry(
        4,
        "run-1",
        messages,
        'v1\n\n{"0":{"value":4}}',
        "0b9d6a43-7f3c-4a58-9d5c-52d5c1f1f0aa",
    )


def test_a_run_of_ours_on_a_checkpoint_of_version_1(copy: Callable[[str], Path]) -> None:
    checkpoint = Checkpoint(str(copy("engine-v1")))
    assert Lease.acquire(checkpoint, run_id="next").generation == 5
    assert checkpoint.status().state is QueryState.STARTING
