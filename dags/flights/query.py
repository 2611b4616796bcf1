"""The query of the flights demos: run continuously, and in batch to compare."""

from __future__ import annotations

SCHEMA = (
    "year INT, month INT, day INT, dep_time INT, sched_dep_time INT, dep_delay DOUBLE, "
    "arr_delay DOUBLE, carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING, "
    "air_time DOUBLE, distance DOUBLE, time_hour STRING"
)

DELAYED = """
SELECT
    make_date(year, month, day) AS flown_on,
    concat(carrier, ' ', flight) AS flight,
    tailnum,
    origin,
    dest,
    dep_delay,
    coalesce(arr_delay, dep_delay) - dep_delay AS lost_in_the_air,
    CASE WHEN dep_delay >= 120 THEN 'very late' ELSE 'late' END AS how,
    round(distance / (air_time / 60), 1) AS miles_per_hour
FROM source
WHERE dep_delay > 15
"""

DELAYED_SCHEMA = (
    "flown_on DATE, flight STRING, tailnum STRING, origin STRING, dest STRING, dep_delay DOUBLE, "
    "lost_in_the_air DOUBLE, how STRING, miles_per_hour DOUBLE"
)


def of_records(query: str, schema: str) -> str:
    """The same query where the source is Kafka, and each record's value a row as JSON."""
    rows = f"SELECT from_json(CAST(value AS STRING), '{schema}') AS row FROM source"
    return query.replace("FROM source", f"FROM (SELECT row.* FROM ({rows}))")


DELAYED_RECORDS = (
    f"SELECT flight AS key, to_json(struct(*)) AS value FROM ({of_records(DELAYED, SCHEMA)})"
)
DELAYED_ROWS = of_records("SELECT * FROM source", DELAYED_SCHEMA)
