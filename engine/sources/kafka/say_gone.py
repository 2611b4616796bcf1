"""Records that are gone before they were read."""

from __future__ import annotations

import logging
from typing import Final

from engine.base.text_tables import are, count
from engine.errors import OffsetOutOfRangeError
from engine.sources.kafka.offsets import TopicPartition

logger: Final = logging.getLogger(__name__)


def say_gone(
    servers: str, at: TopicPartition, position: int, low: int, high: int, *, fails: bool
) -> None:
    """Tell that a partition does not have the record of ``position``.

    :param low: the offset of its first record; ``high`` that behind its last.
    :param fails: that is an error; else who calls goes on with the first record.
    :raises OffsetOutOfRangeError: if so.
    """
    if position < low:
        gone, until = low - position, f" to {low - 1:,}" if low - position > 1 else ""
        what = f"{count(gone, 'record')}, {position:,}{until}, {are(gone)} gone"
    else:
        what = (
            f"it ends at {high:,}, and the query stands at {position:,}: it was made anew or "
            "truncated, or never had that many records"
        )
    _say(
        servers, at, what, low, fails=fails,
        why="They have expired (retention) or were deleted. ", where="with the first record that "
        "is left, ",
    )  # fmt: skip


def say_truncated(
    servers: str, at: TopicPartition, position: int, reason: str, *, fails: bool
) -> None:
    """Tell that a partition has lost records before ``position``, and has others there by now.

    :param reason: what the client was told.
    :param fails: that is an error; else who calls goes on at ``position``.
    :raises OffsetOutOfRangeError: if so.
    """
    what = (
        f"{reason}. By now offset {position:,} is there: the partition was truncated before it, "
        "and written again, or was behind for a moment"
    )
    _say(
        servers, at, what, position, fails=fails,
        why="A leader that lacked the newest records may have been elected (see "
        "unclean.leader.election.enable): what was written again before that offset was not read. ",
    )  # fmt: skip


def _say(
    servers: str,
    at: TopicPartition,
    what: str,
    goes_on: int,
    *,
    fails: bool,
    why: str,
    where: str = "",
) -> None:
    if fails:
        raise OffsetOutOfRangeError(
            f"Kafka at {servers}: partition {at} cannot be read on: {what}.",
            hint=f"{why}To go on {where}at offset {goes_on:,}, set "
            'option("failOnDataLoss", "false").',
        )
    logger.warning(
        "Kafka at %s: partition %s: %s. failOnDataLoss is false: the query goes on at offset %d",
        servers, at, what, goes_on,
    )  # fmt: skip
