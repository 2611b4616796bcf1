"""Which trees read CSV behind a text with U+FFFF, the end of a line to Spark's reader.

What follows it stays in the reader's buffer, and the next text of the task is read from where it
stopped: the same row has another value in another task. Nothing can be learned of that.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from engine.expressions.tree import Expr

_END: Final = "\uffff"


def may_read_on(tree: Expr, table: pa.Table) -> bool:
    """Whether the tree reads CSV, and what it is made of has such a text."""
    if not any(node.op == "CsvToStructs" for node in tree.walk()):
        return False
    return any(_has_end(node, table) for node in tree.walk())


def _has_end(node: Expr, table: pa.Table) -> bool:
    if node.op == "Column" and node.params["name"] in table.column_names:
        column = table[node.params["name"]]
        return _END.encode() in b"".join(each for each in column.combine_chunks().buffers() if each)
    return node.op == "Literal" and _END in str(node.params["value"])
