"""Values as text, column by column: nested ones are put together from the texts of their parts."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Sequence

import pyarrow as pa

from engine.casts import caster

Text = str | None


class Texts(ABC):
    """One way of writing values. None stands for null throughout.

    :param session_timezone: the zone in which timestamps are written.
    """

    def __init__(self, session_timezone: str) -> None:
        self.session_timezone = session_timezone

    def of(self, column: pa.Array) -> list[Text]:
        """The text of each value."""
        dtype = column.type
        if pa.types.is_struct(dtype):
            names = [field.name for field in dtype]
            fields = [self.of(field) for field in column.flatten()]
            rows = zip(*fields, strict=True) if fields else [()] * len(column)
            texts: list[Text] = [self.struct_text(names, row) for row in rows]
            return _with_nulls(column, texts)
        if pa.types.is_map(dtype):
            keys, items = self.of(column.keys), self.of(column.items)
            parts = _slices(column)
            texts = [self.map_text(keys[part], items[part]) for part in parts]
            return _with_nulls(column, texts)
        if pa.types.is_list(dtype):
            elements = self.of(column.values)
            texts = [self.array_text(elements[part]) for part in _slices(column)]
            return _with_nulls(column, texts)
        return self.atoms(column)

    @abstractmethod
    def atoms(self, column: pa.Array) -> list[Text]:
        """The text of each value of a type that is not nested."""

    @abstractmethod
    def array_text(self, elements: Sequence[Text]) -> str:
        """An array."""

    @abstractmethod
    def map_text(self, keys: Sequence[Text], items: Sequence[Text]) -> str:
        """A map."""

    @abstractmethod
    def struct_text(self, names: Sequence[str], values: Sequence[Text]) -> str:
        """A struct."""

    def cast(self, column: pa.Array) -> list[Text]:
        """``CAST(column AS STRING)``."""
        if pa.types.is_string(column.type):
            return column.to_pylist()  # type: ignore[no-any-return]
        cast = caster(column.type, pa.string(), self.session_timezone)
        return cast(column).to_pylist()  # type: ignore[no-any-return]


class ShownTexts(Texts):
    """As ``DataFrame.show`` writes them.

    Source: Spark's ToPrettyString.
    """

    def atoms(self, column: pa.Array) -> list[Text]:
        if pa.types.is_binary(column.type):
            return [None if value is None else hex_of(value) for value in column.to_pylist()]
        return self.cast(column)

    def array_text(self, elements: Sequence[Text]) -> str:
        return "[" + ", ".join(map(_shown, elements)) + "]"

    def map_text(self, keys: Sequence[Text], items: Sequence[Text]) -> str:
        pairs = (f"{key} -> {_shown(item)}" for key, item in zip(keys, items, strict=True))
        return "{" + ", ".join(pairs) + "}"

    def struct_text(self, names: Sequence[str], values: Sequence[Text]) -> str:
        return "{" + ", ".join(map(_shown, values)) + "}"


def hex_of(value: bytes) -> str:
    """``[68 69]``."""
    return f"[{value.hex(' ').upper()}]"


def _shown(text: Text) -> str:
    return "NULL" if text is None else text


def _slices(column: pa.Array) -> list[slice]:
    offsets = column.offsets.to_pylist()
    return [slice(begin, end) for begin, end in itertools.pairwise(offsets)]


def _with_nulls(column: pa.Array, texts: list[Text]) -> list[Text]:
    if column.null_count == 0:
        return texts
    valid = column.is_valid().to_pylist()
    return [text if there else None for text, there in zip(texts, valid, strict=True)]
