"""JSON as Jackson reads it for Spark: token by token, a little more than the standard allows.

Texts and names may be in single quotes; ``NaN``, ``Infinity``, ``+INF`` and the like are numbers;
whatever follows the first value is ignored; a name may occur twice.

Spark goes on reading after a malformed value and keeps what it had read before. So this parser
also does after an error what Jackson does: it remembers the same state and stands at the same
place. It is exact and slow: Python's own :mod:`json` reads what both read the same way.

Source: ``com.fasterxml.jackson.core.json.ReaderBasedJsonParser``; ``JSONOptions`` and
``SharedFactory`` of Spark.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import Any, Final

from engine.expressions.json.jackson_base64 import Base64Error, UnpaddedError, base64_of, decoded

_BLANKS: Final = re.compile(r"[ \t\r\n]*")
_INTEGER: Final = re.compile(r"-?[0-9]+")
_LEADING_ZEROS: Final = re.compile(r"\A(-?)0+(?=[0-9])")
_FRACTION: Final = re.compile(r"\.[0-9]+")
_EXPONENT: Final = re.compile(r"[eE][+-]?[0-9]+")
_ESCAPED: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"} | {
    char: char for char in "\"'/\\"
}
_SURROGATE_PAIR: Final = re.compile("([\ud800-\udbff])([\udc00-\udfff])")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_WORDS: Final = {"t": "true", "f": "false", "n": "null", "N": "NaN", "I": "Infinity"}
_IDENTIFIERS: Final = {"Lu", "Ll", "Lt", "Lm", "Lo", "Nl", "Nd", "Mn", "Mc", "Pc", "Sc", "Cf"}
_DEPTH_MAX: Final = 1_000
_DIGITS_MAX: Final = 1_000
_LONG_NUMBER: Final = re.compile("[0-9.eE+-]{1001}")
_TOKEN_SHOWN_MAX: Final = 256
_NAME_MAX: Final = 50_000

START_OBJECT, END_OBJECT, START_ARRAY, END_ARRAY = "{}[]"
NAME, STRING, INT, FLOAT = "name", "string", "int", "float"
_STARTS: Final = (START_OBJECT, START_ARRAY)
TRUE, FALSE, NULL = "true", "false", "null"


class JsonError(ValueError):
    """The text is not JSON, by Jackson's rules."""


class Number(float):
    """A number with a point or an exponent, and how it was written."""

    text: str

    def __new__(cls, text: str) -> Number:
        """By its text, which may be ``NaN``, ``+INF``, ``-Infinity`` and so on."""
        number = super().__new__(cls, text.replace("INF", "Infinity"))
        number.text = text
        return number


class Members(list[tuple[str, Any]]):
    """An object: names and values in their order."""


@dataclass
class _Scope:
    """Where the parser is: the text itself, an object or an array."""

    bracket: str
    entries: int = -1
    name: str | None = None


@dataclass(frozen=True)
class Features:
    """What is taken beyond the standard.

    :param single_quotes: around texts and names.
    :param unquoted_names: names without quotes.
    :param leading_zeros: of numbers.
    :param names_of_numbers: ``NaN``, ``Infinity``, ``+INF`` and the like.
    :param any_escape: a backslash in front of any character.
    :param control_characters: inside of texts.
    """

    single_quotes: bool = True
    unquoted_names: bool = False
    leading_zeros: bool = False
    names_of_numbers: bool = True
    any_escape: bool = False
    control_characters: bool = False


SPARK: Final = Features()
HIVE: Final = Features(names_of_numbers=False, control_characters=True)
"""Of ``get_json_object``, ``json_tuple`` and the like."""


class JsonParser:
    """Reads one text.

    :param text: what to read.
    """

    def __init__(self, text: str, features: Features = SPARK) -> None:
        self._text = text
        self._features = features
        self._position = 0
        self._scopes = [_Scope("")]
        self._after_name: str | None = None
        self._in_string = False
        self._value: Any = None
        self.token: str | None = None

    @property
    def name(self) -> str | None:
        """The name of the present member; of the one that the present object or array is."""
        opened = self.token in _STARTS and len(self._scopes) > 1
        return self._scopes[-2 if opened else -1].name

    @property
    def value(self) -> Any:
        """The text, or the number, of the present token.

        :raises JsonError: a text is malformed.
        """
        if self._in_string:
            self._in_string = False
            self._value = self._finish_string('"')
        return self._value

    def binary(self) -> bytes:
        """What the present text stands for in Base64.

        :raises JsonError: nothing, or the text is malformed.
        """
        try:
            if not self._in_string:
                return base64_of(self._value)
            found = decoded(self._next_of_string, self._escaped, end='"')
        except UnpaddedError as error:
            self._position -= self._in_string
            raise JsonError(str(error)) from None
        except Base64Error as error:
            raise JsonError(str(error)) from None
        self._in_string = False
        return found

    def _next_of_string(self) -> str:
        char = self._text[self._position : self._position + 1]
        if not char:
            raise JsonError("a text has no end")
        self._position += 1
        return char

    def next(self) -> str | None:
        """Go on to the next token: one of the constants above, or None at the end.

        :raises JsonError: the text is malformed.
        """
        if self.token == NAME:
            token, self._after_name = self._after_name, None
            if token in _STARTS:
                self._open(token)
            self.token = token
            return token
        if self._in_string:
            self._in_string = False
            self._finish_string('"')
        char = self._next_char(may_end=len(self._scopes) == 1)
        if char == "":
            self.token = None
            return None
        if char in "]}":
            return self._close(char)
        scope = self._scopes[-1]
        scope.entries += 1
        if scope.bracket and scope.entries > 0:
            if char != ",":
                raise JsonError("a comma is missing")
            char = self._next_char()
        if scope.bracket == "{":
            return self._member(scope, char)
        self.token = self._start_value(char)
        if self.token in _STARTS:
            self._open(self.token)
        return self.token

    def skip_children(self) -> None:
        """Go to the end of the present object or array."""
        if self.token not in _STARTS:
            return
        depth = 1
        while depth:
            token = self.next()
            if token is None:
                raise JsonError("the text ends early")
            depth += (token in _STARTS) - (token in (END_OBJECT, END_ARRAY))

    def tree(self) -> Any:
        """The present value, to its end: None, bool, int, :class:`Number`, str, list or
        :class:`Members`."""
        found: list[Any] = []
        holders = [found]  # all that is open: Jackson goes deeper than Python's own calls may
        while True:
            value = self._value_or_holder()
            holder = holders[-1]
            holder.append((str(self.name), value) if isinstance(holder, Members) else value)
            if self.token in _STARTS:
                holders.append(value)
            while len(holders) > 1 and not self._has_next_in(holders[-1]):
                holders.pop()
            if len(holders) == 1:
                return found[0]

    def _value_or_holder(self) -> Any:
        """The present value; of an object or array nothing but an empty one."""
        if self.token in _STARTS:
            return [] if self.token == START_ARRAY else Members()
        if self.token in (TRUE, FALSE, NULL):
            return {TRUE: True, FALSE: False, NULL: None}[self.token]
        if self.token in (None, END_OBJECT, END_ARRAY):
            raise JsonError("a value is missing")
        return self.value

    def _has_next_in(self, holder: list[Any]) -> bool:
        """Go on to the next value of an object or array; whether there is one."""
        token = self.next()
        if not isinstance(holder, Members):
            return token != END_ARRAY
        if token == NAME:
            self.next()
        return token == NAME

    def _member(self, scope: _Scope, char: str) -> str:
        if char == '"' or (char == "'" and self._features.single_quotes):
            scope.name = self._name(char)
        elif self._features.unquoted_names and _is_name_part(char):
            start = self._position - 1
            while _is_name_part(self._text[self._position : self._position + 1]):
                self._position += 1
            scope.name = self._text[start : self._position]
        else:
            raise JsonError("a name is missing")
        # If what follows is malformed, Jackson has a name, and behind it nothing.
        self.token = NAME
        if self._next_char() != ":":
            raise JsonError("a colon is missing")
        self._after_name = self._start_value(self._next_char())
        return NAME

    def _name(self, quote: str) -> str:
        name = self._finish_string(quote)
        if len(name) > _NAME_MAX:
            raise JsonError("a name is too long")
        return name

    def _open(self, bracket: str) -> None:
        if len(self._scopes) > _DEPTH_MAX:
            raise JsonError("nested too deeply")
        self._scopes.append(_Scope(bracket))

    def _close(self, char: str) -> str:
        if self._scopes[-1].bracket != {"]": "[", "}": "{"}[char]:
            raise JsonError(f"{char!r} closes nothing")
        self._scopes.pop()
        self.token = char
        return char

    def _start_value(self, char: str) -> str:
        if char in "[{":
            return char
        if char == '"':
            self._in_string = True
            return STRING
        if char == "'" and self._features.single_quotes:
            self._value = self._finish_string("'")
            return STRING
        if char.isdigit() and char.isascii():
            self._position -= 1
            return self._number()
        if char in "-+":
            return self._signed(char)
        return self._word(char)

    def _word(self, char: str) -> str:
        word = _WORDS.get(char)
        if word is not None:
            self._match(word, 1)
            if word in (TRUE, FALSE, NULL):
                return word
            if not self._features.names_of_numbers:
                raise JsonError(f"{word} is not a number here")
            self._value = Number(word)
            return FLOAT
        if char.isalpha() or char in "_$":
            self._skip_identifier()
        raise JsonError("a value is missing")

    def _match(self, word: str, index: int) -> None:
        """The rest of a word, and that nothing is attached to it."""
        for expected in word[index:]:
            if self._text[self._position : self._position + 1] != expected:
                self._skip_identifier()
                raise JsonError("a word is not known")
            self._position += 1
        if _is_identifier_part(self._text[self._position : self._position + 1]):
            self._skip_identifier()
            raise JsonError("a word is not known")

    def _skip_identifier(self) -> None:
        end = min(len(self._text), self._position + _TOKEN_SHOWN_MAX)
        while self._position < end and _is_identifier_part(self._text[self._position]):
            self._position += 1

    def _signed(self, sign: str) -> str:
        char = self._text[self._position : self._position + 1]
        if sign == "-" and char.isdigit() and char.isascii():
            self._position -= 1
            return self._number()
        self._position += 1
        if char == "I":
            kind = self._text[self._position : self._position + 1]
            self._position += 1
            if kind in ("N", "n") and kind:
                word = f"{sign}{'INF' if kind == 'N' else 'Infinity'}"
                self._match(word, 3)
                if self._features.names_of_numbers:
                    self._value = Number(word)
                    return FLOAT
        raise JsonError("a number is malformed")

    def _number(self) -> str:
        start = self._position
        match = _INTEGER.match(self._text, start)
        assert match is not None
        digits = match[0].lstrip("-")
        if digits[0] == "0" and len(digits) > 1 and not self._features.leading_zeros:
            self._position = match.end() - len(digits) + 1
            raise JsonError("a number has a leading zero")
        end = match.end()
        token = INT
        for part, letters in ((_FRACTION, "."), (_EXPONENT, "eE")):
            following = self._text[end : end + 1]
            if following and following in letters:
                token = FLOAT
                self._position = end + (2 if digits[0] == "0" else 1)
                found = part.match(self._text, end)
                if found is None:
                    raise JsonError("a number is incomplete")
                end = found.end()
        self._position = end
        following = self._text[end : end + 1]
        if len(self._scopes) == 1 and following and following not in " \t\r\n":
            raise JsonError("a number is not separated from what follows")
        text = self._text[start:end]
        if len(digits) > 1 and digits[0] == "0":
            text = _LEADING_ZEROS.sub(r"\1", text)
        if len(text) > _DIGITS_MAX and sum(map(str.isdigit, text)) > _DIGITS_MAX:
            raise JsonError("a number is too long")
        self._value = Number(text) if token == FLOAT else int(text)
        return token

    def _finish_string(self, quote: str) -> str:
        """From behind the opening quote to behind the closing one."""
        pieces: list[str] = []
        start = self._position
        text = self._text
        while True:
            if self._position >= len(text):
                raise JsonError("a text has no end")
            char = text[self._position]
            self._position += 1
            if char == quote:
                pieces.append(text[start : self._position - 1])
                return _SURROGATE_PAIR.sub(_joined, "".join(pieces))
            if char == "\\":
                pieces.append(text[start : self._position - 1])
                pieces.append(self._escaped())
                start = self._position
            elif char < " " and not self._features.control_characters:
                raise JsonError("a text has a control character")

    def _escaped(self) -> str:
        char = self._text[self._position : self._position + 1]
        self._position += 1
        if char != "u":
            if char == "'" and not self._features.single_quotes and not self._features.any_escape:
                raise JsonError("an escape is not known")
            if char not in _ESCAPED and not (char and self._features.any_escape):
                raise JsonError("an escape is not known")
            return _ESCAPED.get(char, char)
        code = 0
        for _ in range(4):
            digit = self._text[self._position : self._position + 1]
            self._position += 1
            if digit not in set("0123456789abcdefABCDEF"):
                raise JsonError("an escape is not hexadecimal")
            code = code * 16 + int(digit, 16)
        return chr(code)

    def _next_char(self, may_end: bool = False) -> str:
        """Behind blanks."""
        match = _BLANKS.match(self._text, self._position)
        assert match is not None
        char = self._text[match.end() : match.end() + 1]
        self._position = match.end() + len(char)
        if char == "" and not may_end:
            raise JsonError("the text ends early")
        if char and char < " ":
            raise JsonError("a control character is in the way")
        return char


def _is_identifier_part(char: str) -> bool:
    """``Character.isJavaIdentifierPart``, which some control characters are, and no character
    beyond U+FFFF is, for Java sees the halves of its surrogate pair."""
    if not char or char > "\uffff":
        return False
    is_ignorable = char <= "\x08" or "\x0e" <= char <= "\x1b" or "\x7f" <= char <= "\x9f"
    return is_ignorable or unicodedata.category(char) in _IDENTIFIERS


def _is_name_part(char: str) -> bool:
    """Of a name without quotes."""
    return char > " " and (char in "@#*-+" or _is_identifier_part(char))


def _joined(match: re.Match[str]) -> str:
    return chr(0x10000 + ((ord(match[1]) - 0xD800) << 10) + ord(match[2]) - 0xDC00)


def as_utf8(text: str) -> str:
    """Half of a surrogate pair becomes a question mark, as when Java encodes UTF-8."""
    return _SURROGATE.sub("?", text)


def read(text: str, features: Features = SPARK) -> Any:
    """The first value of a text.

    :raises JsonError: there is none, or it is malformed.
    """
    parser = JsonParser(text, features)
    parser.next()
    return parser.tree()


def may_be_too_much(text: str) -> bool:
    """Whether a number or a name may be longer, or objects and arrays nested more deeply, than
    Jackson reads them: other parsers do."""
    if len(text) <= min(_DIGITS_MAX, _DEPTH_MAX):
        return False
    if text.count("{") + text.count("[") > _DEPTH_MAX or _LONG_NUMBER.search(text) is not None:
        return True
    between_quotes = text.replace('\\"', "__").split('"') if len(text) > _NAME_MAX else ()
    return any(len(piece) > _NAME_MAX for piece in between_quotes)


def is_blank(text: str) -> bool:
    """Whether there is no value at all."""
    return _BLANKS.fullmatch(text) is not None
