"""A profile is a few places of ours with their shares."""

from __future__ import annotations

import pytest

from bench.profiling import shares

STACKS = [
    "main (bench/latency.py);read (engine/task/loop.py);look (/x/site-packages/pyarrow/ipc.py) 6",
    "main (bench/all.py);read (/x/engine/task/loop.py);look (/x/site-packages/pyarrow/ipc.py) 1",
    "run (/usr/lib/python3.11/threading.py);send (engine/wire/peer.py) 3",
    "<module> (bench/latency.py);f (engine/a.py);_find (<frozen importlib._bootstrap>) 50",
    "f (engine/a.py);g (engine/b.py);Condition.wait (threading.py) 50",
    "f (engine/a.py);<module> (engine/b.py) 50",
]


def test_a_sample_is_of_the_innermost_place_of_ours_and_what_it_calls() -> None:
    found = dict(shares(STACKS))
    assert found == {
        "engine/task/loop.py read → pyarrow look": pytest.approx(0.7),
        "engine/wire/peer.py send": pytest.approx(0.3),
    }


def test_the_largest_come_first_and_few_are_kept() -> None:
    many = [f"f{number} (engine/a.py) {number}" for number in range(1, 100)]
    found = shares(many, most=3)
    assert [where for where, _ in found] == [
        "engine/a.py f99",
        "engine/a.py f98",
        "engine/a.py f97",
    ]
    assert shares(["nothing (bench/a.py) 7"]) == []


def test_a_folder_of_others_that_is_called_as_ours_is_theirs() -> None:
    stack = "f (engine/a.py);connect (/x/site-packages/sqlalchemy/engine/base.py) 1"
    assert shares([stack]) == [("engine/a.py f → sqlalchemy connect", 1.0)]
