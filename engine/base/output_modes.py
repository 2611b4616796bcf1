"""Which rows a query gives that keeps state, as Spark has it."""

from __future__ import annotations

from typing import Final

APPEND: Final = "append"
"""Each once, when no further record can change it."""
UPDATE: Final = "update"
"""Each whenever it has changed."""
COMPLETE: Final = "complete"
"""All of them, in each epoch in which there was something new."""
ALL_MODES: Final = (APPEND, UPDATE, COMPLETE)
