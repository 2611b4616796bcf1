"""URLs."""

from __future__ import annotations

import pyarrow as pa

from tests.parity.columns import draw, one_of, text

_URLS = [
    "http://spark.apache.org/path?query=1", "https://user:pw@host.com:8080/a/b%20c?x=1&y=2#frag",
    "", "http://", "ftp://h/p;v=1", "mailto:a@b.c", "/relative/path?q=a#b", "http://h?x=%zz",
    "http://[::1]:80/x", "http://h/a b", "http://ex.com/?a=1&a=2&b", "//host/path", "?q=1", "#f",
    "http://h_o/x", "http://1.2.3.4/?k", "file:///etc/x", "a:b:c", "http://h:/x", "http://h:port/",
    "http://user@/x", "http://é.com/ü?ö=1", "HTTP://H/P", "http://h/%41", ":", "http:///p?q",
]  # fmt: skip

COLUMNS = {
    "url": (pa.string(), one_of(*_URLS)),
    "esc": (pa.string(), draw(["a+b", "%20", "%zz", "%", "%C3%A9", "%ff", "%4", "+", ""], text)),
}
_PARTS = ["HOST", "PATH", "QUERY", "REF", "PROTOCOL", "FILE", "AUTHORITY", "USERINFO", "host", "X"]

TEMPLATES = {
    "url_encode": ["url_encode(s)", "url_encode(url)", "url_encode(raw)"],
    "url_decode": [
        "url_decode(esc)",
        "url_decode(url_encode(s))",
        "url_decode(url)",
        "url_decode(raw)",
    ],
    "try_url_decode": ["try_url_decode(esc)", "try_url_decode(url)", "try_url_decode(raw)"],
    "parse_url": [
        *(f"parse_url(url, '{part}')" for part in _PARTS),
        *("parse_url(url, 'QUERY', 'x')", "parse_url(s, 'PATH')"),
    ],
    "try_parse_url": [f"try_parse_url(url, '{part}')" for part in _PARTS]
    + ["try_parse_url(s, 'HOST')", "try_parse_url(concat('http://h/', raw), 'PATH')"],
}
