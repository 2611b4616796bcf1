"""The templates as productions: their types as Spark's analyzer tells them, in one ANSI mode."""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Collection, Iterator
from functools import cached_property
from typing import Any, Final

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DataType

from tests.parity.columns import table
from tests.parity.invented.analysis import resolved
from tests.parity.invented.columns import TEMPLATE_COLUMNS, column_name
from tests.parity.invented.forms import AROUND, CAST_FROM, NO_MAPS, OF_ITEMS, OTHER_HOLES, TAKING
from tests.parity.invented.holes import holes
from tests.parity.invented.kinds import NEVER_ROOT, kind_of
from tests.parity.invented.trees import Hole, Production
from tests.parity.templates import Family
from tests.spark.analyzed import Analyzed
from tests.spark.expressions import frame_of

_LITTLE: Final = "least(greatest({}, -3), 12)"
_WITHIN: Final = {
    # Else a result has up to 2**31 characters or items.
    **dict.fromkeys(("repeat", "space", "lpad", "rpad", "array_repeat", "format_number"), _LITTLE),
    **dict.fromkeys(("sequence", "array_insert"), _LITTLE),
    # For the least INT Spark reads memory that is none of the array, and may crash.
    **dict.fromkeys(("element_at", "try_element_at"), "greatest({}, -2147483647)"),
}
_BOUNDED: Final = {"n", "m", "few"}
_OF_WHOLE_CHARACTERS: Final = {
    "substring",
    "left",
    "right",
    "lpad",
    "rpad",
    "overlay",
    "levenshtein",
}
"""Where a text ends in the middle of a character, Spark reads the memory behind it."""


class Grammar:
    """What a tree can be made of in a session's present ANSI mode."""

    def __init__(self, spark: SparkSession, families: Collection[Family]) -> None:
        self._spark = spark
        self._frame = frame_of(spark, table(TEMPLATE_COLUMNS, 1, 0))
        self._productions: dict[str, Production] = {}
        fields = self._frame.schema.fields
        self.types: dict[str, DataType] = {}
        self.columns: dict[str, list[str]] = defaultdict(list)
        self.column_kinds: dict[str, str] = {}
        for field in fields[:-1]:  # the last numbers the rows
            kind = kind_of(field.dataType)
            self.types.setdefault(kind, field.dataType)
            self.columns[kind].append(column_name(field.name))
            self.column_kinds[field.name] = kind
        self._of_kind: dict[str, dict[str, list[_Template]]] = defaultdict(dict)
        self.roots: dict[str, list[_Template]] = {}
        self._of_name: dict[str, list[_Template]] = {}
        self.missing: set[str] = set()
        """Names of templates that this Spark does not take."""
        for family in families:
            if not family.jars:
                self._read(family)

    def _read(self, family: Family) -> None:
        every = [(name, text) for name, texts in family.templates.items() for text in texts]
        try:
            schema = _schema(self._frame, [text for _, text in every])
        except AnalysisException:  # an older release does not have all of them
            found = resolved(Analyzed(self._frame), [text for _, text in every])
            pairs = list(zip(every, found, strict=True))
            self.missing |= {name for (name, _), each in pairs if isinstance(each, str)}
            every = [pair for pair, each in pairs if not isinstance(each, str)]
            schema = _schema(self._frame, [text for _, text in every]) if every else []
        for (name, text), dtype in zip(every, schema, strict=True):
            kind = kind_of(dtype)
            self.types.setdefault(kind, dtype)
            template = _Template(name, text, kind, family.ulps.get(name, 0))
            self._of_name.setdefault(name, []).append(template)
            if kind not in NEVER_ROOT:
                self.roots.setdefault(name, []).append(template)
            if not template.ulps:
                self._of_kind[kind].setdefault(name, []).append(template)

    @cached_property
    def kinds(self) -> list[str]:
        """All of them."""
        return sorted(self.types)

    @property
    def names(self) -> Collection[str]:
        """The SQL names."""
        return self._of_name.keys()

    def of_name(self, name: str) -> Iterator[Production]:
        """All templates of a name."""
        return map(self._production, self._of_name[name])

    def root(self, rng: random.Random) -> Production:
        """A template of any name."""
        return self._production(rng.choice(self.roots[rng.choice(sorted(self.roots))]))

    def production(self, rng: random.Random, kind: str) -> Production | None:
        """A template with a result of the kind, if there is one."""
        names = self._of_kind.get(kind)
        if not names:
            return None
        return self._production(rng.choice(names[rng.choice(sorted(names))]))

    def form(self, rng: random.Random, kind: str) -> Production:
        """Something that fits every type, with a result of the kind."""
        pools = [(AROUND, kind)]
        if kind in TAKING:
            pools.append((TAKING[kind], ""))
        if kind.startswith("array<") and kind[6:-1] in self.types:
            pools.append((OF_ITEMS, kind[6:-1]))
        pool, inner = rng.choice(pools)
        name = rng.choice([n for n in sorted(pool) if n not in NO_MAPS or "map<" not in inner])
        if not inner:
            some = CAST_FROM.get(name, self.kinds)
            inner = rng.choice([k for k in some if name not in NO_MAPS or "map<" not in k])
        return form(name, rng.choice(pool[name]), inner, kind)

    def _production(self, template: _Template) -> Production:
        if template.text not in self._productions:
            self._productions[template.text] = self._split(template)
        return self._productions[template.text]

    def _split(self, template: _Template) -> Production:
        parts: list[str | Hole] = []
        end = 0
        for span in holes(self._spark, template.text, self.column_kinds):
            parts.append(template.text[end : span.start])
            kind = self.column_kinds[span.name]
            within = _WITHIN.get(template.name, "") if span.name in _BOUNDED else ""
            if kind == "string" and template.name in _OF_WHOLE_CHARACTERS:
                within = "make_valid_utf8({})"
            parts.append(Hole(span.name, kind, within))
            end = span.end
        parts.append(template.text[end:])
        return Production(template.name, tuple(parts), template.kind, template.ulps)


class _Template:
    """A production whose holes have not been looked for: parsing costs milliseconds."""

    def __init__(self, name: str, text: str, kind: str, ulps: int) -> None:
        self.name = name
        self.text = text
        self.kind = kind
        self.ulps = ulps


_known: dict[tuple[Any, ...], Grammar] = {}


def grammar_of(spark: SparkSession, families: Collection[Family]) -> Grammar:
    """That of a session's present ANSI mode; analyzing all templates takes seconds, once."""
    ansi = str(spark.conf.get("spark.sql.ansi.enabled")).lower()
    key = (spark, ansi, *((each.name, tuple(each.templates)) for each in families))
    if key not in _known:
        _known[key] = Grammar(spark, families)
    return _known[key]


def _schema(frame: DataFrame, texts: list[str]) -> list[DataType]:
    fields = Analyzed.of(frame, texts).rows(range(len(texts))).schema.fields
    return [field.dataType for field in fields[: len(texts)]]


def form(name: str, text: str, inner: str, kind: str) -> Production:
    """One of :mod:`.forms`, whose holes have the kind ``inner``."""
    parts: list[str | Hole] = list(re.split(r"\{(\w+)\}", text))
    parts[1::2] = [Hole(str(hole), OTHER_HOLES.get(str(hole), inner)) for hole in parts[1::2]]
    return Production(name, tuple(parts), kind)
