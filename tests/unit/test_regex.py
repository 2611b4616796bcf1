"""Java's regular expressions: what is translated, what is refused and why."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from engine.expressions.texts.java_regex.errors import InvalidRegexError, UnsupportedRegexError
from engine.expressions.texts.java_regex.pattern import JavaRegex
from engine.expressions.texts.regex_patterns import compiled


def compile_java_regex(pattern: str, java: int = 17) -> JavaRegex:
    return compiled(pattern, java)


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
        ("(?iu)K", "\u212a", "\u212a"),
        ("a(?i)b(?-i:c)", "aBc", "aBc"),
        ("(?m)^b$", "a\r\nb\nc", "b"),
        ("(?x) a b # c", "ab", "ab"),
        ("\\bb\\B.", "ab bc", "bc"),
        ("(?<=a{1,2}c)b", "aacb", "b"),
        ("(?<!a)b", "abb", "b"),
        ("(?>a|ab)c", "abc", None),
        ("a++b", "aab", "aab"),
        ("a++a", "aaa", None),
        ("[a-z&&[^b]]+", "bac", "ac"),
        ("[a[1-3]]+", "za2", "a2"),
        ("\\p{L}+", "1éß", "éß"),
        ("[]a]", "]", "]"),
        ("\\R{2}", "\r\n", None),
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
        ("a\\1|b", "aab", "b"),
        ("\\2?(a)", "ba", "a"),
        ("x{2,3}?", "xxxx", "xx"),
        ("a(?=b)", "acab", "a"),
        ("]}", "]}", "]}"),
    ],
)
def test_finds_what_java_finds(pattern: str, text: str, found: str | None) -> None:
    regex = compile_java_regex(pattern)
    finder, subject = regex.on(text)
    match = finder.search(subject)
    assert (finder.text(match[0]) if match else None) == found
    if regex.re2 is not None and not regex.ascii_only:
        assert pc.match_substring_regex(pa.scalar(text), regex.re2).as_py() is (found is not None)


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("\\p{IsLatin}", "property IsLatin"),
        ("\\p{InGreek}", "property InGreek"),
        ("\\X", "it has \\X"),
        ("a\\G", "it has \\G"),
        ("\\b{g}", "it has \\b"),
        ("\\N{DIGIT ONE}", "version of Unicode"),
        ("(?c)a", "flag c"),
        ("(?=(a))b", "captures in a look-around"),
        ("(?>(a))b", "captures in a look-around"),
        ("(a)++b", "captures in a look-around"),
        ("(?:(a)b)*", "captures within a group"),
        ("(a|b)*?c", "lazy quantifier"),
        ("(?:a*){2}", "can be empty"),
        ("(?<=a*)b", "no greatest length"),
        ("(?<=a)😀", "beyond U"),
        ("(?x)[a b]", "white space in a class"),
        ("\\1(a)", "not closed there"),
        ("(a\\1)", "not closed there"),
        ("(?iu)(a)\\1", "flags i and u"),
        ("\ud83d", "surrogate"),
    ],
)
def test_refuses_with_the_reason(pattern: str, reason: str) -> None:
    with pytest.raises(UnsupportedRegexError, match="pattern") as refused:
        compile_java_regex(pattern)
    assert reason in str(refused.value)


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("[]a", "Unclosed character class"),
        ("[z-a]", "Illegal character range"),
        ("a**", "Dangling meta character"),
        ("a{,3}", "Illegal repetition"),
        ("a{3,2}", "Illegal repetition range"),
        ("(a", "Unclosed group"),
        ("a)", "Unmatched closing"),
        ("\\y", "Illegal/unsupported escape"),
        ("\\p{Nothing}", "Unknown character property"),
        ("(?<a>x)(?<a>y)", "already defined"),
        ("\\k<a>", "does not exist"),
        ("(?<=(?:a|b)+)c", "obvious maximum length"),
    ],
)
def test_tells_what_java_refuses(pattern: str, reason: str) -> None:
    with pytest.raises(InvalidRegexError, match=reason):
        compile_java_regex(pattern)


@pytest.mark.parametrize(
    ("pattern", "text", "on_17", "on_21"),
    [
        ("\\bé", "aé é", [3], [1]),
        ("\\p{Lu}", "\u2c2f", [], [0]),
        ("\\b", "a\u0301 ", [0, 2], [0, 2]),
        ("x*", "😀x", [0, 1, 2, 3], [0, 1, 2, 3]),
    ],
)
def test_java_has_changed(pattern: str, text: str, on_17: list[int], on_21: list[int]) -> None:
    for java, starts in ((17, on_17), (21, on_21)):
        finder, subject = compile_java_regex(pattern, java).on(text)
        assert [match.start() for match in finder.every(subject)] == starts


def test_knows_texts_groups_and_empty_matches() -> None:
    assert compile_java_regex("a\\.b").literal == "a.b"
    assert compile_java_regex("a.b").literal is None
    assert compile_java_regex("(?i)ab").literal is None
    assert compile_java_regex("").literal == ""
    regex = compile_java_regex("(a)(?:b)(?<last>c)")
    assert (regex.groups, regex.group_names) == (2, {"last": 2})
    assert not regex.may_match_empty
    for pattern in ("a*", "a|", "^", "(a?)", "(?=a)", "a{0,2}"):
        assert compile_java_regex(pattern).may_match_empty, pattern


def test_leaves_to_python_what_re2_reads_in_another_way() -> None:
    assert compile_java_regex("a+[bc]\\d").re2 is not None
    for pattern in ("a$", "(a)\\1", "(?=a)", "a{1001}", "(?:a{100}){100}", "\\Ba"):
        assert compile_java_regex(pattern).re2 is None, pattern
