"""Which trees read CSV whose texts Spark's reader reads by what came before them in the task.

What follows U+FFFF, the end of a line to it, stays in its buffer, and the next text of the task is
read from where it stopped. A mark of the byte order, U+FEFF, is left out of the first text alone.
So the same row has another value in another task. Nothing can be learned of that.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from engine.expressions.tree import Expr

_CHARS: Final = ("\uffff", "\ufeff")


def may_read_on(tree: Expr, table: pa.Table) -> bool:
    """Whether the tree reads CSV, and what it is made of has such a text."""
    if not any(node.op == "CsvToStructs" for node in tree.walk()):
        return False
    return any(_has_char(node, table) for node in tree.walk())


def _has_char(node: Expr, table: pa.Table) -> bool:
    if node.op == "Column" and node.params["name"] in table.column_names:
        column = table[node.params["name"]].combine_chunks()
        values = b"".join(each for each in column.buffers() if each)
        return any(char.encode() in values for char in _CHARS)
    return node.op == "Literal" and any(char in str(node.params["value"]) for char in _CHARS)
