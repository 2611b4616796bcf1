"""Patterns."""

from __future__ import annotations

TEMPLATES = {
    "like": [
        "s like 'a%'",
        "s like '%a%b'",
        "s like '_b%'",
        "s like '%c'",
        "s like 'a\\\\%c'",
        "raw like 'a%'",
        "raw like 'aa%aa'",
        "raw like '%a%b'",
        "raw like '_%'",
    ],
    "ilike": ["s ilike 'A%'", "s ilike '%straße%'", "raw ilike 'A%'", "raw ilike '%straße%'"],
    "rlike": [
        "s rlike '^a'",
        "s rlike '[0-9]+'",
        "regexp(s, '(a|b)+c')",
        "s rlike '\\\\w\\\\s\\\\w'",
        "raw rlike '^a'",
        "raw rlike '[0-9]+'",
    ],
    "like any": [
        "s like any ('a%', '%b')",
        "s like all ('%a%', '%b%')",
        "s not like any ('a')",
        "s not like all ('a%', '%b')",
        "raw like any ('a%', '%b')",
        "raw like all ('%a%', '%b%')",
    ],
    "regexp_count": [
        "regexp_count(s, '[a-c]')",
        "regexp_count(s, '\\\\w+')",
        "regexp_count(raw, '[a-c]')",
        "regexp_count(raw, '\\\\w+')",
    ],
    "regexp_extract": [
        "regexp_extract(s, '(a)(b)?', 2)",
        "regexp_extract(s, '([0-9]+)', 1)",
        "regexp_extract(raw, '(a)(b)?', 2)",
        "regexp_extract(raw, '([0-9]+)', 1)",
    ],
    "regexp_extract_all": [
        "regexp_extract_all(s, '([a-z])', 1)",
        "regexp_extract_all(s, '[0-9]', 0)",
        "regexp_extract_all(raw, '([a-z])', 1)",
        "regexp_extract_all(raw, '[0-9]', 0)",
    ],
    "regexp_instr": [
        "regexp_instr(s, '[0-9]')",
        "regexp_instr(s, 'c')",
        "regexp_instr(raw, '[0-9]')",
        "regexp_instr(raw, 'c')",
    ],
    "regexp_replace": [
        *("regexp_replace(s, 'a', 'b')", "regexp_replace(s, '([a-z])([0-9])', '$2$1')"),
        "regexp_replace(s, '\\\\s+', ' ')",
        "regexp_replace(raw, 'a', 'b')",
        "regexp_replace(raw, '([a-z])([0-9])', '$2$1')",
    ],
    "regexp_substr": [
        "regexp_substr(s, '[0-9]+')",
        "regexp_substr(s, 'ab?c')",
        "regexp_substr(raw, '[0-9]+')",
        "regexp_substr(raw, 'ab?c')",
    ],
}
