"""What each partition of each source has read in the last epoch, and how far it is behind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from engine.base.json_text import load

PARTITIONS_SHOWN = 200


def partitions_of(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return ``{source, partition, offset, end, behind, rows, rows_per_second}``, those that are
    furthest behind first, then the slowest; at most :data:`PARTITIONS_SHOWN`.

    Only of offsets that are a number for each number of a partition, as Kafka's: what others count
    is their own affair. ``rows`` is how far the offset has come, so with gaps there were fewer.
    """
    found: list[dict[str, Any]] = []
    seconds = float(report.get("batchDuration") or 0) / 1000
    for number, source in enumerate(report.get("sources") or []):
        starts, ends, known, lag = (
            dict(_numbers(source.get(name)))
            for name in ("startOffset", "endOffset", "latestOffset", "lag")
        )
        for partition, offset in ends.items():
            rows = offset - starts[partition] if partition in starts else None
            found.append(
                {
                    "source": number,
                    "partition": partition,
                    "offset": offset,
                    "end": known.get(partition),
                    "behind": lag.get(partition),
                    "rows": rows,
                    "rows_per_second": rows / seconds if rows is not None and seconds else None,
                }
            )
    found.sort(key=lambda each: (-(each["behind"] or 0), each["rows_per_second"] or 0))
    return found[:PARTITIONS_SHOWN]


def _numbers(text: str | None) -> Iterator[tuple[str, int]]:
    try:
        offset = load(text) if text else None
    except ValueError:
        return  # cut, for it was long
    yield from _leaves("", offset)


def _leaves(name: str, value: Any) -> Iterator[tuple[str, int]]:
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _leaves(f"{name}/{key}" if name else str(key), each)
    elif isinstance(value, int) and not isinstance(value, bool) and name.split("/")[-1].isdecimal():
        yield name, value
