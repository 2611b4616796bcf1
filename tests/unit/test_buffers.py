"""NumPy's view of Arrow columns."""

from __future__ import annotations

import pyarrow as pa
import pytest

from engine.expressions.buffers import is_ascii, null_elsewhere, with_ascii_case


@pytest.mark.parametrize("texts", [[], [None], ["", "a"], ["~\x7f", None], [""]])
def test_ascii(texts: list[str | None]) -> None:
    assert is_ascii(pa.array(texts, pa.string()))


def test_a_slice_is_looked_at_alone() -> None:
    texts = pa.array(["é", "a", None, "b", "ü"])
    assert not is_ascii(texts)
    assert is_ascii(texts.slice(1, 3))
    assert is_ascii(texts.slice(2, 0))
    assert not is_ascii(texts.slice(3))


@pytest.mark.parametrize("start", range(4))
def test_letters_of_the_other_case(start: int) -> None:
    every = bytes(range(128)).decode()
    part = pa.array(["ü", every, None, "aZ", "é"]).slice(1, 3).slice(start)
    for first, expected in (("a", str.upper), ("A", str.lower)):
        result = with_ascii_case(part, first)
        result.validate(full=True)
        assert result.to_pylist() == [t and expected(t) for t in part.to_pylist()]


@pytest.mark.parametrize(
    "values",
    [[1, None, 3, 4], ["a", None, "", "d"], [True, None, False, True], [[1], None, [], [2]]],
)
def test_values_that_do_not_count(values: list[object]) -> None:
    mask = [True, True, False, True, False]
    array, chosen = pa.array([*values, values[0]]), pa.array(mask)
    for part, of_part in ((array, chosen), (array.slice(1), chosen.slice(1))):
        result = null_elsewhere(part, of_part)
        result.validate(full=True)
        pairs = zip(part.to_pylist(), of_part.to_pylist(), strict=True)
        assert result.to_pylist() == [value if counts else None for value, counts in pairs]
