"""Keeps secrets out of what people read: errors and logs."""

from __future__ import annotations

import re

HIDDEN = "***"
SECRET_NAME = re.compile(
    r"pass(word|wd|phrase)?|secret|token|credential|authorization"
    r"|(?:api|access|account|private|encryption|shared)[._-]?key",
    re.IGNORECASE,
)
"""Names of fields and options whose values nobody may read."""
_ASSIGNED = re.compile(
    rf"""(["']?[\w.-]*(?:{SECRET_NAME.pattern})[\w.-]*["']?\s*[:=]\s*)"""
    r"""("(?:[^"\\]|\\.)*"?|'(?:[^'\\]|\\.)*'?|[^\s,;}}&]+)""",
    re.IGNORECASE,
)
_IN_URL = re.compile(r"""(://[^/\s:@'"]*:)[^/\s'"]+@""")
_SHOWN_CHARACTERS = 200


def redact(text: str) -> str:
    """The text with what is assigned to a secret's name hidden: ``"password": "x"``,
    ``token=x``; and the password of a URL: ``//user:x@host``."""
    text = _IN_URL.sub(lambda match: f"{match.group(1)}{HIDDEN}@", text)
    return _ASSIGNED.sub(lambda match: f"{match.group(1)}{HIDDEN}", text)


def shown(text: str) -> str:
    """A record for an error message: redacted, and cut to a length that people read."""
    # Redacted first: a cut in the middle of a secret's name would hide the name, not the secret.
    clean = redact(text)
    return clean if len(clean) <= _SHOWN_CHARACTERS else f"{clean[:_SHOWN_CHARACTERS]}..."
