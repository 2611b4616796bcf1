"""Drawing is quiet, other tests are not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.parity.invented.quiet import LOGGER, be_quiet


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    before = LOGGER.level
    be_quiet()
    yield
    LOGGER.setLevel(before)
