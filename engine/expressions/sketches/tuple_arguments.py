"""What functions of tuple sketches are called with.

Source: ``TupleSketchUtils.scala`` of Spark.
"""

from __future__ import annotations

from engine.expressions.ansi import failure
from engine.expressions.sketches.memory import Memory, SketchError, family
from engine.expressions.sketches.tuple_bytes import read_tuple
from engine.expressions.sketches.tuple_sketches import TupleSketch
from engine.expressions.sketches.tuple_summaries import DOUBLE, INTEGER, MODES, Kind
from engine.expressions.tree import Expr


def ops(what: str) -> tuple[str, str]:
    """Classes of Spark for both types of summaries."""
    return f"Tuple{what}Double", f"Tuple{what}Integer"


def kind_of(expr: Expr) -> Kind:
    """Which of them a node is for."""
    return DOUBLE if expr.op.endswith("Double") else INTEGER


def tuple_argument(data: bytes, kind: Kind) -> TupleSketch:
    """The sketch that an argument is.

    :raises TransformError: it is none, or of another family.
    """
    try:
        name = family(Memory(data).unsigned(2))
        if name == "TUPLE":
            return read_tuple(data, kind)
    except SketchError as error:
        raise failure(
            "TUPLE_INVALID_INPUT_SKETCH_BUFFER", f"This is no tuple sketch: {error.text}"
        ) from error
    raise failure(
        "TUPLE_INVALID_INPUT_SKETCH_BUFFER_FAMILY",
        f"A tuple sketch is expected, and this is of the family {name}.",
    )


def mode_of(text: str) -> str:
    """How summaries are made one."""
    mode = text.lower()
    if mode not in MODES:
        raise failure(
            "TUPLE_INVALID_SKETCH_MODE", f"The mode is {text}, and must be of {', '.join(MODES)}."
        )
    return mode
