"""``cleanSource``: what becomes of files whose rows are committed.

As in Spark, it is done behind the commit and as well as it can be: a file that was committed right
before a crash may stay.

Source: Spark's FileStreamSource, FileStreamSourceCleaner.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

logger: Final = logging.getLogger(__name__)
OFF, DELETE, ARCHIVE = "off", "delete", "archive"


@dataclass(frozen=True)
class Cleaning:
    """:param archive: a file goes below it, with the whole path that it had; None to delete it."""

    archive: Path | None

    def clean(self, paths: Iterable[str]) -> None:
        """Remove these files. What fails is logged."""
        for path in paths:
            try:
                if self.archive is None:
                    Path(path).unlink()
                else:
                    target = self.archive / path.lstrip("/")
                    target.parent.mkdir(parents=True, exist_ok=True)
                    if target.exists():
                        logger.warning("%s stays: %s is there already", path, target)
                    else:
                        Path(path).rename(target)
            except FileNotFoundError:  # somebody else was faster
                continue
            except OSError as exc:
                logger.warning("%s was read and committed, and stays: %s", path, exc)
