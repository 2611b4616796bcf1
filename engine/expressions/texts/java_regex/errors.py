"""Why a pattern is not run."""

from __future__ import annotations


class UnsupportedRegexError(ValueError):
    """It is not known to mean the same here."""


class InvalidRegexError(UnsupportedRegexError):
    """Java refuses it, too.

    :param reason: what Java says.
    """

    def __init__(self, pattern: str, reason: str) -> None:
        super().__init__(f"the pattern {pattern!r} is not valid: {reason}")
        self.pattern = pattern
        self.reason = reason
