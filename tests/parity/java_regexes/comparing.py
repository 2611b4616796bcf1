"""Random patterns in ``java.util.regex`` of a running JVM, and here."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from engine.expressions.texts.java_regex.errors import InvalidRegexError, UnsupportedRegexError
from engine.expressions.texts.java_regex.forms import restored
from engine.expressions.texts.java_regex.pattern import JavaRegex, compile_java_regex
from tests.parity.java_regexes.drawing import draw_pattern, draw_text

_TEXTS = 4
_MARK = "\ue000"
"""In no text and in no pattern."""


@dataclass
class Outcome:
    """What has been compared.

    :param counts: patterns that are the same, refused here, and refused by Java, too.
    """

    counts: Counter[str] = field(default_factory=Counter)
    differences: list[str] = field(default_factory=list)


def compare(jvm: Any, seed: int, patterns: int) -> Outcome:
    """Each pattern in some texts: all matches, and what its groups have captured."""
    rng = random.Random(seed)
    java = int(jvm.System.getProperty("java.specification.version"))
    outcome = Outcome()
    for _ in range(patterns):
        pattern = draw_pattern(rng)
        texts = [draw_text(rng) for _ in range(_TEXTS)]
        outcome.counts[_compare(jvm, java, pattern, texts, outcome.differences)] += 1
    return outcome


def _compare(jvm: Any, java: int, pattern: str, texts: list[str], differences: list[str]) -> str:
    try:
        theirs = jvm.java.util.regex.Pattern.compile(pattern)
    except (Py4JJavaError, PySparkException):
        theirs = None
    try:
        ours = compile_java_regex(pattern, java)
    except InvalidRegexError as error:
        if theirs is not None:
            differences.append(f"{pattern!r}: {error}")
        return "invalid"
    except UnsupportedRegexError:
        return "refused"
    if theirs is None:
        differences.append(f"{pattern!r} is not valid in Java")
        return "invalid"
    for text in texts:
        wanted, found = _in_java(theirs, text, ours.groups), _here(ours, text)
        if wanted != found:
            differences.append(f"{pattern!r} in {text!r}: {wanted!r} in Java, {found!r} here")
    return "same"


def _in_java(pattern: Any, text: str, groups: int) -> str:
    """Each match replaced by its groups between marks."""
    references = _MARK.join(f"${number}" for number in range(groups + 1))
    return str(pattern.matcher(text).replaceAll(f"{_MARK}<{references}>{_MARK}"))


def _here(regex: JavaRegex, text: str) -> str:
    finder, subject = regex.on(text)
    pieces, position = [], 0
    for match in finder.every(subject):
        captured = (finder.group(match, number) or "" for number in range(regex.groups + 1))
        pieces += [subject[position : match.start()], f"{_MARK}<{_MARK.join(captured)}>{_MARK}"]
        position = match.end()
    return restored("".join([*pieces, subject[position:]]))
