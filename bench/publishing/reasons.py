"""What holds up the cases that fall short of their goals, by those who have looked.

A case without an entry is told with the first line of its profile (``python -m bench --profile``).
"""

from __future__ import annotations

from collections.abc import Mapping

REASONS: Mapping[str, str] = {
    "count_latency": (
        "when this was measured each of two readers got 5,000 rows/s, read each by itself, and "
        "took 0.9 ms of CPU (on a busy machine) for such a batch: 0.7 in its steps, most of it the "
        "arithmetic of windows, 0.14 to split it by key. So readers were never idle, and four busy "
        "tasks shared two cores. Since then few rows wait 1 ms to become more, and the steps take "
        "0.44 ms; not measured again yet"
    ),
}
