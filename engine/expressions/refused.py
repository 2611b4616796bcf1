"""Catalyst expressions that no kernel will evaluate soon, and why."""

from __future__ import annotations

from typing import Final

_PLACE: Final = "names a place in a Spark batch, which a continuous query does not have"
_STATE: Final = "is made of several rows: it belongs into groupBy(...).agg(...)"
_PYTHON: Final = (
    "is a Python function in a place where none can be called, such as a lambda: compute its column"
    " before, in a select of its own"
)
_SCALA: Final = (
    "is a function of Java or Scala, as sampleBy() has one, and expressions run in Python: use"
    " built-in functions, such as rand(seed) < CASE ... END"
)
_TOP_K: Final = (
    "goes through a table of Java's objects in the order of their hash codes, and no kernel does"
    " that: keep the struct, and use it where the sink is read"
)
_JAVA: Final = "calls Java, and expressions run in Python: use built-in functions, or foreachBatch"
_XPATH: Final = (
    "is what Java's own XML parser and XPath make of a text, and no Python library equals them"
    " value by value: read the XML in a function, with mapInArrow for example"
)
_SENTENCES: Final = (
    "goes by rules of the Java runtime for each language, which change between its versions: use"
    " split or regexp_extract_all"
)
_TIME: Final = (
    "has to do with TIME, a type that the engine does not have: use TIMESTAMP_NTZ, or microseconds"
    " since midnight as BIGINT"
)
_PLACES_ON_EARTH: Final = (
    "has to do with GEOMETRY or GEOGRAPHY, types that the engine does not have: keep WKB as BINARY,"
    " and convert it where the sink is read"
)
_XPATHS: Final = ("Boolean", "Short", "Int", "Long", "Float", "Double", "String", "List")
_UNITS_OF_TIME: Final = ("Seconds", "Millis", "Micros")
_TIMES: Final = (
    *("CurrentTime", "MakeTime", "ToTime", "TimeDiff", "TimeTrunc", "TimeAddInterval"),
    *("SubtractTimes", "HoursOfTime", "MinutesOfTime", "SecondsOfTime"),
    "SecondsOfTimeWithFraction",
    *(f"TimeFrom{unit}" for unit in _UNITS_OF_TIME),
    *(f"TimeTo{unit}" for unit in _UNITS_OF_TIME),
)
_ON_EARTH: Final = ("AsBinary", "GeogFromWKB", "GeomFromWKB", "SetSrid", "Srid")

REFUSED: Final[dict[str, str]] = {
    **dict.fromkeys(("MonotonicallyIncreasingID", "SparkPartitionID", "InputFileName"), _PLACE),
    **dict.fromkeys(("InputFileBlockStart", "InputFileBlockLength"), _PLACE),
    **dict.fromkeys(("AggregateExpression", "WindowExpression", "SessionWindow"), _STATE),
    "ApproxTopKEstimate": _TOP_K,
    **dict.fromkeys(("CallMethodViaReflection", "TryReflect"), _JAVA),
    **dict.fromkeys((f"XPath{of}" for of in _XPATHS), _XPATH),
    **dict.fromkeys(_TIMES, _TIME),
    **dict.fromkeys((f"ST_{name}" for name in _ON_EARTH), _PLACES_ON_EARTH),
    "Sentences": _SENTENCES,
    **dict.fromkeys(("PythonUDF", "PythonUDTF"), _PYTHON),
    "ScalaUDF": _SCALA,
}
"""Class name → why not, to be read after the name."""
