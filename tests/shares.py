"""How much of a dear file ``make test`` plays.

The files take twenty seconds or more on two slow cores, and most of their tests are variants of
each other. A test that is marked as ``sampled`` itself has a share of its own.
"""

from __future__ import annotations

from typing import Final

_FEW: Final = 0.15
"""One more value, type or function beside Spark."""
_SOME: Final = 0.2
"""One more story of processes, servers or browsers; or one more shape of a model."""

SHARES: Final = {
    f"tests/{folder}/test_{name}.py": share
    for folder, share, names in (
        (
            "spark",
            _FEW,
            "aggregates_by_key expressions_arithmetic expressions_cast expressions_collections "
            "expressions_datetime expressions_higher_order expressions_json expressions_logic "
            "expressions_numbers expressions_strings functions generators json_options "
            "malformed_texts observe random_values registry spark_rules static_joins subqueries "
            "table_functions to_csv variants whole_queries windows_of_rows",
        ),
        (
            "spark",
            _SOME,
            "checkpoint_upkeep cli_run connectors continuous_query file_source init kafka "
            "keys_in_partitions late_letters metrics_run mqtt native_queries other_peoples plan "
            "plan_partition_keys plan_stages replay rewind session signals state_and_sinks workers",
        ),
        ("parity", _FEW, "found found_compiled parity"),
        ("parity/java_regexes", _FEW, "java_regexes"),
        ("parity/stateful", _FEW, "live"),
        (
            "unit",
            _FEW,
            "file_sink_growth grouped_aggregates grouping_stage key_hashing spilling",
        ),
        (
            "unit",
            _SOME,
            "custom_state_on_disk files_sink_storage iceberg_catalogs late_entries optimizer pins "
            "redaction rewind s3 session_stage snapshots state_columns state_retention",
        ),
        ("simulation", _FEW, "keys_in_partitions"),
        (
            "simulation",
            _SOME,
            "empty_epochs monitoring polled_sources state_on_threads top",
        ),
        (
            "airflow",
            _SOME,
            "command_line end_operators killing native_queries standalone_queue standby "
            "standby_spark start_operator upgrade_operator waiting_for_a_start",
        ),
        (
            "airflow/live",
            _SOME,
            "browser charts checkpoint_dags dags kafka_dags life_cycle_dags watching_dags",
        ),
        ("connectors/databases", _SOME, "sinks"),
        ("connectors/delta", _SOME, "beside_spark"),
        ("connectors/kafka", _SOME, "beside_spark outages source transactions"),
        ("connectors/lakes", _SOME, "iceberg maintenance"),
        ("connectors/mqtt", _SOME, "lost_sessions outages sink source"),
        ("connectors/postgres", _SOME, "source"),
        ("connectors/sqlalchemy", _SOME, "sink"),
        ("docker", _SOME, "commands"),
        ("faults", _SOME, "faults_short"),
        ("system", _SOME, "installed"),
    )
    for name in names.split()
}
"""Of each file its share, up to 1."""
