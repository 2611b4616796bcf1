"""Epochs aligned at a task with several senders: any arrivals, in any order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import ProtocolError
from engine.exchange.alignment import Alignment, EpochEnd


def end(epoch: int, *, final: bool = False, watermark_ms: int = 0) -> EpochEnd:
    return EpochEnd(epoch, final, watermark_ms, epoch)


@given(
    st.lists(st.lists(st.integers(0, 3), min_size=3, max_size=3), min_size=1, max_size=4),
    st.randoms(use_true_random=False),
)
def test_each_batch_is_of_its_epoch_and_in_its_senders_order(
    sizes: list[list[int]], chance: object
) -> None:
    """:param sizes: how many batches each sender sends in each epoch."""
    senders = list(range(len(sizes)))
    sent: dict[int, list[object]] = {
        sender: [
            item
            for epoch, count in enumerate(counts)
            for item in [*((sender, epoch, n) for n in range(count)), end(epoch)]
        ]
        for sender, counts in enumerate(sizes)
    }
    alignment: Alignment[int, object] = Alignment(senders)
    got: list[list[object]] = [[]]
    while len(got) < 4:
        wanted = [each for each in senders if sent[each] and alignment.is_wanted(each)]
        # Whoever is not wanted may have sent, all the same.
        others = [each for each in senders if sent[each]]
        for sender in [*wanted, *(s for s in others if chance.random() < 0.2)]:  # type: ignore[attr-defined]
            if sent[sender] and chance.random() < 0.7:  # type: ignore[attr-defined]
                alignment.arrived(sender, sent[sender].pop(0))
        got[-1] += [batch for _, batch in alignment.take()]
        if (over := alignment.end) is not None:
            assert over.epoch == len(got) - 1
            alignment.go_on()
            got.append([])
    assert not any(sent.values())
    for epoch, batches in enumerate(got[:3]):
        for sender, counts in enumerate(sizes):
            own = [batch for batch in batches if batch[0] == sender]  # type: ignore[index]
            assert own == [(sender, epoch, n) for n in range(counts[epoch])]
        assert len(batches) == sum(counts[epoch] for counts in sizes)


def test_nobody_is_wanted_whose_end_has_arrived() -> None:
    alignment: Alignment[str, int] = Alignment("ab")
    alignment.arrived("a", 1)
    alignment.arrived("a", end(0))
    alignment.arrived("a", 2)  # of the next epoch
    assert not alignment.is_wanted("a")
    assert alignment.is_wanted("b")
    assert alignment.take() == [("a", 1)]
    assert alignment.end is None
    alignment.arrived("b", end(0))
    assert alignment.take() == []
    assert alignment.end == end(0)
    alignment.go_on()
    assert alignment.is_wanted("a")
    assert alignment.take() == [("a", 2)]


def test_ends_that_contradict_each_other_are_our_bug() -> None:
    alignment: Alignment[str, int] = Alignment("ab")
    alignment.arrived("a", end(0, watermark_ms=5))
    alignment.arrived("b", end(0, watermark_ms=6))
    alignment.take()
    with pytest.raises(ProtocolError, match="different ends"):
        _ = alignment.end


@pytest.mark.parametrize("again", [0, 2])
def test_an_end_that_is_not_the_next_one_is_our_bug(again: int) -> None:
    alignment: Alignment[str, int] = Alignment("a")
    alignment.arrived("a", end(0))
    alignment.take()
    assert alignment.end == end(0)
    alignment.go_on()
    alignment.arrived("a", end(again))
    alignment.take()
    with pytest.raises(ProtocolError, match=f"the end of epoch {again} behind that of epoch 0"):
        _ = alignment.end
