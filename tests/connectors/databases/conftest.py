"""Each test with both sinks, and ``sqlalchemy`` with several databases."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.connectors.databases.tables import DATABASES, Database, database_of


@pytest.fixture(params=[*DATABASES, "sink postgres"], ids=lambda each: each.partition(":")[0])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """A table's name in it is of this test alone."""
    with database_of(request.param, request, tmp_path) as made:
        yield made
