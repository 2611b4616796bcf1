"""Whether the installed pyspark is what its wheel held.

``pyspark`` and ``pyspark-client`` both install the folder ``pyspark/``: when their versions differ,
whichever came last has overwritten files of the other, and pip does not notice.
"""

from __future__ import annotations

import base64
import hashlib
from importlib.metadata import PackageNotFoundError, PackagePath, distribution
from pathlib import Path

from engine.errors import ConfigError

_HASHED_SIZE_MAX = 4 << 20
"""Larger files are jars, which no other package has: their size is enough."""


def changed_files() -> list[str]:
    """The files of pyspark that are missing or differ from its RECORD, sorted.

    :raises ConfigError: pyspark is not installed from a wheel.
    """
    try:
        files = distribution("pyspark").files
    except PackageNotFoundError:
        files = None
    if files is None:
        raise ConfigError(
            "pyspark is not installed as a package, so its files cannot be checked.",
            hint='Install it: pip install "pyspark==4.2.0".',
        )
    return sorted(str(file) for file in files if _differs(file))


def installed_version(package: str) -> str | None:
    """The version of a distribution, or None."""
    try:
        return distribution(package).version
    except PackageNotFoundError:
        return None


def _differs(file: PackagePath) -> bool:
    if file.hash is None or file.hash.mode != "sha256":
        return False  # RECORD itself, and the byte code made at installation
    path = Path(str(file.locate()))
    if not path.is_file():
        return True
    size = path.stat().st_size
    if size != file.size or size > _HASHED_SIZE_MAX:
        return size != file.size
    digest = base64.urlsafe_b64encode(hashlib.sha256(path.read_bytes()).digest())
    return digest.rstrip(b"=").decode() != file.hash.value
