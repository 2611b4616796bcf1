"""``pytest --sampled``: of dear files, and of tests marked ``sampled(share)``, a share is played.

What starts clusters, servers or Airflow for one more variant of what others show is dear, and so is
one more value beside Spark; there is more of it with every room of the product. ``make test`` draws
some of each file, by the code of engine and provider: the same for all who have the same, others
after every change. ``make test-whole`` plays all, and so does ``pytest`` with names of tests.
"""

from __future__ import annotations

import functools
import zlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from tests.shares import SHARES

MARK = "sampled"
OPTION = "--sampled"
_ROOT = Path(__file__).parent.parent
_CODE = ("engine", "airflow_provider_continuous")


@functools.cache
def seed_of_code() -> int:
    files = (path for folder in _CODE for path in (_ROOT / folder).rglob("*.py"))
    return zlib.crc32(b"".join(path.read_bytes() for path in sorted(files)))


def left_out(shares: Iterable[tuple[str, float]], seed: int) -> set[str]:
    """Those that are not drawn. Where a share makes one and a half of a file's tests, chance says
    whether that is one or two: the only one of its kind is not played each time.

    :param shares: ids of tests, each with how many of its file's are played, up to 1. Different
        shares are drawn apart.
    """
    together: dict[tuple[str, float], list[str]] = defaultdict(list)
    for name, share in shares:
        together[name.partition("::")[0], share].append(name)
    return {
        name
        for (file, share), names in together.items()
        for name in _by_chance(names, seed)[
            int(len(names) * share + _chance(f"{seed} {file} {share}")) :
        ]
    }


def _chance(of: str) -> float:
    """Below 1, the same for the same text."""
    return zlib.crc32(of.encode()) / 2**32


def _by_chance(names: Sequence[str], seed: int) -> list[str]:
    return sorted(names, key=lambda name: _chance(f"{seed} {name}"))


def leave_out(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Take those that are not drawn out of ``items``."""
    if not config.getoption(OPTION):
        return
    shares = ((item.nodeid, _share(item)) for item in items)
    out = left_out(((name, share) for name, share in shares if share < 1), seed_of_code())
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in out])
    items[:] = [item for item in items if item.nodeid not in out]


def _share(item: pytest.Item) -> float:
    """A test's own, or that of its file."""
    mark = item.get_closest_marker(MARK)
    if mark is not None:
        return float(mark.args[0])
    return SHARES.get(item.nodeid.partition("::")[0], 1)
