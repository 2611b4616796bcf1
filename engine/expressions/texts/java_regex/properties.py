"""``\\p{..}`` and what else depends on Java's version of Unicode.

Scripts and blocks are refused, and so are the properties of emojis and of Java's identifiers.

Source: ``java.util.regex.CharPredicates``, ``java.lang.Character``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Final

from engine.expressions.texts.java_regex.char_sets import (
    ASCII,
    DIGITS,
    EVERY,
    SPACES,
    WORD,
    CharSet,
)
from engine.expressions.texts.java_regex.predicates import Predicate
from engine.expressions.texts.java_regex.unicode import Cases, Unicode, unicode_of

_LETTERS: Final = CharSet.of([(0x41, 0x5A), (0x61, 0x7A)])
_GRAPHIC: Final = CharSet.of([(0x21, 0x7E)])
_ALNUM: Final = _LETTERS | DIGITS
_POSIX: Final = {
    "ASCII": ASCII, "Alnum": _ALNUM, "Alpha": _LETTERS, "Blank": CharSet.chars(" \t"),
    "Cntrl": CharSet.of([(0, 0x1F), (0x7F, 0x7F)]), "Digit": DIGITS, "Graph": _GRAPHIC,
    "Lower": CharSet.of([(0x61, 0x7A)]), "Print": CharSet.of([(0x20, 0x7E)]),
    "Punct": _GRAPHIC - _ALNUM, "Space": SPACES, "Upper": CharSet.of([(0x41, 0x5A)]),
    "XDigit": CharSet.chars("0123456789abcdefABCDEF"), "L1": CharSet.of([(0, 0xFF)]),
}  # fmt: skip
_CASED: Final = ("Lu", "Ll", "Lt")
_CATEGORIES: Final = {
    "L": (*_CASED, "Lm", "Lo"), "M": ("Mn", "Me", "Mc"), "N": ("Nd", "Nl", "No"),
    "Z": ("Zs", "Zl", "Zp"), "C": ("Cc", "Cf", "Co", "Cs", "Cn"),
    "P": ("Pd", "Ps", "Pe", "Pc", "Po", "Pi", "Pf"), "S": ("Sm", "Sc", "Sk", "So"),
    "LC": _CASED, "LD": (*_CASED, "Lm", "Lo", "Nd"),
}  # fmt: skip
_ALONE: Final = frozenset(name for names in _CATEGORIES.values() for name in names)
_HEX: Final = CharSet.of(
    [(0x30, 0x39), (0x41, 0x46), (0x61, 0x66), (0xFF10, 0xFF19), (0xFF21, 0xFF26), (0xFF41, 0xFF46)]
)
_OF_JAVA_ALONE: Final = frozenset((
    "javaJavaIdentifierStart", "javaJavaIdentifierPart", "javaUnicodeIdentifierStart",
    "javaUnicodeIdentifierPart", "javaIdentifierIgnorable", "javaMirrored",
))  # fmt: skip
_NOT_SPACES: Final = CharSet.chars("\xa0\u2007\u202f")


class UnknownPropertyError(ValueError):
    """Java does not know it either; the message is Java's."""


class Properties:
    """Those of one version of Java.

    :param java: 17, 21 and so on.
    """

    def __init__(self, java: int) -> None:
        self._java = java

    @cached_property
    def _unicode(self) -> Unicode | None:
        return unicode_of(self._java)

    @property
    def _known(self) -> Unicode:
        if self._unicode is None:
            raise LookupError(f"the Unicode of Java {self._java} is not known")
        return self._unicode

    @property
    def cases(self) -> Cases:
        """Of letters that are not ASCII, too."""
        return self._known.cases

    @cached_property
    def digits(self) -> Predicate:
        """``\\d`` with the flag U."""
        return Predicate(self._known.category("Nd"), False)

    @cached_property
    def word(self) -> Predicate:
        """``\\w`` with the flag U."""
        more = self._known.category("Mn", "Me", "Mc", "Nd", "Pc") | CharSet.of([(0x200C, 0x200D)])
        return Predicate(self._known.alphabetic | more, False)

    @cached_property
    def white_space(self) -> Predicate:
        """``\\s`` with the flag U."""
        controls = CharSet.of([(0x09, 0x0D), (0x85, 0x85)])
        return Predicate(self._known.category("Zs", "Zl", "Zp") | controls, False)

    @cached_property
    def marks(self) -> CharSet:
        """What is part of a word where it follows a letter or a digit."""
        return self._known.category("Mn")

    @cached_property
    def letters_or_digits(self) -> CharSet:
        """``Character.isLetterOrDigit``."""
        return self._known.category(*_CATEGORIES["LD"])

    @property
    def known(self) -> bool:
        """Whether this Java's Unicode is."""
        return self._unicode is not None

    def word_at_boundaries(self, unicode_classes: bool) -> CharSet:
        """What ``\\b`` takes for part of a word: Java 19 has changed it to ``\\w``."""
        if unicode_classes:
            return self.word.set
        return WORD if self._java >= 19 else self.letters_or_digits | CharSet.chars("_")

    def find(self, name: str, ignore_case: bool, unicode_classes: bool) -> Predicate | None:
        """What ``\\p{name}`` is; None if that is not known here.

        :raises UnknownPropertyError: Java does not know it.
        """
        key, equals, value = name.partition("=")
        if equals:
            if key.lower() in ("gc", "general_category"):
                return self._plain(value, ignore_case, name)
            if key.lower() in ("sc", "script", "blk", "block"):
                return None
            raise UnknownPropertyError(f"Unknown Unicode property {{{name}}}")
        if name.startswith("In"):
            return None
        if name.startswith("Is"):
            return self._named(name[2:], ignore_case)
        if unicode_classes and name.upper() in _WITH_UNICODE:
            return self._with_unicode(name.upper(), ignore_case)
        return self._plain(name, ignore_case, name)

    def _named(self, name: str, ignore_case: bool) -> Predicate | None:
        upper = name.upper()
        if upper in _BINARY or upper in _WITH_UNICODE:
            return self._with_unicode(upper, ignore_case)
        try:
            return self._plain(name, ignore_case, name)
        except UnknownPropertyError:
            return None  # it may be a script

    def _with_unicode(self, name: str, ignore_case: bool) -> Predicate | None:
        if self._unicode is None:
            return None
        points = {**_BINARY, **_WITH_UNICODE}[name](self)
        if ignore_case and name in ("LOWER", "UPPER", "LOWERCASE", "UPPERCASE", "TITLECASE"):
            points = self._any_case()
        return Predicate(points, False)

    def _any_case(self) -> CharSet:
        return self._known.lower_case | self._known.upper_case | self._known.category("Lt")

    def _plain(self, name: str, ignore_case: bool, whole: str) -> Predicate | None:
        """As ``Character`` and ``Pattern`` name it, without a prefix."""
        if name in _POSIX:
            cased = ignore_case and name in ("Lower", "Upper")
            return Predicate(_LETTERS if cased else _POSIX[name])
        if name == "all":
            return Predicate(EVERY, False)
        if name in _OF_JAVA_ALONE:
            return None
        if name in _CATEGORIES or name in _ALONE:
            names = _CATEGORIES.get(name, (name,))
            if ignore_case and name in _CASED:
                names = _CASED
            return (
                None if self._unicode is None else Predicate(self._unicode.category(*names), False)
            )
        if name in _JAVA:
            if self._unicode is None:
                return None
            cased = ignore_case and name in ("javaLowerCase", "javaUpperCase", "javaTitleCase")
            return Predicate(self._any_case() if cased else _JAVA[name](self), False)
        raise UnknownPropertyError(f"Unknown character property name {{{whole}}}")


def _category(*names: str) -> Callable[[Properties], CharSet]:
    return lambda properties: properties._known.category(*names)


def _assigned(properties: Properties) -> CharSet:
    return ~properties._known.category("Cn")


def _graphic(properties: Properties) -> CharSet:
    return ~properties._known.category("Zs", "Zl", "Zp", "Cc", "Cs", "Cn")


def _blank(properties: Properties) -> CharSet:
    return properties._known.category("Zs") | CharSet.chars("\t")


def _alphabetic(properties: Properties) -> CharSet:
    return properties._known.alphabetic


_WITH_UNICODE: Final[dict[str, Callable[[Properties], CharSet]]] = {
    "ALPHA": _alphabetic,
    "LOWER": lambda properties: properties._known.lower_case,
    "UPPER": lambda properties: properties._known.upper_case,
    "SPACE": lambda properties: properties.white_space.set,
    "PUNCT": _category(*_CATEGORIES["P"]),
    "XDIGIT": lambda properties: properties.digits.set | _HEX,
    "ALNUM": lambda properties: _alphabetic(properties) | properties.digits.set,
    "CNTRL": _category("Cc"),
    "DIGIT": _category("Nd"),
    "BLANK": _blank,
    "GRAPH": _graphic,
    "PRINT": lambda properties: (
        (_graphic(properties) | _blank(properties)) - properties._known.category("Cc")
    ),
}
"""POSIX classes with the flag U."""
_NONCHARACTERS: Final = CharSet.of(
    [(0xFDD0, 0xFDEF), *((plane + 0xFFFE, plane + 0xFFFF) for plane in range(0, 0x110000, 0x10000))]
)
_BINARY: Final[dict[str, Callable[[Properties], CharSet]]] = {
    "ALPHABETIC": _alphabetic,
    "ASSIGNED": _assigned,
    "CONTROL": _category("Cc"),
    "HEXDIGIT": _WITH_UNICODE["XDIGIT"],
    "HEX_DIGIT": _WITH_UNICODE["XDIGIT"],
    "IDEOGRAPHIC": lambda properties: properties._known.ideographic,
    "JOINCONTROL": lambda _: CharSet.of([(0x200C, 0x200D)]),
    "JOIN_CONTROL": lambda _: CharSet.of([(0x200C, 0x200D)]),
    "LETTER": _category(*_CATEGORIES["L"]),
    "LOWERCASE": _WITH_UNICODE["LOWER"],
    "NONCHARACTERCODEPOINT": lambda _: _NONCHARACTERS,
    "NONCHARACTER_CODE_POINT": lambda _: _NONCHARACTERS,
    "TITLECASE": _category("Lt"),
    "PUNCTUATION": _category(*_CATEGORIES["P"]),
    "UPPERCASE": _WITH_UNICODE["UPPER"],
    "WHITESPACE": _WITH_UNICODE["SPACE"],
    "WHITE_SPACE": _WITH_UNICODE["SPACE"],
    "WORD": lambda properties: properties.word.set,
}
"""``\\p{IsAlphabetic}`` and so on."""
_JAVA: Final[dict[str, Callable[[Properties], CharSet]]] = {
    "javaLowerCase": _WITH_UNICODE["LOWER"],
    "javaUpperCase": _WITH_UNICODE["UPPER"],
    "javaAlphabetic": _alphabetic,
    "javaIdeographic": _BINARY["IDEOGRAPHIC"],
    "javaTitleCase": _category("Lt"),
    "javaDigit": _category("Nd"),
    "javaDefined": _assigned,
    "javaLetter": _category(*_CATEGORIES["L"]),
    "javaLetterOrDigit": lambda properties: properties.letters_or_digits,
    "javaSpaceChar": _category("Zs", "Zl", "Zp"),
    "javaWhitespace": lambda properties: (
        (properties._known.category("Zs", "Zl", "Zp") - _NOT_SPACES)
        | CharSet.of([(0x09, 0x0D), (0x1C, 0x1F)])
    ),
    "javaISOControl": lambda _: CharSet.of([(0, 0x1F), (0x7F, 0x9F)]),
}
"""Methods of ``java.lang.Character``."""
