"""A few deaths on a real Spark; `python -m tests.faults` has more of them, and all kinds."""

from __future__ import annotations

import pytest

from tests.faults import l4_spark
from tests.faults.result import table

pytestmark = pytest.mark.spark
FAULTS = (
    *[l4_spark.WORKER] * 6,
    l4_spark.OTHER_WORKER,
    l4_spark.DAEMON,
    l4_spark.DRIVER,
)


def test_killed_workers_daemon_and_driver() -> None:
    result = l4_spark.run(FAULTS)
    print(table([result]))
    assert result.kept, table([result])
    assert result.faults.total() == len(FAULTS)
