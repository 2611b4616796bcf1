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
from engine.checkpoint.rewind import rewind
from engine.checkpoint.watermark import committed_watermark
from engine.checkpoint.whose_state import refuse_own_state, refuse_sparks_state
from engine.errors import ConfigError

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
