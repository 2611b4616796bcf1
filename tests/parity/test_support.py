"""The support table is that of the templates and the kernels there are now."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import engine.expressions.compile  # registers the kernels
from engine.expressions.registry import KERNELS
from tests.parity.support import MEASUREMENTS, document
from tests.parity.templates import families

assert engine.expressions.compile
# DataFrame.na.drop makes the first, no SQL does; the others are random, or of what is random.
_NOT_COMPARED = {"AtLeastNNonNulls", "Let", "Rand", "Randn", "RandStr", "Uuid"}


def _measured() -> dict[str, Any]:
    names: dict[str, Any] = json.loads(MEASUREMENTS.read_text(encoding="utf-8"))["names"]
    return names


def test_the_measurements_are_of_these_templates() -> None:
    templates = {name: texts for family in families() for name, texts in family.templates.items()}
    measured = {name: of_name["templates"] for name, of_name in _measured().items()}
    assert measured == templates, "run: make parity"


def test_every_kernel_has_a_template() -> None:
    reached = {op for of_name in _measured().values() for op in of_name["kernels"]}
    assert set(KERNELS) - reached == _NOT_COMPARED


def test_every_loop_is_declared() -> None:
    undeclared = {
        name: ops
        for name, of_name in _measured().items()
        for ops in of_name["loops"]
        if not any(KERNELS[op].loop for op in ops)
    }
    assert undeclared == {}


def test_the_document_is_up_to_date() -> None:
    path = Path(__file__).parents[2] / "docs" / "expressions.md"
    assert path.read_text(encoding="utf-8") == document(), "run: make parity"
