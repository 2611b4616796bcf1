"""What each partition of each source has read in the last epoch, and how far it is behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from engine.base.json_text import load

PARTITIONS_SHOWN = 200


def partitions_of(
    report: Mapping[str, Any],
    offsets_of: Callable[[int], Sequence[Any] | None] = lambda _: None,
) -> list[dict[str, Any]]:
    """Return ``{source, partition, offset, end, behind, rows, rows_per_second}``, those that are
    furthest behind first, then the slowest; at most :data:`PARTITIONS_SHOWN`.

    Only of offsets that are a number for each number of a partition, as Kafka's: what others count
    is their own affair. ``rows`` is how far the offset has come, so with gaps there were fewer.

    :param offsets_of: where a committed epoch ends, one offset per source; None: it is not kept.
        Asked if there are so many partitions that the report has not all of them: then it is not
        known how far each is behind.
    """
    found: list[dict[str, Any]] = []
    seconds = float(report.get("batchDuration") or 0) / 1000
    epoch, logged = int(report.get("batchId", -1)), cache(offsets_of)
    for number, source in enumerate(report.get("sources") or []):
        ends = _numbers(source.get("endOffset"), lambda: logged(epoch), number)
        starts = _numbers(source.get("startOffset"), lambda: logged(epoch - 1), number)
        known, lag = (_numbers(source.get(name)) for name in ("latestOffset", "lag"))
        for partition, offset in ends.items():
            rows = offset - starts[partition] if partition in starts else None
            found.append(
                {
                    "source": number,
                    "partition": partition,
                    "offset": offset,
                    # Asked for before the epoch has ended; what was read since was there, too.
                    "end": max(known[partition], offset) if partition in known else None,
                    "behind": lag.get(partition),
                    "rows": rows,
                    "rows_per_second": rows / seconds if rows is not None and seconds else None,
                }
            )
    found.sort(key=lambda each: (-(each["behind"] or 0), each["rows_per_second"] or 0))
    return found[:PARTITIONS_SHOWN]


def offset_of(told: Any) -> Any:
    """Return an offset of a report, as JSON: the engine tells it as text, Spark as it is.

    :raises ValueError: the text was cut, for it was long, or is none of JSON.
    """
    return load(told) if isinstance(told, str) else told


def _numbers(
    told: Any,
    logged: Callable[[], Sequence[Any] | None] = lambda: None,
    number: int = 0,
) -> dict[str, int]:
    """:param logged: the offsets of all sources, of which this one is the ``number``th."""
    try:
        offset = offset_of(told)
    except ValueError:  # cut, for it was long
        offsets = logged()
        offset = None if offsets is None else offsets[number]
    return dict(_leaves("", offset))


def _leaves(name: str, value: Any) -> Iterator[tuple[str, int]]:
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _leaves(f"{name}/{key}" if name else str(key), each)
    elif isinstance(value, int) and not isinstance(value, bool) and name.split("/")[-1].isdecimal():
        yield name, value
