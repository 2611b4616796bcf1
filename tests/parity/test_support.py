"""The support table is that of the templates and the kernels there are now."""

from __future__ import annotations

import engine.expressions.compile  # registers the kernels
from engine.expressions.registry import KERNELS
from tests.parity import measurements
from tests.parity.measure import changed, code_of, in_family
from tests.parity.support import DOCUMENT, document
from tests.parity.templates import families

assert engine.expressions.compile
# DataFrame.na.drop makes the first, no SQL does; the next two are in no column that a template has,
# whole queries compare them; another tells the time; then there are those that are random, or of
# what is random; merges of KLL sketches are compared by test_kll_merge.py. Spark's package for the
# last two is not everywhere: see test_protobuf.py.
_NOT_COMPARED = {
    *("AtLeastNNonNulls", "PreciseTimestampConversion", "JsonTuple", "Now"),
    *("Let", "MapInTurn", "Rand", "Randn", "RandStr", "Shuffle", "Uuid"),
    *("KllSketchMergeBigint", "KllSketchMergeDouble", "KllSketchMergeFloat"),
    *("ProtobufDataToCatalyst", "CatalystDataToProtobuf"),
}


_NAMES = measurements.load()["names"]


def test_the_measurements_are_of_these_templates() -> None:
    templates = {name: texts for family in families() for name, texts in family.templates.items()}
    measured = {name: of_name["templates"] for name, of_name in _NAMES.items()}
    assert measured == templates, "run: make parity-changed"


def test_what_has_changed_is_known_by_name() -> None:
    """A name whose kernel's module, or whose templates, are others; not a kernel beside it."""
    (family,) = (each for each in families() if each.name == "web")
    as_now = {
        name: {**of_name, "code": code_of(of_name["kernels"])}
        for name, of_name in _NAMES.items()
        if name in family.templates
    }
    assert changed(family, as_now) == {}
    url_decode = {**as_now["url_decode"], "code": "other"}
    url_encode = {**as_now["url_encode"], "templates": []}
    without = {name: of for name, of in as_now.items() if name != "parse_url"}
    measured = {**without, "url_decode": url_decode, "url_encode": url_encode}
    assert set(changed(family, measured)) == {"url_decode", "url_encode", "parse_url"}


def test_a_kernel_changes_with_what_its_module_imports_of_its_family() -> None:
    sketches = "engine.expressions.sketches"
    assert f"{sketches}.tuple_bytes" in in_family(f"{sketches}.tuples")  # by two modules between
    assert f"{sketches}.hll" not in in_family(f"{sketches}.tuples")
    avro = "engine.expressions.avro"
    assert f"{avro}.binary" in in_family(f"{avro}.encoding")  # from engine.expressions.avro import
    assert in_family("engine.expressions.leaves") == {"engine.expressions.leaves"}


def test_every_kernel_has_a_template() -> None:
    reached = {op for of_name in _NAMES.values() for op in of_name["kernels"]}
    assert set(KERNELS) - reached == _NOT_COMPARED


def test_every_loop_is_declared() -> None:
    undeclared = {
        name: ops
        for name, of_name in _NAMES.items()
        for ops in of_name["loops"]
        if not any(KERNELS[op].loop for op in ops)
    }
    assert undeclared == {}


def test_the_document_is_up_to_date() -> None:
    assert DOCUMENT.read_text(encoding="utf-8") == document(), "run: make parity-changed"
