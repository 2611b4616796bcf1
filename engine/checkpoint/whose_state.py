"""Who keeps state in a checkpoint: Spark's micro-batches or this engine. Neither reads the other's.
And what Spark keeps that a rewind does not take back: state, and the numbers of batches in sinks.

Spark has a folder for each of its operators, from ``state/0`` on, and may name its stores in the
commit log (``stateUniqueIds``). Ours has one for each stage, and stages are numbered behind
streams, so that there is no ``state/0``; the entries of the offset log name its files.

Source: Spark's ``StateStoreProviderId``, ``OperatorStateMetadataV1``, ``CommitMetadata``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Final

from engine.checkpoint.folder import CheckpointFolder
from engine.checkpoint.logs.offset_log import deserialize
from engine.checkpoint.noted_state import STATE
from engine.errors import ConfigError

_OF_SPARK = ("state/0/_metadata/metadata", "state/0/_metadata/v2")
_VERSION: Final = re.compile(r"(\d+)\.(?:delta|snapshot|zip|changelog)")
_HINT = "Start the query with a checkpoint of its own: it begins anew there, with no state."


def refuse_sparks_state(checkpoint: CheckpointFolder) -> None:
    """:raises ConfigError: Spark keeps state there.
    :raises CheckpointError: the checkpoint cannot be read.
    """
    storage = checkpoint.storage
    found = storage.together(
        lambda: _names_stores(checkpoint),
        *(partial(storage.exists, name) for name in _OF_SPARK),
        lambda: storage.list("state/0/0"),
    )
    if any(found):
        raise ConfigError(
            f"The checkpoint {checkpoint.url} has the state of a query that Spark's micro-batches "
            "run, which is read by Spark alone.",
            hint=f'{_HINT} Or let Spark go on with it: trigger(processingTime="...").',
        )


def _names_stores(checkpoint: CheckpointFolder) -> bool:
    epoch = checkpoint.committed_epoch()
    commit = None if epoch < 0 else checkpoint.commits.get(epoch)
    return commit is not None and bool(commit.state_unique_ids)


def version_of_spark(name: str) -> int | None:
    """Return the version of the state that a file of Spark's holds: behind epoch n that is n + 1.
    None of other files, and of those that the commit log names, which nobody else takes."""
    found = _VERSION.fullmatch(name.rpartition("/")[2])
    return None if found is None else int(found[1])


def refuse_sparks_later_state(checkpoint: CheckpointFolder, epoch: int) -> None:
    """:raises ConfigError: Spark has kept state of later epochs there: behind a rewind its query
        would take it for the state that its own epochs have made.
    :raises CheckpointError: the checkpoint cannot be read.
    """
    versions = map(version_of_spark, checkpoint.storage.files_below("state/0"))
    if any(version is not None and version > epoch + 1 for version in versions):
        raise ConfigError(
            f"The checkpoint {checkpoint.url} has the state of a query that Spark's micro-batches "
            "run, and a rewind does not take that of later epochs away: Spark would take it for "
            "the state that its own epochs have made.",
            hint="Go on from a copy that ends there: continuous copy "
            f"{checkpoint.url} TARGET --to-epoch {epoch}\nIf the sink is a folder of files, take "
            f"it back for the copy: continuous rewind TARGET --to-epoch {epoch} --spec SPEC",
            epoch=epoch,
        )


def refuse_sparks_later_batches(
    checkpoint: CheckpointFolder, epoch: int, has_batch: Callable[[int], bool] | None
) -> None:
    """:raises ConfigError: Spark has begun later epochs as batches, and its sink would skip those
        that run again under their numbers, whatever is in them.
    :raises CheckpointError: the checkpoint cannot be read.

    :param has_batch: of a sink whose log is Spark's, whether that has one; None: it is another.
    """
    later = [each for each in checkpoint.offsets.ids() if each > epoch]
    if not any(
        checkpoint.storage.together(*(partial(is_batch, checkpoint, each) for each in later))
    ):
        return
    if has_batch is None or not has_batch(checkpoint.committed_epoch()):
        raise ConfigError(
            f"Spark's micro-batches have run epochs behind {epoch} of {checkpoint.url}, and "
            "Spark's sinks skip a batch whose number they have (folders of files, Delta, Iceberg): "
            "what runs again would be lost.",
            hint="If the query writes to a folder of files, name that sink (--spec, or sink of the "
            "operator): it takes its later batches back. Otherwise go on from a copy, which is "
            "another query to a table and gives it these rows again: "
            f"continuous copy {checkpoint.url} TARGET --to-epoch {epoch}",
            epoch=epoch,
        )


def refuse_lone_batch(
    checkpoint: CheckpointFolder, epoch: int, offsets: bytes, *, has_earlier: bool
) -> None:
    """:raises ConfigError: nothing would be left before a batch of Spark's: it starts a query from
        the entries of two, also where the last one is committed.

    :param offsets: the entry of the epoch, which may be in a pin alone.
    """
    if epoch > 0 and not has_earlier and deserialize(offsets).is_micro_batch:
        raise ConfigError(
            f"Epoch {epoch} is the oldest that {checkpoint.url} has kept: Spark's micro-batches do "
            f"not start where epoch {epoch - 1} is not in the offset log.",
            hint="Choose a later epoch.",
            epoch=epoch,
        )


def is_batch(checkpoint: CheckpointFolder, epoch: int) -> bool:
    """Whether Spark's micro-batches have begun the epoch; False if there is no such entry.

    :raises CheckpointError: the checkpoint cannot be read.
    """
    entry = checkpoint.offsets.get(epoch)
    return entry is not None and entry.is_micro_batch


def refuse_own_state(checkpoint: CheckpointFolder) -> None:
    """:raises ConfigError: this engine keeps state there.
    :raises CheckpointError: the checkpoint cannot be read.
    """
    epoch = checkpoint.offsets.latest_id()  # which need not be committed
    entry = None if epoch is None else checkpoint.offsets.get(epoch)
    if entry is not None and STATE in (entry.metadata or {}):
        raise ConfigError(
            f"The checkpoint {checkpoint.url} has the state of a query that runs continuously, "
            "which Spark's micro-batches do not read.",
            hint=f'{_HINT} Or go on with it: trigger(continuous="...").',
        )
