"""What holds up the cases that fall short of their goals, by those who have looked.

A case without an entry is told with the first line of its profile (``python -m bench --profile``).
"""

from __future__ import annotations

from collections.abc import Mapping

REASONS: Mapping[str, str] = {
    "count_latency": (
        "two readers and two reducers keep both cores busy (1.98 of 2, without Spark, one run), so "
        "rows wait for a core: a batch of some 12 rows takes 1.3 ms of CPU in a reader, one of 10 "
        "rows 0.8 ms in a reducer. Common parts of the arithmetic of windows, computed once since "
        "then, took 0.26 ms off a reader's steps by themselves, and the cores are as busy as "
        "before: what the rest goes to is not known yet"
    ),
}
