"""What only some releases of Spark have: ``make test-spark-matrix`` runs these tests on several."""

from __future__ import annotations

from typing import Final

import pyspark
import pytest

from engine.expressions.releases import has

_THIS: Final = pyspark.__version__


def since(release: str, what: str) -> pytest.MarkDecorator:
    """A test for this release and later ones.

    :param what: earlier ones do not have, in the plural.
    """
    reason = f"{what} are new in Spark {release}, and this is {_THIS}"
    return pytest.mark.skipif(not has(_THIS, release), reason=reason)


def before(release: str, what: str) -> pytest.MarkDecorator:
    """A test for earlier releases."""
    reason = f"Spark {release} and later have {what}, and this is {_THIS}"
    return pytest.mark.skipif(has(_THIS, release), reason=reason)


_MICRO_BATCHES: Final = "micro-batches of the engine's sources"
WITH_MICRO_BATCHES: Final = since("4.2", _MICRO_BATCHES)
WITHOUT_MICRO_BATCHES: Final = before("4.2", _MICRO_BATCHES)
