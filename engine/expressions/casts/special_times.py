"""``CAST('today' AS DATE)``: constant texts that name a moment, and not by its numbers.

Spark's optimizer puts the moment in their place, anew for each batch; so only constants are meant.

::

    (epoch|now|today|tomorrow|yesterday) [zone]     in any case; ``now`` has no zone

The zone must be one, and says nothing else.

Source: ``SpecialDatetimeValues``; ``DateTimeUtils.extractSpecialValue``, ``convertSpecialDate``,
``convertSpecialTimestamp``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import pyarrow as pa

from engine.expressions.casts.parse_numbers import JAVA_BLANKS
from engine.expressions.casts.rules import Casting
from engine.expressions.times import current_time
from engine.expressions.times.civil import MICROS_PER_DAY
from engine.expressions.times.zones import is_zone

_TEXT: Final = re.compile(r"([A-Za-z]+)[ \t]*([^\n\r\x85\u2028\u2029]*)")
_DAYS: Final = {"today": 0, "tomorrow": 1, "yesterday": -1}


def special_moment(text: str, casting: Casting) -> Callable[[], int] | None:
    """Days or microseconds since 1970 as of the present batch; None for any other text."""
    match = _TEXT.fullmatch(text.strip(JAVA_BLANKS))
    name = match[1].lower() if match is not None else ""
    if match is None or (match[2] and (name == "now" or not is_zone(match[2]))):
        return None
    if name == "epoch":
        return lambda: 0
    if name != "now" and name not in _DAYS:
        return None
    days = _DAYS.get(name, 0)
    if pa.types.is_date32(casting.target):
        return lambda: _today(casting) + days
    if name == "now":
        return lambda: _now(casting)
    if casting.target.tz is None:
        return lambda: (_today(casting) + days) * MICROS_PER_DAY
    return lambda: _midnight(casting, days)


def _today(casting: Casting) -> int:
    return int(casting.zone.local_parts(current_time.batch_micros())[0])


def _now(casting: Casting) -> int:
    micros = current_time.batch_micros()
    return micros if casting.target.tz else int(casting.zone.to_local(micros)[0])


def _midnight(casting: Casting, days: int) -> int:
    """By ``ZonedDateTime.with(MIDNIGHT).plusDays``: where there is none, an hour later."""
    here, now = casting.zone, current_time.batch_micros()
    midnight, _ = here.instants(here.local_parts(now)[0], 0, here.offset_at(now))
    return int(here.later(midnight, days, 0)[0])
