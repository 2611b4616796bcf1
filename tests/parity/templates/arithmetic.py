"""Arithmetic, comparison, logic, conditionals, NULL."""

from __future__ import annotations

_PAIRS = [("b", "b2"), ("h", "h2"), ("i", "i2"), ("l", "l2"), ("f", "f2"), ("d", "d2")]
_PAIRS += [("dec", "dec2"), ("big", "dec"), ("i", "l"), ("l", "dec"), ("f", "i"), ("dec", "d")]
_COMPARED = [*_PAIRS[:9], ("t", "u"), ("s", "s2"), ("bin", "bin2"), ("dt", "dt2"), ("ts", "ts2")]
_COMPARED += [("ntz", "ntz2"), ("i", "d"), ("l", "f")]


def _infix(symbol: str, pairs: list[tuple[str, str]]) -> list[str]:
    return [f"{a} {symbol} {b}" for a, b in pairs]


def _call(name: str, pairs: list[tuple[str, str]]) -> list[str]:
    return [f"{name}({a}, {b})" for a, b in pairs]


_NUMBERS = ["b", "h", "i", "l", "f", "d", "dec", "big"]

TEMPLATES = {
    "+": [*_infix("+", _PAIRS), "i + 1", "dt + 3", "+ i", "i + i div i2", "d / (i % i2)"],
    "-": [*_infix("-", _PAIRS), "l - 1", "- d", "dt - dt2", "ts - ts2", "dt - 2"],
    "*": [*_infix("*", _PAIRS), "d * 2"],
    "/": [*_infix("/", _PAIRS), "i / 2", "d / 0.5D"],
    "div": [*_infix("div", [*_PAIRS[:4], *_PAIRS[6:10]]), "l div 7"],
    "%": [*_infix("%", _PAIRS), "i % 8", "l % 7", "i % -3"],
    "mod": _call("mod", _PAIRS[:8]),
    "pmod": _call("pmod", _PAIRS[:8]),
    "negative": [f"negative({n})" for n in _NUMBERS],
    "positive": [f"positive({n})" for n in _NUMBERS],
    "abs": [f"abs({n})" for n in _NUMBERS],
    "try_add": [*_call("try_add", _PAIRS), "try_add(dt, 1)"],
    "try_subtract": _call("try_subtract", _PAIRS),
    "try_multiply": _call("try_multiply", _PAIRS),
    "try_divide": _call("try_divide", _PAIRS),
    "try_mod": _call("try_mod", _PAIRS),
    "=": _infix("=", _COMPARED),
    "!=": _infix("!=", _COMPARED),
    "<": _infix("<", _COMPARED),
    "<=": _infix("<=", _COMPARED),
    ">": [*_infix(">", _COMPARED), "d > 1.5D", "s > 'b'"],
    ">=": [*_infix(">=", _COMPARED), "f >= float(0)"],
    "<=>": [*_infix("<=>", _COMPARED), "i <=> null"],
    "equal_null": _call("equal_null", _COMPARED),
    "between": ["i between i2 and 100", "d between -1 and d2", "s between 'a' and s2"],
    "in": [
        *("i in (1, 2, 10)", "i in (i2, null, 7)", "s in ('a', s2, '')", "d in (0, 1.0, d2)"),
        *("dt not in (dt2, date'2024-02-29')", "l in (1, null)", "bin in (bin2, X'')"),
        "ts in (ts2)",
    ],
    "and": ["t and u", "t and i > 0", "t and null", "i2 != 0 and i % i2 = 0"],
    "or": ["t or u", "t or null", "i2 = 0 or i % i2 = 1"],
    "not": ["not t", "! u", "not (i = i2)"],
    "if": ["if(t, i, i2)", "if(i2 = 0, null, i % i2)", "if(null, s, s2)", "if(t, d, f)"],
    "case": [
        "case when i > 0 then s when t then s2 end",
        "case when i2 = 0 then 0 else i / i2 end",
        "case s when 'a' then 1 when 'b' then 2 else l end",
        "case when t then dt else dt2 end",
        "case when u then dec when t then big end",
    ],
    "coalesce": [
        *("coalesce(i, i2, 0)", "coalesce(s, s2)", "coalesce(d, i / 2)", "coalesce(null, ts, ts2)"),
        "coalesce(dec, dec2)",
    ],
    "nvl": ["nvl(i, 5)", "nvl(s, s2)", "ifnull(d, d2)"],
    "nvl2": ["nvl2(i, s, s2)", "nvl2(t, d, f)"],
    "nullif": ["nullif(i, i2)", "nullif(s, 'a')", "nullif(d, 0)", "nullif(dt, dt2)"],
    "nullifzero": ["nullifzero(i)", "nullifzero(d)", "nullifzero(dec)"],
    "zeroifnull": ["zeroifnull(i)", "zeroifnull(d)", "zeroifnull(dec)"],
    "isnull": ["isnull(i)", "s is null", "isnull(d)"],
    "isnotnull": ["isnotnull(i)", "s is not null", "isnotnull(ts)"],
    "is distinct from": ["i is distinct from i2", "s is not distinct from s2"],
    "isnan": ["isnan(d)", "isnan(f)"],
    "nanvl": ["nanvl(d, d2)", "nanvl(f, f2)", "nanvl(d, 1)"],
    "greatest": [
        *("greatest(i, i2, n)", "greatest(d, d2)", "greatest(f, f2, 0)", "greatest(s, s2, 'm')"),
        *("greatest(dt, dt2)", "greatest(ts, ts2)", "greatest(dec, dec2)", "greatest(bin, bin2)"),
    ],
    "least": [
        *("least(i, i2, n)", "least(d, d2)", "least(f, f2, 0)", "least(s, s2, 'm')"),
        *("least(dt, dt2)", "least(ntz, ntz2)", "least(dec, dec2)", "least(t, u)"),
    ],
    "named_struct": ["named_struct('a', i, 'b', s)", "struct(i, d).d", "named_struct('x', dt).x"],
}
