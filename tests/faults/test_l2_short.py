"""A sample of the system calls of a query; `python -m tests.faults` goes through all of them."""

from __future__ import annotations

import pytest

from tests.faults import l2_syscalls
from tests.faults.result import table

SAMPLE, SEED = 30, 1


def test_killed_at_and_failed_at_system_calls() -> None:
    result = l2_syscalls.run(sample=SAMPLE, seed=SEED)
    if result.skipped:
        pytest.skip(result.skipped)
    print(table([result]))
    assert result.kept, table([result])
    # A few of the chosen calls may not come: how often a partition is read depends on the time.
    assert result.faults.total() >= SAMPLE * 0.8
