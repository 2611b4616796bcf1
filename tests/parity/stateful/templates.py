"""The queries, in SQL over ``e`` and ``o``, which have watermarks, and over ``e0`` and ``o0``,
which have none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Template:
    """One query.

    :param modes: the output modes in which it is compared.
    :param keys: how many leading columns tell its rows apart, for output mode ``update``.
    :param ulps: by how many units in the last place DOUBLEs may differ.
    """

    name: str
    sql: str
    modes: tuple[str, ...] = ("append",)
    keys: int = 0
    ulps: int = 0


ALL: Final = ("append", "update", "complete")
CHANGES: Final = ("update", "complete")
MINUTES: Final = "window(at, '10 minutes')"

# Without mode(n): of values that are as frequent Spark takes any.
AGGREGATES: Final = (
    "count(*)", "count(n)", "count(k, n)", "count_if(flag)", "count(*) FILTER (WHERE n > 0)",
    "sum(n)", "sum(id)", "sum(m)", "sum(d)", "sum(f)", "try_sum(id)", "sum(n) FILTER (WHERE flag)",
    "avg(n)", "avg(m)", "avg(d)", "try_avg(m)",
    "min(n)", "max(n)", "min(k)", "max(k)", "min(d)", "max(d)", "max(f)", "min(m)", "max(at)",
    "min(flag)", "max(s)",
    "first(k)", "first(k, true)", "last(n)", "last(n, true)", "any_value(id)",
    "bool_and(flag)", "bool_or(flag)", "bit_and(n)", "bit_or(n)", "bit_xor(n)",
    "sort_array(collect_list(n))", "sort_array(collect_set(k))", "collect_list(id)",
    "max_by(k, id)", "min_by(n, at)", "median(n)", "percentile(n, 0.25)",
    "percentile(n, array(0.1, 0.9))", "percentile(n, 0.3) FILTER (WHERE id % 3 > 0)",
    "approx_count_distinct(k)", "approx_count_distinct(d, 0.1)",
    "approx_percentile(n, 0.3)", "approx_percentile(nanvl(d, 2) + 0D, array(0, 0.25, 1))",
    "approx_percentile(at, 0.5) FILTER (WHERE id % 3 > 0)", "approx_percentile(m, 0.1, 1000000)",
    "listagg(k, ',')", "regr_count(n, id)", "listagg(k, ',') WITHIN GROUP (ORDER BY k)",
    "listagg(DISTINCT k) WITHIN GROUP (ORDER BY k DESC NULLS FIRST)",
)  # fmt: skip
BY_ORDER: Final = (
    "first(",
    "last(",
    "any_value(",
    "collect_list(",
    "listagg(",
    "max_by(",
    "min_by(",
)
"""What the order of rows tells, which in a session is each engine's own."""
INEXACT: Final = (
    "stddev(n)", "stddev_pop(n)", "variance(id)", "var_pop(n)", "skewness(n)", "kurtosis(n)",
    "corr(n, id)", "covar_pop(n, id)", "covar_samp(n, id)", "regr_slope(n, id)",
)  # fmt: skip
KEYS: Final = (
    "k", "n", "d", "f", "m", "s", "flag", "id % 3", "CAST(at AS DATE)", "k, n",
    "array(d, d)", "named_struct('x', d, 'y', k)", "CAST(k AS BINARY)", "upper(k)",
    "CASE WHEN n > 0 THEN k END", "coalesce(d, 0)", "CAST(NULL AS INT)", "at",
)  # fmt: skip
WINDOWS: Final = {
    "sliding": "window(at, '10 minutes', '5 minutes')",
    "sliding unevenly": "window(at, '15 minutes', '10 minutes')",
    "with a start": "window(at, '10 minutes', '10 minutes', '3 minutes')",
    "of a day": "window(at, '1 day')",
    "short": "window(at, '1 second')",
}
SESSIONS: Final = {
    "of five minutes": "session_window(at, '5 minutes')",
    "of an hour": "session_window(at, '1 hour')",
    "of a gap of its own": "session_window(at, if(n > 1, '2 minutes', '9 minutes'))",
    "of a gap in a column": "session_window(at, concat(n * 3 - 2, ' minutes'))",
    "of a gap that is made": "session_window(at, make_interval(0, 0, 0, 0, 0, id % 9 - 1, 0.5))",
}


def _grouped() -> Iterator[Template]:
    for ulps, functions in ((0, AGGREGATES), (64, INEXACT)):
        for function in functions:
            keys = f"{MINUTES}, id % 2"
            sql = f"SELECT {MINUTES} AS w, id % 2 AS g, {function} AS r FROM e GROUP BY {keys}"
            yield Template(function, sql, ("append", "update"), 2, ulps)
    for name, window, modes in (
        ("windows", MINUTES, ALL),
        ("sliding windows", WINDOWS["sliding"], ("append", "update")),
        ("sessions", SESSIONS["of an hour"], ("append",)),
    ):
        of_order = BY_ORDER if name == "sessions" else ()
        functions = [each for each in AGGREGATES if not each.startswith(of_order)]
        every = ", ".join(f"{function} AS r{place}" for place, function in enumerate(functions))
        sql = f"SELECT {window} AS w, k, {every} FROM e GROUP BY {window}, k"
        yield Template(f"all functions by {name}", sql, modes, 2)
    for keys in KEYS:
        width = keys.count(", ") + 1 if keys == "k, n" else 1
        sql = f"SELECT {keys}, count(*) AS c, sum(n) AS t FROM e0 GROUP BY {keys}"
        yield Template(f"by {keys}", sql, CHANGES, width)
    yield Template("all rows", "SELECT count(*) AS c, sum(m) AS t, max(k) AS l FROM e0", CHANGES)
    nothing = "SELECT count(*) AS c, sum(m) AS t, collect_list(k) AS l FROM e0 WHERE id > 1000"
    yield Template("all of no rows", nothing, CHANGES)
    yield Template("no function", f"SELECT {MINUTES} AS w, k FROM e GROUP BY {MINUTES}, k", ALL, 2)
    yield Template("by event time", "SELECT at, count(*) AS c FROM e GROUP BY at", ALL, 1)


def _windowed() -> Iterator[Template]:
    for name, window in WINDOWS.items():
        sql = f"SELECT {window} AS w, count(*) AS c, sum(n) AS t FROM e GROUP BY {window}"
        yield Template(f"windows {name}", sql, ALL, 1)
    for name, session in SESSIONS.items():
        sql = f"SELECT k, {session} AS w, count(*) AS c, max(n) AS m FROM e GROUP BY k, {session}"
        yield Template(f"sessions {name}", sql)
    inner = f"SELECT {MINUTES} AS w, k, count(*) AS c FROM e GROUP BY {MINUTES}, k"
    yield Template("window_time", f"SELECT window_time(w) AS t, c FROM ({inner})")
    yield Template(
        "windows of windows",
        f"SELECT window(w, '1 hour') AS h, sum(c) AS t FROM ({inner}) GROUP BY window(w, '1 hour')",
    )
    yield Template(
        "windows of windows by their times",
        "SELECT window(t, '30 minutes') AS h, max(c) AS m FROM "
        f"(SELECT window_time(w) AS t, c FROM ({inner})) GROUP BY window(t, '30 minutes')",
    )
    yield Template("having", f"{inner} HAVING count(*) > 1 AND k IS NOT NULL")
    yield Template("a filter above", f"SELECT * FROM ({inner}) WHERE c > 1 OR k = 'a'", ALL, 2)
    yield Template("expressions above", f"SELECT w.end AS e, c * 2 + 1 AS x FROM ({inner})")
    for kind in ("ROLLUP", "CUBE"):
        sql = f"SELECT k, n, count(*) AS c, grouping_id() AS g FROM e0 GROUP BY {kind}(k, n)"
        yield Template(kind.lower(), f"SELECT k, n, g, c FROM ({sql})", CHANGES, 3)
    yield Template(
        "grouping sets",
        f"SELECT {MINUTES} AS w, k, n, count(*) AS c FROM e "
        f"GROUP BY {MINUTES}, k, n GROUPING SETS (({MINUTES}, k), ({MINUTES}, n))",
    )


def _deduplicated() -> Iterator[Template]:
    for keys in ("k", "d", "s", "id, k", "m", "n, flag"):
        sql = f"SELECT /*+ dedup({keys}) */ * FROM e0"
        yield Template(f"deduplicated by {keys}", sql, ("append", "update"))
    yield Template("deduplicated with event time", "SELECT /*+ dedup(id, at) */ * FROM e")
    yield Template("deduplicated, late rows", "SELECT /*+ dedup(k) */ * FROM e")
    yield Template("deduplicated within", "SELECT /*+ within(k) */ * FROM e")
    yield Template("deduplicated within by two", "SELECT /*+ within(id, n) */ * FROM e")
    yield Template("deduplicated columns", "SELECT /*+ dedup(n, flag) */ n, flag FROM e0")
    yield Template("distinct", "SELECT DISTINCT k, n FROM e0", CHANGES, 2)


def _joined() -> Iterator[Template]:
    """Keys are not NULL where ``=`` compares them: of outer joins, and of keys that are floating,
    Spark's micro-batches let NULL meet NULL, which its batches do not."""
    near = "at2 >= at - INTERVAL 10 MINUTES AND at2 <= at + INTERVAL 20 MINUTES"
    conditions = {
        "by text": "k = k2 AND k IS NOT NULL AND k2 IS NOT NULL",
        "by numbers": "d = d2 AND d IS NOT NULL AND d2 IS NOT NULL",
        "by two": "id = id2 AND n <=> n2",
        "with a rest": "id = id2 AND n + 1 > n2",
        "with a rest of one side": "id = id2 AND n > 0",
    }
    for kind in ("INNER", "LEFT", "RIGHT", "FULL", "LEFT SEMI"):
        for name, condition in conditions.items():
            if (kind, name) == ("LEFT", "with a rest"):
                continue  # Spark loses rows here that its full join, with the same condition, has
            sql = f"SELECT * FROM e {kind} JOIN o ON {condition} AND {near}"
            yield Template(f"{kind.lower()} join {name}", sql)
    yield Template("join without end", "SELECT at, k, n2 FROM e0 JOIN o0 ON k = k2 AND n = n2")
    yield Template("join by event time", "SELECT * FROM e LEFT JOIN o ON at = at2 AND k = k2")
    yield Template(
        "join by windows",
        f"SELECT * FROM (SELECT {MINUTES} AS w, k, n FROM e) a FULL JOIN "
        "(SELECT window(at2, '10 minutes') AS w2, k2 FROM o) b ON w = w2 AND k = k2 "
        "AND w IS NOT NULL AND k IS NOT NULL AND w2 IS NOT NULL AND k2 IS NOT NULL",
    )
    yield Template(
        "windows of a join",
        f"SELECT {MINUTES} AS w, count(*) AS c FROM (SELECT at, n2 FROM e JOIN o ON id = id2 AND "
        f"{near}) GROUP BY {MINUTES}",
    )


def _mixed() -> Iterator[Template]:
    both = "SELECT at, k, n FROM e UNION ALL SELECT at2, k2, n2 FROM o"
    yield Template(
        "windows of a union",
        f"SELECT {MINUTES} AS w, k, count(*) AS c, sum(n) AS t FROM ({both}) GROUP BY {MINUTES}, k",
        ALL,
        2,
    )
    counted = f"SELECT {MINUTES} AS w, n, count(*) AS c FROM e GROUP BY {MINUTES}, n"
    yield Template(
        "union of windows",
        f"{counted} UNION ALL SELECT window(at2, '1 hour'), n2, count(*) FROM o "
        "GROUP BY window(at2, '1 hour'), n2",
    )
    yield Template(
        "a table above", f"SELECT w, name, c FROM ({counted}) JOIN names ON n = number", ALL, 2
    )
    yield Template(
        "a generator above", f"SELECT w, n, explode(sequence(1, c)) AS i FROM ({counted})"
    )
    yield Template(
        "a generator below",
        f"SELECT {MINUTES} AS w, x, count(*) AS c FROM e LATERAL VIEW explode(array(k, s.b)) AS x "
        f"GROUP BY {MINUTES}, x",
        ALL,
        2,
    )
    yield Template("a function above", f"SELECT w, n, plus_one(c) AS x FROM ({counted})")
    yield Template(
        "a function below",
        "SELECT plus_one(n) AS x, count(*) AS c, max(plus_one(id)) AS y FROM e0 "
        "GROUP BY plus_one(n)",
        CHANGES,
        1,
    )


TEMPLATES: Final = (*_grouped(), *_windowed(), *_deduplicated(), *_joined(), *_mixed())
