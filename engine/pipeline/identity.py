"""What tells one query from another, without secrets: the parts of a fingerprint, or of a document.

Imports nothing heavy, so that what Airflow parses can use it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from engine.redaction.texts import SECRET_NAME, redact

OTHER_SOURCE: Final = "its offsets mean other data"
OTHER_SINK: Final = "it does not have the epochs of this checkpoint"
# Wider than what is hidden where people read: what is not stored cannot leak. But a keyspace, or
# which columns are a key, tells which data it is.
_SECRET_KEY: Final = re.compile(
    rf"{SECRET_NAME.pattern}|passw|key(?!space|columns)|private|sas|auth", re.IGNORECASE
)
_SECRET_VALUE: Final = re.compile(
    r"(secret|passw\w*|pwd|token|credential|access[._-]?key)\"?\s*[=:]", re.IGNORECASE
)
# Up to the last @: a password may hold any character, whatever the standard says.
_USER_INFO: Final = re.compile(r"(?<=://).*@", re.DOTALL)
# Azure has the container where other URLs have a user: which data it is, and no secret.
_IN_CONTAINER: Final = re.compile(r"(?:abfss?|wasbs?)://[a-z0-9$-]+@[^@]+", re.IGNORECASE)
_LITERAL: Final = re.compile(r"'[^']*'")


@dataclass(frozen=True)
class Change:
    """One part that differs.

    :param part: e.g. ``source.options.path``.
    :param why: why it is not safe; empty if it is.
    """

    part: str
    old: str
    new: str
    why: str = ""

    @property
    def is_safe(self) -> bool:
        """Whether the query may go on from the checkpoint all the same."""
        return not self.why

    def __str__(self) -> str:
        why = f" ({self.why})" if self.why else ""
        return redact(f"{self.part}: {self.old} → {self.new}{why}")


def identity(options: Mapping[str, str], tuning: Collection[str] = ()) -> dict[str, str]:
    """What a connector's options tell, without secrets; names in lower case.

    :param tuning: options that do not tell which data it is.
    """
    ignored = {name.lower() for name in tuning}
    return clean_options(
        {
            key.lower(): _plain(key.lower(), _without_user(value))
            for key, value in sorted(options.items())
            if key.lower() not in ignored and not key.startswith("__")
        }
    )


def clean_options(options: Mapping[str, str]) -> dict[str, str]:
    """Options without those that look like secrets, and without secrets in the others."""
    return {
        key: redact(value)
        for key, value in options.items()
        if not _SECRET_KEY.search(key) and not _SECRET_VALUE.search(value)
    }


def is_told_as(recorded: str | None, value: str | None) -> bool:
    """Whether an option that is recorded is the one that is there now. An earlier release has left
    out the container of a URL of Azure's, which then says nothing.

    :param value: as :func:`identity` tells it.
    """
    return recorded == value or (value is not None and recorded == _USER_INFO.sub("", value))


def _without_user(value: str) -> str:
    return value if _IN_CONTAINER.fullmatch(value) else _USER_INFO.sub("", value)


def _plain(key: str, value: str) -> str:
    """One spelling of a local path."""
    if key != "path":
        return value
    return value.removeprefix("file://").removeprefix("file:").rstrip("/") or "/"


def clean_steps(steps: Sequence[str]) -> list[str]:
    """Steps or SQL without secrets."""
    return [
        redact(_LITERAL.sub("'...'", step) if _SECRET_KEY.search(step) else step) for step in steps
    ]
