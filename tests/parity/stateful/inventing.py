"""Random queries with state: whole ones, drawn from a seed and a number.

What is drawn has one right answer: no ``mode(x)``, nothing that the order of rows in a session or
of a single key tells, no percentile of both zeros, no HAVING in ``update`` that may be true within
an epoch and false behind it, and joins say ``IS NOT NULL`` of their keys (docs/state.md tells why).
"""

from __future__ import annotations

import random
from typing import Final

from tests.parity.stateful.comparing import Case
from tests.parity.stateful.templates import BY_ORDER, INEXACT, Template

_LEAVES: Final = {
    "int": ("n", "id", "id % 3", "length(k)", "s.a", "minute(at)", "n * 2", "try_cast(d AS INT)"),
    "double": ("d", "f", "-d", "d * 0.5", "abs(d)", "d + n", "greatest(d, f)", "CAST(m AS DOUBLE)"),
    "text": ("k", "s.b", "upper(k)", "concat(k, '-', n)", "substring(k, 1, 1)", "reverse(k)",
             "CAST(m AS STRING)", "CAST(d AS STRING)"),
    "decimal": ("m", "m * 2", "m + n", "CAST(n AS DECIMAL(20, 3))", "CAST(id AS DECIMAL(38, 0))",
                "m / 3", "round(m, 1)"),
    "bool": ("flag", "n > 0", "k LIKE '%a%'", "d > 1", "isnan(d)", "k IS NULL", "m <=> 1.5",
             "d = 0"),
    "time": ("at", "date_trunc('hour', at)", "at + INTERVAL 90 SECONDS",
             "CAST(at AS TIMESTAMP_NTZ)"),
    "date": ("CAST(at AS DATE)", "date_add(at, n)"),
    "struct": ("s", "struct(n, k)", "named_struct('x', d, 'y', f)", "struct(m, flag)",
               "struct(s, d, at)"),
    "array": ("array(n, id)", "array(d, f)", "array(k, s.b)", "array(s)", "array(m, m / 3)"),
    "binary": ("CAST(k AS BINARY)", "unhex(hex(s.b))"),
}  # fmt: skip
"""By kind: NULLs, both zeros, NaN and texts of any Unicode are in the columns."""
_OF_ANY: Final = (
    "count({})", "first({})", "first({}, true)", "last({})", "any_value({}, true)", "min({})",
    "max({})", "collect_list({})", "sort_array(collect_set({}))", "max_by({}, at)",
    "min_by(id, {})",
    "count(DISTINCT {})",
)  # fmt: skip
_OF_NUMBERS: Final = ("sum({})", "avg({})", "try_sum({})", "try_avg({})", "median({} + 0)")
_OF_KIND: Final = {
    "int": (*_OF_NUMBERS, "bit_and({})", "bit_or({})", "bit_xor({})", "approx_count_distinct({})"),
    "double": (*_OF_NUMBERS, "approx_count_distinct({})", "percentile({} + 0, 0.3)"),
    "decimal": (*_OF_NUMBERS, "approx_count_distinct({})"),
    "text": ("listagg({}, '|')", "approx_count_distinct({})"),
    "bool": ("bool_and({})", "bool_or({})", "count_if({})"),
}
_WINDOWS: Final = (
    "window(at, '10 minutes')", "window(at, '7 minutes', '3 minutes')",
    "window(at, '10 minutes', '4 minutes', '90 seconds')", "window(at, '1 hour')",
)  # fmt: skip
_SESSIONS: Final = (
    "session_window(at, '4 minutes')",
    "session_window(at, if(n > 1, '2 minutes', '20 minutes'))",
)
_PAIRS: Final = (
    ("id", "id2"), ("n", "n2"), ("k", "k2"), ("d", "d2"), ("id % 3", "id2 % 3"),
    ("upper(k)", "upper(k2)"),
    ("named_struct('x', n, 'y', k)", "named_struct('x', n2, 'y', k2)"),
    ("array(d)", "array(d2)"),
    ("CAST(n AS DECIMAL(5, 1))", "CAST(n2 AS DECIMAL(5, 1))"),
)  # fmt: skip


def invented(seed: int, number: int) -> Case:
    """The case of this number."""
    rng = random.Random(f"{seed} {number}")
    draw = rng.choices((_aggregated, _deduplicated, _joined), (6, 2, 3))[0]
    template, mode = draw(rng, f"random {number} of {seed}")
    return Case(template, mode, rng.random() < 0.5)


def _expression(rng: random.Random, kind: str, depth: int = 1) -> str:
    leaf = rng.choice(_LEAVES[kind])
    if depth == 0 or rng.random() < 0.6:
        return leaf
    # Two structs or arrays are mostly of different types.
    other = leaf if kind in ("struct", "array") else _expression(rng, kind, depth - 1)
    condition = _expression(rng, "bool", 0)
    return rng.choice(
        (
            f"coalesce({leaf}, {other})",
            f"if({condition}, {leaf}, {other})",
            f"nullif({leaf}, {other})",
            f"CASE WHEN {condition} THEN {leaf} END",
        )
    )


def _kind(rng: random.Random) -> str:
    return rng.choice(sorted(_LEAVES))


def _function(rng: random.Random) -> str:
    if rng.random() < 0.1:
        return "count(*)"
    kind = _kind(rng)
    if kind in _OF_KIND and rng.random() < 0.6:
        form = rng.choice(_OF_KIND[kind])
    else:
        form = rng.choice(_OF_ANY)
        if "DISTINCT" in form and rng.random() < 0.9:  # which Spark refuses
            form = "count({})"
    text = form.format(_expression(rng, kind))
    if rng.random() < 0.2 and not form.startswith("sort"):
        text += f" FILTER (WHERE {_expression(rng, 'bool')})"
    return text


def _below(rng: random.Random, stream: str) -> str:
    """A filter or none in front of it."""
    if rng.random() < 0.6:
        return stream
    return f"(SELECT * FROM {stream} WHERE {_expression(rng, 'bool')} OR id < 0)"


def _aggregated(rng: random.Random, name: str) -> tuple[Template, str]:
    shape = rng.choices(("none", "window", "session"), (3, 5, 2))[0]
    keys = [_expression(rng, _kind(rng)) for _ in range(rng.choice((0, 1, 1, 2, 3)))]
    mode = rng.choice(("append", "update", "complete"))
    if shape == "none":
        mode = rng.choice(("update", "complete"))
    elif shape == "session":
        mode = "append"
        keys.insert(0, rng.choice(_SESSIONS))
    else:
        keys.insert(rng.randrange(len(keys) + 1), rng.choice(_WINDOWS))
    functions = [_function(rng) for _ in range(rng.choice((1, 1, 2, 3, 4)))]
    if shape == "session" or (shape == "none" and len(keys) == 1):
        functions = [each for each in functions if not each.startswith(BY_ORDER)] or ["count(*)"]
    ulps = 0
    if rng.random() < 0.1:
        functions, ulps = [*functions, rng.choice(INEXACT)], 64
    columns = [f"{key} AS g{place}" for place, key in enumerate(keys)]
    columns += [f"{function} AS r{place}" for place, function in enumerate(functions)]
    stream = _below(rng, "e0" if shape == "none" else "e")
    sql = f"SELECT {', '.join(columns)} FROM {stream}"
    if keys:
        sql += f" GROUP BY {', '.join(keys)}"
        if rng.random() < 0.2:
            least = "count(*) > 1"
            sql += f" HAVING {least if mode == 'update' else rng.choice((least, 'max(n) > 1'))}"
    if rng.random() < 0.2 and not ulps:
        sql = f"SELECT *, coalesce(CAST(r0 IS NULL AS INT), 7) AS x FROM ({sql})"
    return Template(name, sql, (mode,), len(keys), ulps), mode


def _deduplicated(rng: random.Random, name: str) -> tuple[Template, str]:
    keys = [f"x{place}" for place in range(rng.choice((1, 1, 2)))]
    columns = [f"{_expression(rng, _kind(rng))} AS {key}" for key in keys]
    how, stream = rng.choice((("dedup", "e0"), ("dedup", "e"), ("within", "e")))
    if how == "dedup" and stream == "e" and rng.random() < 0.5:
        keys.append("at")
    below = f"SELECT at, id, k, d, s, {', '.join(columns)} FROM {_below(rng, stream)}"
    sql = f"SELECT /*+ {how}({', '.join(keys)}) */ * FROM ({below})"
    mode = "append" if stream == "e" else rng.choice(("append", "update"))
    return Template(name, sql), mode


def _joined(rng: random.Random, name: str) -> tuple[Template, str]:
    kind = rng.choice(("INNER", "LEFT", "RIGHT", "FULL", "LEFT SEMI"))
    pairs = rng.sample(_PAIRS, rng.choice((1, 1, 2)))
    conditions = [
        f"{left} = {right} AND {left} IS NOT NULL AND {right} IS NOT NULL" for left, right in pairs
    ]
    before, behind = rng.randrange(30), rng.randrange(30)
    conditions.append(
        f"at2 >= at - INTERVAL {before} MINUTES AND at2 <= at + INTERVAL {behind} MINUTES"
    )
    if rng.random() < 0.3 and kind in ("INNER", "FULL"):
        conditions.append("n + 1 > n2")
    if rng.random() < 0.2:
        conditions.append(_expression(rng, "bool"))
    sql = f"SELECT * FROM {_below(rng, 'e')} a {kind} JOIN o ON {' AND '.join(conditions)}"
    if kind == "INNER" and rng.random() < 0.3:
        window = rng.choice(_WINDOWS)
        sql = f"SELECT {window} AS w, n2, count(*) AS c FROM ({sql}) GROUP BY {window}, n2"
    return Template(name, sql), "append"
