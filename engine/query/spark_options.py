"""The options of Spark's own sinks, by Spark's documentation, to find mistyped ones.

Spark ignores an option that it does not know, of any sink. The lists need not be complete: only
what is nearly one of these names is told, and it is no error, as a release of Spark may have more.

Source: Spark's DataStreamWriter, CSVOptions, JSONOptions, XmlOptions, ParquetOptions, OrcOptions,
TextOptions, AvroOptions, KafkaSourceProvider; the documentation of Delta Lake and of Iceberg.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from engine.base.near_names import nearest
from engine.base.options import EngineOptions

_LIKENESS: Final = 0.8
_OF_ALL: Final = frozenset(
    {
        "asyncProgressTrackingCheckpointIntervalMs",
        "asyncProgressTrackingEnabled",
        "checkpointLocation",
        "path",
        "queryName",
        "useTempCheckpointLocation",
    }
)
_FILES: Final = frozenset({"compression", "maxRecordsPerFile", "retention"})
_TEXTS: Final = frozenset({"dateFormat", "encoding", "lineSep", "locale", "timeZone"}) | {
    "timestampFormat",
    "timestampNTZFormat",
}
_REBASED: Final = frozenset({"datetimeRebaseMode", "mergeSchema"})
OF_SINKS: Final[Mapping[str, frozenset[str]]] = {
    "parquet": _FILES | _REBASED | {"int96RebaseMode"},
    "orc": _FILES | {"mergeSchema"},
    "text": _FILES | {"encoding", "lineSep", "wholetext"},
    "json": _FILES
    | _TEXTS
    | {"ignoreNullFields", "pretty", "writeNonAsciiCharacterAsCodePoint", "multiLine"},
    "csv": _FILES
    | _TEXTS
    | {"charset", "charToEscapeQuoteEscaping", "codec", "delimiter", "emptyValue", "escape"}
    | {"escapeQuotes", "header", "ignoreLeadingWhiteSpace", "ignoreTrailingWhiteSpace"}
    | {"multiLine", "nullValue", "quote", "quoteAll", "sep"},
    "xml": (_FILES | _TEXTS - {"lineSep"})
    | {"arrayElementName", "attributePrefix", "declaration", "indent", "nullValue", "rootTag"}
    | {"rowTag", "validateName", "valueTag"},
    "avro": _FILES
    | _REBASED - {"mergeSchema"}
    | {"avroSchema", "avroSchemaUrl", "positionalFieldMatching", "recordName", "recordNamespace"},
    "kafka": frozenset({"includeHeaders", "topic"}),
    "console": frozenset({"numRows", "truncate"}),
    **dict.fromkeys(("memory", "noop", "foreach", "foreachbatch"), frozenset()),
    "delta": _FILES
    | {"dataChange", "mergeSchema", "optimizeWrite", "overwriteSchema", "partitionOverwriteMode"}
    | {"replaceWhere", "txnAppId", "txnVersion", "userMetadata"},
    "iceberg": _FILES
    | {"check-nullability", "check-ordering", "compression-codec", "compression-level"}
    | {"compression-strategy", "delete-format", "distribution-mode", "fanout-enabled"}
    | {"isolation-level", "mergeSchema", "output-spec-id", "target-file-size-bytes"}
    | {"write-format"},
}
"""By the name of the sink; none has a dot in it: what has is a setting of a library below."""


def mistyped(sink: str, options: Iterable[str]) -> dict[str, str]:
    """Options that a sink of Spark does not have, each with the one that was probably meant: of the
    sink, or of the engine. Nothing is said of a sink that is not known here.

    :param sink: its name, in any case.
    :param options: their names; without the engine's, and without those of its sink.
    """
    known = OF_SINKS.get(sink.lower())
    if known is None:
        return {}
    names = [*(known | _OF_ALL), *EngineOptions.names()]
    keys = {name.lower() for name in names}
    unknown = (key for key in options if "." not in key and key.lower() not in keys)
    near = {key: nearest(key, names, _LIKENESS) for key in unknown}
    return {key: meant for key, meant in near.items() if meant is not None}
