"""The query of the flights demo: run continuously, and in batch to compare."""

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
