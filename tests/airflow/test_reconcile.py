"""What is wanted against what runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_provider_continuous.reconcile import Decision, check_on_changed, reconcile
from engine.query.spec import describe

DOCUMENT: dict[str, Any] = {
    "name": "delays",
    "source": {"format": "tail", "options": {"path": "/data/in", "pollIntervalMs": "5"}},
    "sql": "SELECT value FROM source",
    "sink": {"format": "parquet", "options": {"path": "/data/out", "minEpochsToRetain": "10"}},
    "trigger": {"continuous": "1 second"},
    "checkpoint_location": "/data/checkpoint",
    "conf": {"spark.executor.memory": "2g", "spark.sql.session.timeZone": "UTC"},
}
FINGERPRINT: dict[str, Any] = {
    "sources": [{"format": "tail", "options": {"path": "/data/in"}}],
    "sink": {"format": "parquet", "options": {"path": "/data/out"}},
}
SETTINGS: list[dict[str, Any]] = [
    {"trigger": {"continuous": "2 seconds"}},
    {"name": "late"},
    {"conf": {**DOCUMENT["conf"], "spark.executor.memory": "4g"}},
    {"sink": {"format": "parquet", "options": {"path": "/data/out"}}},
]
ROWS: list[dict[str, Any]] = [
    {"sql": "SELECT value + 1 AS value FROM source"},
    {"sql": None},
    {"sink": {**DOCUMENT["sink"], "partition_by": ["value"]}},
    {"source": {**DOCUMENT["source"], "watermark": {"column": "at", "delay": "1 minute"}}},
    {"conf": {**DOCUMENT["conf"], "spark.sql.session.timeZone": "Asia/Tokyo"}},
    {"source": {"format": "tail", "options": {"path": "/data/in", "pollIntervalMs": "9"}}},
]
PLACES: list[dict[str, Any]] = [
    {"source": {"format": "tail", "options": {"path": "/other", "pollIntervalMs": "5"}}},
    {"source": {"format": "kafka", "connection": "kafka_main"}},
    {"sink": {"format": "parquet", "options": {"path": "/other"}}},
]


def decided(change: dict[str, Any], on_changed: Any, noted: bool = True) -> Decision:
    return reconcile(
        describe({**DOCUMENT, **change}),
        describe(DOCUMENT) if noted else None,
        FINGERPRINT,
        on_changed,
    ).decision


@pytest.mark.parametrize(
    ("changes", "refuse", "adopt", "upgrade"),
    [
        ([{}, {"checkpoint_location": "s3://b/c"}], "keep", "keep", "keep"),
        (SETTINGS, "warn", "warn", "upgrade"),
        (ROWS, "refuse", "warn", "upgrade"),
        (PLACES, "refuse", "warn", "refuse"),
    ],
)
def test_the_table(changes: list[dict[str, Any]], refuse: str, adopt: str, upgrade: str) -> None:
    for change in changes:
        found = [decided(change, policy).value for policy in ("refuse", "adopt", "upgrade")]
        assert found == [refuse, adopt, upgrade], change


def test_another_source_may_be_allowed() -> None:
    sink = {"format": "parquet", "options": {"path": "/data/out", "allowChangedQuery": "true"}}
    change = {**PLACES[0], "sink": sink}

    assert decided(change, "upgrade") is Decision.UPGRADE


def test_of_a_run_that_nobody_has_noted_places_are_compared() -> None:
    assert decided(ROWS[0], "refuse", noted=False) is Decision.KEEP
    for change in PLACES:
        assert decided(change, "refuse", noted=False) is Decision.REFUSE
    variable = {"source": {"format": "tail", "options": {"path": "${WHERE}"}}}
    assert decided(variable, "refuse", noted=False) is Decision.KEEP
    unknown = reconcile(describe(DOCUMENT), None, None, "refuse")
    assert (unknown.decision, unknown.is_known) == (Decision.KEEP, False)


def test_it_says_what_has_changed() -> None:
    new = describe({**DOCUMENT, **ROWS[0], **PLACES[0], **SETTINGS[0]})

    assert reconcile(new, describe(DOCUMENT), FINGERPRINT, "refuse").listed == (
        "source.options.path: /data/in → /other (its offsets mean other data); "
        "sql: SELECT value FROM source → SELECT value + 1 AS value FROM source; "
        'trigger: {"continuous": "1 second"} → {"continuous": "2 seconds"}'
    )


def test_no_secret_is_kept() -> None:
    options = {"password": "s3cret", "jdbc": "jdbc:x://me:s3cret@host", "x": "token=s3cret"}
    document = {
        "source": {"format": "kafka", "options": options},
        "sql": "SELECT aes_decrypt(value, 's3cret') AS private_key FROM source",
        "conf": {"spark.hadoop.fs.s3a.secret.key": "s3cret"},
        "connections": {"kafka_main": {"sasl.password": "s3cret"}},
    }

    assert "s3cret" not in str(describe(document))


HOOK = "https://hooks.example.com/services/T0/B0/s3cret"
WITH_PASSWORD = "SELECT 'redis://default:0123#s3cret@db' AS x FROM source"


def hooked(url: str, **headers: str) -> dict[str, Any]:
    given = {f"header.{name}": value for name, value in headers.items()}
    return {**DOCUMENT, "sink": {"format": "HTTP", "options": {"url": url, **given}}}


def test_what_a_sink_calls_a_secret_is_kept_nowhere() -> None:
    """The writer leaves the same out of the fingerprint: see its ``secretOptions``."""
    sinks = {
        "http": {"URL": HOOK, "Header.X-Hook": "s3cret", "method": "PUT"},
        "sqlalchemy": {"url": "mysql+pymysql://s3cret:p@db:3306/shop?x=s3cret", "table": "t"},
    }
    told = [describe({"sink": {"format": name, "options": it}}) for name, it in sinks.items()]

    assert told == [
        {
            "sink.format": "http",
            "sink.options.url": "https://hooks.example.com",
            "sink.options.method": "PUT",
        },
        {
            "sink.format": "sqlalchemy",
            "sink.options.url": "mysql+pymysql://db:3306/shop",
            "sink.options.table": "t",
        },
    ]


def test_a_rotated_secret_of_a_sink_changes_nothing() -> None:
    old, new = hooked(HOOK, Hook="a"), hooked(f"{HOOK}2?token=x", Hook="b", Cookie="c")
    assert reconcile(describe(new), describe(old), None, "refuse").decision is Decision.KEEP

    elsewhere = reconcile(describe(hooked("https://x.org/a")), describe(old), None, "refuse")
    assert elsewhere.decision is Decision.REFUSE
    assert "s3cret" not in elsewhere.listed
    by_variable = [describe(hooked(url)) for url in ("${HOOK}", "${OTHER}")]
    assert reconcile(*by_variable, None, "refuse").decision is Decision.REFUSE


@pytest.mark.parametrize(
    "noted",
    [
        {"sink.options.url": HOOK, "sink.options.header.hook": "s3cret"},
        {},  # what looked like a secret was left out
        {"sql": WITH_PASSWORD},
    ],
)
def test_the_note_of_an_earlier_release_has_such_secrets(noted: dict[str, str]) -> None:
    wanted = describe({**hooked(f"{HOOK}2", Hook="new"), "sql": WITH_PASSWORD})
    told = {part: text for part, text in wanted.items() if part != "sink.options.url"}

    verdict = reconcile(wanted, {**told, **noted}, None, "refuse")

    assert (verdict.decision, verdict.listed) == (Decision.KEEP, "")


def test_headers_for_a_catalog_are_secrets_of_sources_as_well() -> None:
    iceberg = {"format": "iceberg", "options": {"table": "a.b", "catalog.header.X": "s3cret"}}
    wanted = describe({"source": iceberg, "sink": iceberg})
    assert "s3cret" not in str(wanted)
    earlier = {f"{role}.options.catalog.header.x": "old" for role in ("source", "sink")}
    assert reconcile(wanted, {**wanted, **earlier}, None, "refuse").decision is Decision.KEEP


def test_the_code_of_a_function_counts(tmp_path: Path) -> None:
    def described(text: str, query: str) -> dict[str, str]:
        (tmp_path / "some_package").mkdir(exist_ok=True)
        for name in ("some_query.py", "some_package/__init__.py", "some_package/inner.py"):
            (tmp_path / name).write_text(text)
        return describe({"query": query, "python_path": [str(tmp_path)]})

    for query in ("some_query:made", "some_package.inner:made"):
        old, same, new = (described(text, query) for text in ("a = 1", "a = 1", "a = 2"))
        assert old == same
        assert reconcile(new, old, None, "refuse").decision is Decision.REFUSE


def test_a_policy_that_is_none() -> None:
    with pytest.raises(ValueError, match="on_changed is 'ignore'; it is refuse, adopt or upgrade"):
        check_on_changed("ignore")
