"""``url_encode``, ``url_decode``, ``parse_url`` and their ``try_`` twins.

Source: ``urlExpressions.scala`` of Spark; ``java.net.URLEncoder``, ``java.net.URLDecoder``.
"""

from __future__ import annotations

import re
import unicodedata
import urllib.parse
from collections.abc import Callable
from typing import Final

from engine.expressions.ansi import failure
from engine.expressions.datum import constant, constant_value
from engine.expressions.java_characters import DIGIT
from engine.expressions.java_utf8 import decoded
from engine.expressions.rowwise import RowFunction, rowwise, rowwise_factory
from engine.expressions.texts.java_regex.errors import UnsupportedRegexError
from engine.expressions.texts.java_regex.pattern import JavaRegex
from engine.expressions.texts.java_uri import JavaUri, UriSyntaxError
from engine.expressions.texts.regex_patterns import JAVA_VERSION, compiled, java_of
from engine.expressions.tree import Expr


@rowwise("UrlEncode")
def url_encode(text: str) -> str:
    """``url_encode``: a space becomes a plus."""
    return urllib.parse.quote_plus(text, safe="*").replace("~", "%7E")


def _fails(expr: Expr) -> bool:
    return expr.params.get("fail_on_error") is not False


@rowwise_factory("UrlDecode", can_fail=_fails, reads=("fail_on_error",))
def url_decode(expr: Expr) -> RowFunction:
    """``url_decode``: bytes that are no UTF-8 become U+FFFD."""
    strictly = _fails(expr)

    def decode(text: str) -> str | None:
        try:
            return _decoded(text)
        except ValueError:
            if strictly:
                raise failure("CANNOT_DECODE_URL", f"{text!r} is no encoded text.") from None
            return None

    return decode


_ESCAPES: Final = re.compile("(?:%..)+|%", re.DOTALL)
_HEX_DIGIT: Final = f"(?:{DIGIT}|[a-fA-F\uff21-\uff26\uff41-\uff46])"
"""``Character.digit`` to the base of 16 knows letters of full width, too."""
_ESCAPED: Final = re.compile(rf"\+?{_HEX_DIGIT}+|-{DIGIT}")


def _decoded(text: str) -> str:
    """:raises ValueError: a percent sign without two digits."""
    return _ESCAPES.sub(_characters, text.replace("+", " ") if "%" not in text else _spaced(text))


def _spaced(text: str) -> str:
    """A plus is a space, unless Java reads it as the sign of a number."""
    return re.sub(r"(%..)|\+", lambda m: m[1] or " ", text, flags=re.DOTALL)


def _characters(match: re.Match[str]) -> str:
    octets = bytearray()
    for digits in re.findall("%(..)", match[0], re.DOTALL) or [""]:
        if _ESCAPED.fullmatch(digits) is None:
            raise ValueError(digits)
        octets.append(int(unicodedata.normalize("NFKC", digits), 16))
    return decoded(bytes(octets))


def _file(uri: JavaUri) -> str | None:
    return uri.path if uri.query is None else f"{uri.path}?{uri.query}"


def _nothing(uri: JavaUri) -> str | None:
    return None


_PARTS: Final[dict[str, Callable[[JavaUri], str | None]]] = {
    "HOST": lambda uri: uri.host,
    "PATH": lambda uri: uri.path,
    "QUERY": lambda uri: uri.query,
    "REF": lambda uri: uri.fragment,
    "PROTOCOL": lambda uri: uri.scheme,
    "FILE": _file,
    "AUTHORITY": lambda uri: uri.authority,
    "USERINFO": lambda uri: uri.user_info,
}


def _supports(expr: Expr) -> str | None:
    if any(constant(child) is None for child in expr.children[1:]):
        return "the part and the key must be constants"
    if len(expr.children) == 3:
        try:
            _key_pattern(expr)
        except UnsupportedRegexError as error:
            return str(error)
    return None


def _key_pattern(expr: Expr) -> JavaRegex:
    """Spark puts the key into a regular expression as it is."""
    return compiled(f"(&|^){constant_value(expr.children[2])}=([^&]*)", java_of(expr))


@rowwise_factory(
    "ParseUrl",
    can_fail=_fails,
    supports=_supports,
    reads=("fail_on_error", JAVA_VERSION),
    arguments=(0,),
)
def parse_url(expr: Expr) -> RowFunction | None:
    """``parse_url``: NULL for a part that the URL has not, or that there is not."""
    if any(constant_value(child) is None for child in expr.children[1:]):
        return None
    strictly, name = _fails(expr), constant_value(expr.children[1])
    take = _PARTS.get(name, _nothing)
    pattern = _key_pattern(expr) if len(expr.children) == 3 else None
    if pattern is not None and name != "QUERY":
        return None

    def part(url: str) -> str | None:
        try:
            found = take(JavaUri.parse(url))
        except UriSyntaxError:
            if strictly:
                raise failure("INVALID_URL", f"{url!r} is not a valid URL.") from None
            return None
        if pattern is None or found is None:
            return found
        finder, subject = pattern.on(found)
        match = finder.search(subject)
        value = finder.group(match, 2) if match else None  # of 'a|b' none, perhaps
        return None if value is None else finder.text(value)

    return part
