"""What Spark shows of a submission's settings: on its pages, in its event log, in the history.

There Spark hides the values of settings that :data:`_SETTING` finds, a regular expression of the
site. ``DB_PASS`` and ``API_KEY`` are not among what it finds by default, and a driver's variables
are settings on YARN and Kubernetes. So it is made to find what is private besides.
"""

from __future__ import annotations

import logging
import re
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

from airflow_provider_continuous.deploy import java_properties
from engine.errors import ConfigError

logger = logging.getLogger(__name__)

_SETTING = "spark.redaction.regex"
_BY_DEFAULT = "(?i)secret|password|token|access[.]?key"
"""Spark 4's."""
_HADOOP = "spark.hadoop."
_WHERE = """
[ -n "$SPARK_HOME" ] || . "$(dirname "$0")"/find-spark-home
. "$SPARK_HOME"/bin/load-spark-env.sh
printf '\\n%s' "$SPARK_CONF_DIR"
"""
"""As ``spark-submit`` and ``spark-class`` come to it."""
_PATIENCE_S = 60.0


def hiding(
    private: Iterable[str],
    conf: Mapping[str, str],
    properties_file: str | None,
    program: str,
    environment: Mapping[str, str],
) -> dict[str, str]:
    """Return the setting that hides the values of these, and whatever is hidden without it; empty,
    and the log warns, where the latter cannot be told.

    :param private: names of settings.
    :param conf: the submission's settings.
    :param program: the path of spark-submit.
    :param environment: of that program.
    :raises ConfigError: a file of settings cannot be read.
    """
    in_force = conf.get(_SETTING)
    if in_force is None:
        file = Path(properties_file) if properties_file else _defaults(program, environment)
        if file is None:
            logger.warning(
                "Spark may show what is private of this query, such as its variables, on its pages "
                "and in its event log: where %s has its spark-defaults.conf, which says what is "
                "hidden, cannot be told. Say %s in the connection's conf, or set SPARK_HOME.",
                program,
                _SETTING,
            )
            return {}
        in_force = settings_in(file).get(_SETTING, _BY_DEFAULT)
    # The other one comes last: flags at its begin count up to the end.
    return {_SETTING: "|".join([*map(_exactly, private), in_force])}


def settings_in(file: Path) -> dict[str, str]:
    """Return the settings of a file of Java's properties, none if there is no file.

    :raises ConfigError: it cannot be read.
    """
    try:
        return java_properties.read(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"Spark's settings in {file} cannot be read: {error}.") from error


def _exactly(key: str) -> str:
    """Hadoop's settings are shown without their prefix, too."""
    rest = key.removeprefix(_HADOOP)
    return f"^{'' if rest == key else f'(?:{re.escape(_HADOOP)})?'}{re.escape(rest)}$"


def _defaults(program: str, environment: Mapping[str, str]) -> Path | None:
    """Where this spark-submit has its settings; None: it is another program than Spark's own."""
    command = ["bash", "-c", _WHERE, program]
    try:
        ran = subprocess.run(
            command,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="surrogateescape",
            timeout=_PATIENCE_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    folder = ran.stdout.rpartition("\n")[2]
    return Path(folder) / "spark-defaults.conf" if ran.returncode == 0 and folder else None
