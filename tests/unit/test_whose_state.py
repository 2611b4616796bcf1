"""A checkpoint with state is of Spark's micro-batches or of this engine, and never opened by the
other."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.copies import copy_checkpoint
from engine.checkpoint.logs.commit_log import CommitEntry
from engine.checkpoint.logs.offset_log import OffsetEntry
from engine.checkpoint.retention import prune
from engine.checkpoint.rewind import rewind
from engine.checkpoint.storage.local_storage import LocalStorage
from engine.checkpoint.watermark import committed_watermark
from engine.checkpoint.whose_state import refuse_own_state, refuse_sparks_state
from engine.errors import ConfigError
from engine.sinks.builtin_sinks import KeepsNothing
from engine.sinks.files.file_sink_log import FileSinkLog
from engine.sinks.files.file_sink_rewind import FileSinkRewind

GOLDEN = Path(__file__).parents[1] / "golden" / "checkpoints"


def checkpoint(tmp_path: Path, metadata: dict[str, Any] | None, entry: CommitEntry) -> Checkpoint:
    made = Checkpoint(str(tmp_path / "checkpoint"))
    made.create_or_read_query_id("a-query")
    assert made.offsets.add(0, OffsetEntry((1,), metadata))
    assert made.commits.add(0, entry)
    return made


def test_spark_s_state(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / "spark-4.3-window-watermark", tmp_path / "copy")
    found = Checkpoint(str(tmp_path / "copy"))
    with pytest.raises(ConfigError, match="read by Spark alone"):
        refuse_sparks_state(found)
    refuse_own_state(found)
    for part in ("_metadata", "0/_metadata"):  # as earlier versions of Spark have left it
        shutil.rmtree(tmp_path / "copy" / "state" / "0" / part, ignore_errors=True)
    with pytest.raises(ConfigError, match="read by Spark alone"):
        refuse_sparks_state(found)


def test_a_rewind_leaves_no_state_of_spark_that_its_query_would_take_for_its_own(
    tmp_path: Path,
) -> None:
    """Spark loads the newest snapshot below a version, whichever run has written it."""
    shutil.copytree(GOLDEN / "spark-4.3-window-watermark", tmp_path / "copy")
    found = Checkpoint(str(tmp_path / "copy"))
    last = found.committed_epoch()
    for version in range(2, last + 2):  # the golden one has the first alone
        found.storage.create(f"state/0/0/{version}.delta", b"")
    with pytest.raises(ConfigError, match="later epochs") as caught:
        rewind(found, last - 1, accept_repeats=True)
    assert f"copy {found.url} TARGET --to-epoch {last - 1}" in str(caught.value)
    assert found.committed_epoch() == last
    copied = Checkpoint(str(tmp_path / "target"))
    copy_checkpoint(found, copied, last - 1)
    assert rewind(copied, last - 1, accept_repeats=True).to_epoch == last - 1, "nothing is later"


def with_later_batches(tmp_path: Path) -> Checkpoint:
    shutil.copytree(GOLDEN / "spark-4.3-rate-microbatch", tmp_path / "copy")
    return Checkpoint(str(tmp_path / "copy"))


def test_a_rewind_is_refused_where_a_sink_of_spark_would_skip_what_runs_again(
    tmp_path: Path,
) -> None:
    found = with_later_batches(tmp_path)
    last = found.committed_epoch()
    sink, other = (FileSinkLog(LocalStorage(tmp_path / name)) for name in ("log", "other"))
    for epoch in range(last):
        other.add(epoch, [])
        sink.add(epoch, [])
    sink.add(last, [])
    for unknown in (None, KeepsNothing(), FileSinkRewind(other)):
        with pytest.raises(ConfigError, match=r"would be lost.*--spec.*copy") as caught:
            rewind(found, last - 1, sink=unknown, accept_repeats=True)
        assert f"copy {found.url} TARGET --to-epoch {last - 1}" in str(caught.value)
    assert found.committed_epoch() == last
    report = rewind(found, last - 1, sink=FileSinkRewind(sink))
    assert (report.taken_back, sink.latest()) == (True, last - 1)
    assert rewind(found, last - 1, accept_repeats=True).to_epoch == last - 1, "nothing is later"


def test_spark_starts_from_two_batches(tmp_path: Path) -> None:
    """Or fails: batch 3 doesn't exist."""
    found = with_later_batches(tmp_path)
    last = found.committed_epoch()
    found.pin("gold", last - 2)
    prune(found, keep_epochs=2)
    log = FileSinkLog(LocalStorage(tmp_path / "log"))
    for epoch in range(last + 1):
        log.add(epoch, [])
    lone = f"Epoch {last - 1} is the oldest .* where epoch {last - 2} is not .* later epoch"
    with pytest.raises(ConfigError, match=lone):
        copy_checkpoint(found, Checkpoint(str(tmp_path / "target")), last - 1)
    assert not (tmp_path / "target").exists()
    with pytest.raises(ConfigError, match=lone):
        rewind(found, last - 1, sink=FileSinkRewind(log))
    with pytest.raises(ConfigError, match=f"Epoch {last - 2} is the oldest"):
        found.rewind(to_pin="gold", sink=FileSinkRewind(log))
    assert found.committed_epoch() == last


def test_a_batch_that_spark_has_begun_may_be_in_its_sink(tmp_path: Path) -> None:
    found = with_later_batches(tmp_path)
    last = found.committed_epoch()
    found.commits.delete(last)
    with pytest.raises(ConfigError, match="would be lost"):
        rewind(found, last - 1, accept_repeats=True)


def test_stores_that_the_commit_log_names(tmp_path: Path) -> None:
    named = CommitEntry(0, {"0": [["a-store"]]}, version=2)
    with pytest.raises(ConfigError, match="processingTime"):
        refuse_sparks_state(checkpoint(tmp_path, None, named))


def test_our_own_state(tmp_path: Path) -> None:
    noted = {"batchWatermarkMs": 0, "writtenBy": "continuous", "state": {"1": []}}
    ours = checkpoint(tmp_path, noted, CommitEntry(7))
    ours.storage.create("state/1/0.arrow", b"")
    refuse_sparks_state(ours)
    with pytest.raises(ConfigError, match=r'trigger\(continuous="\.\.\."\)'):
        refuse_own_state(ours)
    ours.commits.delete(0)  # its first epoch is prepared
    with pytest.raises(ConfigError, match="micro-batches do not read"):
        refuse_own_state(ours)


@pytest.mark.parametrize(
    "name", ["engine-v1", "spark-4.2-kafka-microbatch", "spark-4.3-rate-continuous"]
)
def test_a_query_without_state_may_change_hands(name: str) -> None:
    found = Checkpoint(str(GOLDEN / name))
    refuse_sparks_state(found)
    refuse_own_state(found)


def test_the_watermark_behind_which_all_is_committed(tmp_path: Path) -> None:
    assert committed_watermark(Checkpoint(str(tmp_path / "none"))) is None
    assert committed_watermark(checkpoint(tmp_path, None, CommitEntry(7))) == (0, 7)
    spark = Checkpoint(str(GOLDEN / "spark-4.3-window-watermark"))
    found = committed_watermark(spark)
    assert found is not None
    entry = spark.offsets.get(found[0])
    assert entry is not None
    assert entry.metadata is not None
    assert found[1] == entry.metadata["batchWatermarkMs"] > 0
