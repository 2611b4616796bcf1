"""What the benchmarks beside other engines reckon, and say of one that is not there."""

from __future__ import annotations

import pytest

from bench.peers import work
from bench.peers.counts import rows_per_second
from bench.peers.environments import PEERS, NoPeerError, said
from bench.peers.latency import due
from bench.peers.work import PeerEndedError, TooFewError, record, tried


def test_rows_count_from_the_end_of_the_first_burst() -> None:
    first = [(1_000, 500), (1_010, 500), (1_050, 500)]
    later = [(2_050, 1_000), (3_050, 1_000)]
    assert rows_per_second([*later, *first]) == pytest.approx(1_000)


def test_one_burst_tells_nothing() -> None:
    with pytest.raises(TooFewError, match="2 results, all of one moment"):
        rows_per_second([(1_000, 5), (1_050, 5)])


def test_an_update_is_as_late_as_its_newest_record() -> None:
    assert due(b'{"key": "a", "count": 3, "due": 12.5}') == 12.5
    assert due(b'{"key": "a", "count": 3, "due": 12.5, "diff": 1, "time": 4}') == 12.5
    assert due(b'{"key": "a", "count": 2, "due": 11.5, "diff": -1, "time": 4}') is None


def test_a_key_is_always_in_one_partition() -> None:
    keys: dict[bytes, set[int]] = {}
    for number in range(4_000):
        keys.setdefault(record(number, 0, 0.0)[0], set()).add(number % 2)
    assert {len(partitions) for partitions in keys.values()} == {1}


def test_a_reason_is_one_line_without_addresses() -> None:
    reason = said("error: failed\n  to fetch `x`\n  from https://host.example/simple/x/ (404)")
    assert reason == "error: failed to fetch 'x' from ... (404)"
    assert len(said("word " * 100)) < 210


def test_every_peer_is_pinned() -> None:
    assert all("==" in package for peer in PEERS.values() for package in peer.packages)


def test_a_peer_that_is_not_there_or_does_not_work_says_why(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def ended() -> dict[str, float]:
        raise PeerEndedError("it has ended: no class found")

    monkeypatch.setattr(work, "environment", lambda peer: None)
    version = PEERS["quix"].version
    assert tried("quix", lambda: {"p50": 1.0}) == {"p50": 1.0, "version": version}
    assert tried("quix", ended) == {"missing": "it has ended: no class found", "version": version}

    def refused(peer: str) -> None:
        raise NoPeerError("no wheel")

    monkeypatch.setattr(work, "environment", refused)
    assert tried("quix", ended) == {"missing": "it cannot be installed: no wheel"}
