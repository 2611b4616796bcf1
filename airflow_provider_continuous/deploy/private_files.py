"""Files for spark-submit that only their owner can read."""

from __future__ import annotations

import base64
import hashlib
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from airflow_provider_continuous.deploy.driver_variables import as_it_arrives
from airflow_provider_continuous.deploy.half_written import whole
from airflow_provider_continuous.deploy.java_properties import written
from airflow_provider_continuous.deploy.submission import PROPERTIES_SUFFIX, Submission
from engine.errors import ConfigError
from engine.redaction.logs import redact


def is_secret(key: str, value: str) -> bool:
    """Tell whether a setting looks like a secret, by its name or in its value."""
    told = f"{key}={value}"
    return redact(told) != told


def write_properties(
    private: Mapping[str, str], submission: Submission, properties_file: str | None
) -> Path:
    """Write a file of Java's properties: those of another file, then the private ones.

    :raises ConfigError: the other file cannot be read.
    """
    arrive = {key: as_it_arrives(key, private[key], submission.variables) for key in private}
    lines = [written(arrive)]
    if properties_file:
        try:
            lines.insert(0, Path(properties_file).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"spark_submit.properties_file cannot be read: {error}.") from error
    return submission.write(PROPERTIES_SUFFIX, "\n".join(lines) + "\n")


def write_keytab(keytab: str, folder: Path) -> Path:
    """Write a key table, which Spark reads for as long as the query runs.

    :param keytab: its content, base64.
    :raises ConfigError: it is not base64.
    """
    try:
        content = base64.b64decode(keytab, validate=True)
    except ValueError as error:
        raise ConfigError(f"The keytab of the Spark connection is not base64: {error}.") from error
    path = folder / f"{hashlib.sha256(content).hexdigest()[:16]}.keytab"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor, made = tempfile.mkstemp(dir=folder)  # 0600
        with whole(Path(made)):
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
            Path(made).replace(path)
    return path
