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

from engine.errors import ConfigError

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


def check_archive(root: Path, archive: Path) -> None:
    """:raises ConfigError: what is archived would be read again."""
    if archive == root or root in archive.parents or archive in root.parents:
        raise ConfigError(
            f"Source files: of sourceArchiveDir {archive} and path {root} one is in the other.",
            hint="Archive to a folder of its own: files keep their whole paths below it.",
        )
