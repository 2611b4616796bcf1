"""The Python of a query's driver, where it is not Airflow's own.

Another virtual environment, which holds the engine and PySpark, spares Airflow's own both: what
Airflow's Spark provider brings along cannot clash with the PySpark of the queries.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping

from engine import __version__
from engine.base.extras import INSTALL
from engine.errors import ConfigError
from engine.redaction.logs import redact

_TIMEOUT_S = 60
_SHOW = "import importlib.util, engine; importlib.util.find_spec('pyspark.sql'); " + (
    "print(engine.__version__)"
)
_HINT = (
    f"In its environment: {INSTALL.replace(']', f']=={__version__}')}. Or name another: the "
    "field python of the connection, or [continuous] python."
)


def check_interpreter(python: str, environment: Mapping[str, str]) -> None:
    """Look whether an interpreter can run queries.

    :param environment: the whole environment that it will run in.
    :raises ConfigError: it does not start, or has no PySpark or another engine than this process.
    """
    path = shutil.which(python)
    if path is None:
        raise ConfigError(f"The queries' Python, {python}, is no program.", hint=_HINT)
    try:
        shown = subprocess.run(
            [path, "-c", _SHOW],
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=_TIMEOUT_S,
            check=True,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
        )
    except subprocess.CalledProcessError as error:
        last = redact((error.stderr.strip().splitlines() or ["no message"])[-1])
        raise ConfigError(
            f"The queries' Python, {python}, cannot run the engine: {last}", hint=_HINT
        ) from error
    except (OSError, subprocess.SubprocessError) as error:
        raise ConfigError(
            f"The queries' Python, {python}, does not start: {error}.", hint=_HINT
        ) from error
    found = shown.stdout.strip()
    if found != __version__:
        raise ConfigError(
            f"The queries' Python, {python}, has version {found} of the engine, and Airflow's "
            f"{__version__}.",
            hint=_HINT,
        )
