from __future__ import annotations

import pyarrow as pa
import pytest

from engine.expressions.releases import SPARK_VERSION, is_since
from engine.expressions.tree import Expr

FIRSTS = ("4.1.4", "4.2.1", "4.3.0")


@pytest.mark.parametrize(
    ("version", "has"),
    [
        ("4.1.3", False),
        ("4.1.4", True),
        ("4.1.10", True),
        ("4.2.0", False),
        ("4.2.1", True),
        ("4.3.0-SNAPSHOT", True),
        ("4.4.0", True),
        ("5.0.0", True),
        ("4.0.9", False),
    ],
)
def test_a_change_came_to_each_line_at_its_own_time(version: str, has: bool) -> None:
    node = Expr("BinaryPad", (), pa.binary(), True, {SPARK_VERSION: version})
    assert is_since(node, *FIRSTS) is has
