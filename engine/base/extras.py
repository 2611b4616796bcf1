"""What the extra ``[engine]`` brings, and what to tell who has not installed it.

Checkpoints are looked at without it: sensors, triggers and pages need neither Spark nor Arrow.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Final

from engine.errors import ConfigError

INSTALL: Final = "pip install 'airflow-provider-continuous[engine]'"
_BROUGHT: Final = frozenset({"cloudpickle", "numpy", "pandas", "py4j", "pyarrow", "pyspark"})


@contextmanager
def needs_engine(what: str) -> Iterator[None]:
    """For a block that imports what the extra brings.

    :param what: runs in the block, as a message begins with it.
    :raises ConfigError: in place of the ImportError; it names the extra.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in _BROUGHT:
            raise
        raise _missing(what, package) from error


def require_engine(what: str) -> None:
    """Refuse to begin what would need the extra later, in another process.

    :raises ConfigError: as :func:`needs_engine`.
    """
    with needs_engine(what):
        for package in sorted(_BROUGHT):
            if find_spec(package) is None:
                raise _missing(what, package)


def _missing(what: str, package: str) -> ConfigError:
    return ConfigError(f"{what} needs {package}, which is not installed here.", hint=INSTALL)
