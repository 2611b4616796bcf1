"""How Spark computes a batch.

Compiling takes it far longer than to evaluate a few rows, so that most batches are interpreted. And
its optimizer takes away what would raise: ``if(x, NULL, NULL)`` becomes NULL without a look at
``x``, ``array(1)[2]`` becomes NULL in ANSI mode too. In most batches these rules are switched off,
so that the expressions themselves are compared; the others show what the optimizer changes.
``LikeSimplification`` stays: it takes nothing away, and gives ``LIKE`` its answer in every query.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final

from tests.spark.interpreted import CONF

_COMPILED_SHARE: Final = 0.1
_OPTIMIZED_SHARE: Final = 0.1
_EXCLUDED: Final = "spark.sql.optimizer.excludedRules"
_RULES: Final = (
    "BooleanSimplification",
    "CombineConcats",
    "ConstantFolding",
    "EliminateMapObjects",
    "FoldablePropagation",
    "NullDownPropagation",
    "NullPropagation",
    "OptimizeCsvJsonExprs",
    "OptimizeIn",
    "OptimizeUpdateFields",
    "PushFoldableIntoBranches",
    "ReorderAssociativeOperator",
    "ReplaceNullWithFalseInPredicate",
    "SimplifyBinaryComparison",
    "SimplifyCaseConversionExpressions",
    "SimplifyCasts",
    "SimplifyConditionals",
    "SimplifyExtractValueOps",
    "UnwrapCastInBinaryComparison",
)


@dataclass(frozen=True)
class Mode:
    """Whether Spark compiles the expressions, and whether it optimizes them."""

    compiled: bool
    optimized: bool

    @property
    def conf(self) -> dict[str, str]:
        """Spark's settings, above those of the oracle."""
        return {
            "spark.sql.codegen.wholeStage": str(self.compiled).lower(),
            "spark.sql.codegen.factoryMode": "FALLBACK" if self.compiled else "NO_CODEGEN",
            **self.rules,
        }

    @property
    def rules(self) -> dict[str, str]:
        """Those of the settings that say whether Spark optimizes."""
        package = "org.apache.spark.sql.catalyst.optimizer"
        excluded = () if self.optimized else _RULES
        return {_EXCLUDED: ",".join([CONF[_EXCLUDED], *(f"{package}.{rule}" for rule in excluded)])}

    def __str__(self) -> str:
        how = "compiled" if self.compiled else "interpreted"
        return f"{how}, {'optimized' if self.optimized else 'as written'}"


def draw_mode(rng: random.Random) -> Mode:
    """Mostly interpreted and as written."""
    return Mode(rng.random() < _COMPILED_SHARE, rng.random() < _OPTIMIZED_SHARE)
