"""Where a query begins in a table."""

from __future__ import annotations

from datetime import datetime, timezone

from engine.base.connector_options import Options


def start_ms(taken: Options) -> int | None:
    """The option ``startingTimestamp``, since 1970; without a zone it is in UTC.

    :raises ConfigError: it is no time.
    """
    text = taken.text("startingTimestamp")
    if text is None:
        return None
    try:
        found = datetime.fromisoformat(text.strip().replace("Z", "+00:00"))
    except ValueError as exc:
        raise taken.wrong("startingTimestamp", text, "a time, 2026-11-22T10:00:00Z") from exc
    if found.tzinfo is None:
        found = found.replace(tzinfo=timezone.utc)
    return round(found.timestamp() * 1000)
