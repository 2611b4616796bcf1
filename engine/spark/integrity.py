"""Whether the installed pyspark is what its wheel held.

``pyspark`` and ``pyspark-client`` both install the folder ``pyspark/``: when their versions differ,
whichever came last has overwritten files of the other, and pip does not notice.
"""

from __future__ import annotations

import base64
import csv
import hashlib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from engine.base.extras import INSTALL
from engine.errors import ConfigError

_HASHED_SIZE_MAX = 4 << 20
"""Larger files are jars, which no other package has: their size is enough."""


def changed_files() -> list[str]:
    """The files of pyspark that are missing or differ from its RECORD, sorted.

    :raises ConfigError: pyspark is not installed from a wheel.
    """
    try:
        installed = distribution("pyspark")
        record = installed.read_text("RECORD")
    except PackageNotFoundError:
        record = None
    if record is None:
        raise ConfigError(
            "pyspark is not installed as a package, so its files cannot be checked.",
            hint=INSTALL,
        )
    # Not Distribution.files: since Python 3.12 it leaves out what is missing.
    return sorted(
        name
        for name, digest, size in csv.reader(record.splitlines())
        if digest.startswith("sha256=")  # not RECORD itself, nor byte code made at installation
        and _differs(Path(str(installed.locate_file(name))), digest, int(size))
    )


def installed_version(package: str) -> str | None:
    """The version of a distribution, or None."""
    try:
        return distribution(package).version
    except PackageNotFoundError:
        return None


def _differs(path: Path, digest: str, size: int) -> bool:
    if not path.is_file() or path.stat().st_size != size:
        return True
    if size > _HASHED_SIZE_MAX:
        return False
    found = base64.urlsafe_b64encode(hashlib.sha256(path.read_bytes()).digest())
    return digest != "sha256=" + found.rstrip(b"=").decode()
