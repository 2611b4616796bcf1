"""Java's regular expressions: what is translated, what is refused and why."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from engine.expressions.texts.java_regex import UnsupportedRegexError, compile_java_regex


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("a.c", "abc", "abc"),
        ("a.c", "a\nc", None),
        ("a.c", "a\u2028c", None),
        ("a.c", "a\x85c", None),
        ("(?s)a.c", "a\nc", "a\nc"),
        ("(?s:a.)c", "a\nc", "a\nc"),
        ("c$", "abc\r\n", "c"),
        ("c$", "abc\u2029", "c"),
        ("c$", "abc\n\n", None),
        ("\r$", "a\r\n", None),
        ("c\\z", "abc\n", None),
        ("c\\Z", "abc\n", "c"),
        ("\\d", "٣", None),
        ("\\w+", "aé", "a"),
        ("\\s", "\x0b", "\x0b"),
        ("\\h", "\u3000", "\u3000"),
        ("\\v", "\u2028", "\u2028"),
        ("\\R", "\r\n", "\r\n"),
        ("(?i)K", "\u212a", None),
        ("(?i)straSSe", "STRASSE", "STRASSE"),
        ("\\Q.*\\E+", "a.**", ".**"),
        ("\\x41\\x{1F600}\\u0042\\0103", "A😀BC", "A😀BC"),
        ("\\ud83d\\ude00", "😀", "😀"),
        ("\\p{Alpha}+", "éab1", "ab"),
        ("\\P{Digit}", "1é", "é"),
        ("[\\w-.]+@", "!a.b-c@", "a.b-c@"),
        ("[^\\S ]", " \t", "\t"),
        ("(a)|(?<q>b)", "b", "b"),
        ("(a+)\\1", "aaa", "aa"),
        ("(?<q>a)\\k<q>", "aa", "aa"),
        ("x{2,3}?", "xxxx", "xx"),
        ("a(?=b)", "acab", "a"),
        ("]}", "]}", "]}"),
    ],
)
def test_finds_what_java_finds(pattern: str, text: str, found: str | None) -> None:
    regex = compile_java_regex(pattern)
    match = regex.pattern.search(text)
    assert (match[0] if match else None) == found
    if regex.re2 is not None:
        assert pc.match_substring_regex(pa.scalar(text), regex.re2).as_py() is (found is not None)


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("\\bfoo", "version of Java"),
        ("\\Bfoo", "version of Java"),
        ("\\p{L}", "version of Java"),
        ("\\p{IsAlphabetic}", "version of Java"),
        ("(?<=a)b", "look-behind"),
        ("(?<!a)b", "look-behind"),
        ("(?>a)b", "atomic"),
        ("a++", "possessive"),
        ("(?m)^a", "flags"),
        ("a(?i)b", "flags"),
        ("(?x)a", "flags"),
        ("[a[b]]", "nested"),
        ("[a-z&&[b]]", "intersection"),
        ("[]a]", "bracket"),
        ("[\\u0000-\\uffff]", "surrogates"),
        ("[z-a]", "start is after its end"),
        ("(a*)*", "can be empty"),
        ("a**", "quantifier"),
        ("{2}", "nothing to repeat"),
        ("a{,3}", "repetition"),
        ("a{3,2}", "out of range"),
        ("(a", "not closed"),
        ("a)", "unmatched"),
        ("\\2(a)", "not closed there"),
        ("(a)\\12", "digit follows"),
        ("\\y", "not supported"),
        ("\ud83d", "surrogate"),
    ],
)
def test_refuses_with_the_reason(pattern: str, reason: str) -> None:
    with pytest.raises(UnsupportedRegexError, match="pattern") as refused:
        compile_java_regex(pattern)
    assert reason in str(refused.value)


def test_knows_texts_groups_and_empty_matches() -> None:
    assert compile_java_regex("a\\.b").literal == "a.b"
    assert compile_java_regex("a.b").literal is None
    assert compile_java_regex("(?i)ab").literal is None
    regex = compile_java_regex("(a)(?:b)(?<last>c)")
    assert (regex.groups, regex.group_names) == (2, {"last": 2})
    assert not regex.may_match_empty
    for pattern in ("a*", "a|", "^", "(a?)", "(?=a)", "a{0,2}"):
        assert compile_java_regex(pattern).may_match_empty, pattern


def test_leaves_to_python_what_re2_reads_in_another_way() -> None:
    assert compile_java_regex("a+[bc]\\d").re2 is not None
    for pattern in ("a$", "a\\z", "(?i)a", "(a)\\1", "(?=a)", "a{1001}"):
        assert compile_java_regex(pattern).re2 is None, pattern
