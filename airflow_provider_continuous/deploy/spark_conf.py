"""Spark's settings of a submission."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.errors import ConfigError

_TAGS = "spark.yarn.tags"
_GIVES_WAY = ("spark.master", "spark.submit.deployMode")


def spark_conf(
    *given: Mapping[str, Any] | None, marks: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the settings, as texts; where the query runs is for the connection to say.

    :param given: those that go first come last.
    :param marks: by which the cluster knows the submission. A query may have tags besides.
    :raises ConfigError: a query has another one of them.
    """
    conf = {key: value for each in given for key, value in (each or {}).items()}
    for key, mark in (marks or {}).items():
        if key in conf and key != _TAGS and conf[key] != mark:
            raise ConfigError(
                f"The setting {key} is {conf[key]!r}.",
                hint=f"Leave it out: by {mark!r}, which it has here, a submission is found again. "
                "A namespace is said by the connection.",
            )
        conf[key] = f"{conf[key]},{mark}" if key == _TAGS and key in conf else mark
    return {key: _text(value) for key, value in conf.items() if key not in _GIVES_WAY}


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
