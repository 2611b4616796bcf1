"""``java.net.URI``: RFC 2396 with Java's deviations, e.g. letters beyond ASCII.

::

    [scheme:]//authority/path?query#fragment    authority: [userinfo@]host[:port], or anything else
    [scheme:]path?query#fragment
    scheme:opaque#fragment

Source: ``java.net.URI.Parser``.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from string import ascii_letters, digits
from typing import Final

from engine.expressions.whole_numbers import whole_number

_ALNUM: Final = "A-Za-z0-9"
_UNRESERVED: Final = f"{ascii_letters}{digits}-_.!~*'()"


def _only(characters: str) -> re.Pattern[str]:
    """These, unreserved and escaped ones, and all beyond ASCII and U+0080, among which Java looks
    for spaces and control characters by itself."""
    allowed = {*_UNRESERVED, *characters}
    # By those that are not: a class with a range of a million takes 4 ms to compile.
    others = "".join(char for char in map(chr, range(0x81)) if char not in allowed)
    return re.compile(rf"(?:[^{re.escape(others)}]|%[0-9A-Fa-f][0-9A-Fa-f])*")


_URIC: Final = _only(";/?:@&=+$,[]")
_PATH: Final = _only(":@&=+$,;/")
_USER_INFO: Final = _only(";:&=+$,")
_REG_NAME: Final = _only("$,;:@&=+")
_SERVER: Final = _only(";:&=+$,.@[]")
_SERVER_PERCENT: Final = _only(";:&=+$,.@[]%")
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*")
_SPLIT: Final = re.compile(r"(?P<scheme>[^/?#:]*:)?(?P<rest>.*)", re.DOTALL)
_LABEL: Final = rf"[{_ALNUM}](?:[{_ALNUM}\-]*[{_ALNUM}])?"
_HOST_NAME: Final = re.compile(rf"(?:{_LABEL}\.)*(?P<last>{_LABEL})\.?")
_IPV4: Final = re.compile(r"(\d{1,10})\.(\d{1,10})\.(\d{1,10})\.(\d{1,10})", re.ASCII)
_IPV6_GROUP: Final = re.compile("[0-9A-Fa-f]{1,4}")
_SCOPE_ID: Final = re.compile(rf"[{_ALNUM}_.]+")


class UriSyntaxError(ValueError):
    """Java would throw a ``URISyntaxException``."""


@dataclass(frozen=True)
class JavaUri:
    """The raw parts of a URI; None for those that it has not."""

    scheme: str | None = None
    authority: str | None = None
    user_info: str | None = None
    host: str | None = None
    path: str | None = None
    query: str | None = None
    fragment: str | None = None

    @classmethod
    def parse(cls, text: str) -> JavaUri:
        """:raises UriSyntaxError: it is none."""
        if any(_is_blank(char) for char in text if char > "\x80"):
            raise UriSyntaxError(text)
        match = _SPLIT.fullmatch(text)
        assert match is not None
        before, hash_sign, after = match["rest"].partition("#")
        fragment = _checked(_URIC, after) if hash_sign else None
        if match["scheme"] is None:
            return cls._hierarchical(None, before, bool(hash_sign), fragment)
        scheme = _checked(_SCHEME, match["scheme"][:-1])
        if before.startswith("/"):
            return cls._hierarchical(scheme, before, bool(hash_sign), fragment)
        if not _checked(_URIC, before):
            raise UriSyntaxError(text)
        return cls(scheme=scheme, fragment=fragment)

    @classmethod
    def _hierarchical(
        cls, scheme: str | None, text: str, has_fragment: bool, fragment: str | None
    ) -> JavaUri:
        authority = user_info = host = None
        if text.startswith("//"):
            named = re.split("[/?]", text[2:], maxsplit=1)[0]
            text = text[2 + len(named) :]
            if named:
                authority, user_info, host = _authority(named)
            elif not text and not has_fragment:
                raise UriSyntaxError("//")
        path, question_mark, query = text.partition("?")
        return cls(
            scheme, authority, user_info, host, _checked(_PATH, path),
            _checked(_URIC, query) if question_mark else None, fragment,
        )  # fmt: skip


def _is_blank(char: str) -> bool:
    return unicodedata.category(char) in ("Zs", "Zl", "Zp", "Cc")


def _checked(pattern: re.Pattern[str], text: str) -> str:
    if pattern.fullmatch(text) is None:
        raise UriSyntaxError(text)
    return text


def _authority(text: str) -> tuple[str, str | None, str | None]:
    """The authority, and user information and host if it names a server."""
    server = _SERVER_PERCENT if text.find("]") > 0 else _SERVER
    is_registered = _REG_NAME.fullmatch(text) is not None
    if server.fullmatch(text) is not None:
        try:
            return (text, *_server(text))
        except UriSyntaxError:
            if not is_registered:
                raise
    elif not is_registered:
        raise UriSyntaxError(text)
    return text, None, None


def _server(text: str) -> tuple[str | None, str]:
    user_info, at_sign, rest = text.partition("@")
    if not at_sign:
        user_info, rest = "", text
    _checked(_USER_INFO, user_info)
    host, port = _bracketed(rest) if rest.startswith("[") else _named(rest)
    if port and (not port.startswith(":") or (port[1:] and not _is_port(port[1:]))):
        raise UriSyntaxError(text)
    return (user_info if at_sign else None), host


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdigit() and whole_number(text) < 2**31


def _bracketed(text: str) -> tuple[str, str]:
    address, bracket, port = text[1:].partition("]")
    number, percent, scope = address.partition("%")
    if not address or not bracket or not _is_ipv6(number):
        raise UriSyntaxError(text)
    if percent:
        _checked(_SCOPE_ID, scope)
    return f"[{address}]", port


def _is_ipv6(text: str) -> bool:
    before, colons, after = text.partition("::")
    groups = [part.split(":") if part else [] for part in (before, after)]
    tail = groups[1] if colons else groups[0]
    words = 0
    if tail and "." in tail[-1]:
        if not _is_ipv4(tail.pop()):
            return False
        words = 2
    words += len(groups[0]) + len(groups[1])
    if not all(_IPV6_GROUP.fullmatch(group) for part in groups for group in part):
        return False
    return words < 8 if colons else words == 8


def _is_ipv4(text: str) -> bool:
    match = _IPV4.fullmatch(text)
    return match is not None and all(int(number) <= 255 for number in match.groups())


def _named(text: str) -> tuple[str, str]:
    host, colon, port = text.partition(":")
    if not _is_ipv4(host):
        match = _HOST_NAME.fullmatch(host)
        if match is None or (match.start("last") > 0 and not match["last"][0].isalpha()):
            raise UriSyntaxError(text)
    return host, colon + port
