"""Patterns."""

from __future__ import annotations

TEMPLATES = {
    "like": ["s like 'a%'", "s like '%a%b'", "s like '_b%'", "s like '%c'", "s like 'a\\\\%c'"],
    "ilike": ["s ilike 'A%'", "s ilike '%straße%'"],
    "rlike": [
        "s rlike '^a'",
        "s rlike '[0-9]+'",
        "regexp(s, '(a|b)+c')",
        "s rlike '\\\\w\\\\s\\\\w'",
    ],
    "like any": [
        "s like any ('a%', '%b')",
        "s like all ('%a%', '%b%')",
        "s not like any ('a')",
        "s not like all ('a%', '%b')",
    ],
    "regexp_count": ["regexp_count(s, '[a-c]')", "regexp_count(s, '\\\\w+')"],
    "regexp_extract": ["regexp_extract(s, '(a)(b)?', 2)", "regexp_extract(s, '([0-9]+)', 1)"],
    "regexp_extract_all": [
        "regexp_extract_all(s, '([a-z])', 1)",
        "regexp_extract_all(s, '[0-9]', 0)",
    ],
    "regexp_instr": ["regexp_instr(s, '[0-9]')", "regexp_instr(s, 'c')"],
    "regexp_replace": [
        *("regexp_replace(s, 'a', 'b')", "regexp_replace(s, '([a-z])([0-9])', '$2$1')"),
        "regexp_replace(s, '\\\\s+', ' ')",
    ],
    "regexp_substr": ["regexp_substr(s, '[0-9]+')", "regexp_substr(s, 'ab?c')"],
}
