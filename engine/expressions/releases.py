"""What differs between the releases of Spark that are supported: a kernel for which it matters
reads :data:`SPARK_VERSION`, which the plan has from the session's Spark."""

from __future__ import annotations

from typing import Final

from engine.expressions.tree import Expr

SPARK_VERSION: Final = "spark.version"
"""Among the settings that kernels read; it is none of Spark's."""


def is_since(expr: Expr, *firsts: str) -> bool:
    """Whether a node is of a release that has a change.

    :param expr: its kernel reads :data:`SPARK_VERSION`.
    :param firsts: the first releases that have it, one of each line, e.g. ``("4.2.1", "4.3.0")``:
        later lines than the last one have it as well, other ones do not.
    """
    return has(str(expr.params[SPARK_VERSION]), *firsts)


def has(release: str, *firsts: str) -> bool:
    """Whether a release has a change; see :func:`is_since`."""
    version = _numbers(release)
    known = [_numbers(first) for first in firsts]
    return version >= known[-1] or any(
        version[:2] == first[:2] and version >= first for first in known
    )


def _numbers(version: str) -> tuple[int, ...]:
    """Of a snapshot, too: ``4.3.0-SNAPSHOT``."""
    return tuple(int(part) for part in version.partition("-")[0].split(".")[:3])
