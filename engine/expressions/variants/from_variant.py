"""VARIANT into other types: ``CAST(v AS ...)``.

Source: ``VariantGet.cast`` and ``Cast`` of Spark.
"""

from __future__ import annotations

from engine.expressions.casts.rules import Casting, Convert, conversion
from engine.expressions.variants.casting import VariantCast
from engine.expressions.variants.columns import variants_of


@conversion(
    *(
        ("variant", target)
        for target in (
            *("boolean", "integral", "floating", "decimal", "string", "binary", "date"),
            *("timestamp", "timestamp_ntz", "array", "map", "struct"),
        )
    )
)
def out_of_variant(casting: Casting) -> Convert:
    """Without ANSI mode, too, what has no counterpart is an error."""
    fails = casting.mode != "TRY"
    cast = VariantCast(fails, casting.zone_name, casting.zone, casting.reads_any_zero)
    return lambda array: cast.column(variants_of(array), casting.target)
