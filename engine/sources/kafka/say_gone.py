"""Records that are gone before they were read."""

from __future__ import annotations

import logging
from typing import Final

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
        what = f"{low - position:,} records, {position:,} to {low - 1:,}, are gone"
    else:
        what = (
            f"it ends at {high:,}, and the query stands at {position:,}: it was made anew or "
            "truncated, or never had that many records"
        )
    if fails:
        raise OffsetOutOfRangeError(
            f"Kafka at {servers}: partition {at} cannot be read on: {what}.",
            hint="They have expired (retention) or were deleted. To go on with the first record "
            f'that is left, at offset {low:,}, set option("failOnDataLoss", "false").',
        )
    logger.warning(
        "Kafka at %s: partition %s: %s. failOnDataLoss is false: the query goes on at offset %d",
        servers, at, what, low,
    )  # fmt: skip
