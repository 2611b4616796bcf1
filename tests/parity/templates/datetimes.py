"""Dates, timestamps, intervals."""

from __future__ import annotations

import pyarrow as pa

from tests.parity.columns import draw, one_of, small

_DATES = [
    "2024-02-29", "2023-02-29", "0001-01-01", "9999-12-31", "2024-2-9", "2024", "2024-13-01",
    "20240229", "29/02/2024", "", " 2024-02-29 ", "+10000-01-01", "2024-02-29T10:00:00",
    "2024-02-29 12:34:56", "2024-03-31 02:30:00", "2024-02-29 24:00:00", "epoch", "10:20:30",
    "2024-02-29 12:34:56.789123", "2024-02-29 12:34:56+05:30", "2024-02-29 12:34:56 Europe/Berlin",
]  # fmt: skip
_ZONES = ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "+05:30", "PST", "Z"]

COLUMNS = {
    "day": (
        pa.string(),
        draw(_DATES, lambda rng: f"20{rng.randint(10, 40)}-0{rng.randint(1, 9)}-15"),
    ),
    "dow": (pa.string(), one_of("Mon", "tuesday", "WE", "su", "x", "", "SAT")),
    "zone": (pa.string(), one_of(*_ZONES)),
    "y": (
        pa.int32(),
        draw([0, 1, 1970, 9999, -1, 10000, 2024], lambda rng: rng.randint(1900, 2100)),
    ),
    "mo": (pa.int32(), small(0, 13)),
    "dd": (pa.int32(), small(0, 32)),
    "hh": (pa.int32(), small(-1, 24)),
    "mi": (pa.int32(), small(-1, 60)),
    "sec": (pa.float64(), draw([0.0, 60.0, 59.999999, 60.5, -1.0], lambda rng: rng.uniform(0, 60))),
}
_MOMENTS = ["dt", "ts", "ntz"]
_UNITS = [
    "MICROSECOND",
    "MILLISECOND",
    "SECOND",
    "MINUTE",
    "HOUR",
    "DAY",
    "WEEK",
    "MONTH",
    "QUARTER",
]
_UNITS += ["YEAR"]
_FIELDS = ["YEAR", "YEAROFWEEK", "QUARTER", "MONTH", "WEEK", "DAY", "DAYOFWEEK", "DOW", "DOW_ISO"]
_FIELDS += ["DOY", "HOUR", "MINUTE", "SECOND"]
_DATE_FUNCTIONS = ["year", "quarter", "month", "day", "dayofmonth", "dayofyear", "dayofweek"]
_DATE_FUNCTIONS += ["weekday", "weekofyear", "monthname", "dayname", "last_day"]
_DT = "(INTERVAL '1' DAY * n)"
_YM = "(INTERVAL '1' MONTH * n)"

TEMPLATES = {
    **{name: [f"{name}({column})" for column in _MOMENTS] for name in _DATE_FUNCTIONS},
    **{name: [f"{name}(ts)", f"{name}(ntz)"] for name in ("hour", "minute", "second")},
    "extract": [f"extract({field} FROM {column})" for field in _FIELDS for column in _MOMENTS],
    "date_part": [f"date_part('{field}', ts)" for field in _FIELDS] + ["datepart('SECONDS', ntz)"],
    "date_add": ["date_add(dt, n)", "dateadd(dt, i)", "date_add(ts, h)"],
    "date_sub": ["date_sub(dt, n)", "date_sub(dt, i)"],
    "datediff": ["datediff(dt, dt2)", "date_diff(ts, dt)", "datediff(DAY, ts, ts2)"],
    "add_months": ["add_months(dt, n)", "add_months(ts, n)", "add_months(dt, h)"],
    "months_between": ["months_between(ts, ts2)", "months_between(dt, dt2, false)"],
    "next_day": ["next_day(dt, dow)", "next_day(dt, 'MO')", "next_day(dt, raw)"],
    "trunc": [f"trunc(dt, '{unit}')" for unit in ("YEAR", "MM", "QUARTER", "WEEK", "bad")],
    "date_trunc": [
        *(f"date_trunc('{unit}', {c})" for unit in [*_UNITS, "bad"] for c in ("ts", "ntz")),
    ],
    "make_date": ["make_date(y, mo, dd)", "make_date(y, 2, 29)"],
    "make_timestamp": [
        "make_timestamp(y, mo, dd, hh, mi, sec)", "make_timestamp(2024, 3, 31, 2, mi, 0)",
        "make_timestamp(y, mo, dd, hh, mi, sec, zone)", "make_timestamp(y, 1, 1, 1, 1, 1, 'CET')",
    ],
    "make_timestamp_ltz": [
        "make_timestamp_ltz(y, mo, dd, hh, mi, sec)", "make_timestamp_ltz(y, 2, dd, 0, 0, 0, zone)",
    ],
    "make_timestamp_ntz": ["make_timestamp_ntz(y, mo, dd, hh, mi, sec)"],
    "try_make_timestamp": [
        "try_make_timestamp(y, mo, dd, hh, mi, sec)",
        "try_make_timestamp(y, mo, dd, hh, mi, sec, zone)",
    ],
    "try_make_timestamp_ltz": ["try_make_timestamp_ltz(y, mo, dd, hh, mi, sec)"],
    "try_make_timestamp_ntz": ["try_make_timestamp_ntz(y, mo, dd, hh, mi, sec)"],
    "unix_timestamp": ["unix_timestamp(ts)", "unix_timestamp(dt)", "unix_timestamp(day)"],
    "to_unix_timestamp": ["to_unix_timestamp(ts)", "to_unix_timestamp(day, 'yyyy-MM-dd')"],
    "from_unixtime": ["from_unixtime(i)", "from_unixtime(i, 'yyyy/MM/dd HH')"],
    "unix_seconds": ["unix_seconds(ts)"],
    "unix_millis": ["unix_millis(ts)"],
    "unix_micros": ["unix_micros(ts)"],
    "unix_date": ["unix_date(dt)"],
    "date_from_unix_date": ["date_from_unix_date(i % 100000)"],
    "timestamp_seconds": ["timestamp_seconds(i)", "timestamp_seconds(x)", "timestamp_seconds(dec)"],
    "timestamp_millis": ["timestamp_millis(i)", "timestamp_millis(l)"],
    "timestamp_micros": ["timestamp_micros(i)", "timestamp_micros(l % 1000000000000000)"],
    "from_utc_timestamp": [
        "from_utc_timestamp(ts, 'America/New_York')",
        "from_utc_timestamp(ts, zone)", "from_utc_timestamp(ts, dow)",
    ],
    "to_utc_timestamp": ["to_utc_timestamp(ts, 'Europe/Berlin')", "to_utc_timestamp(ts, zone)"],
    "convert_timezone": [
        "convert_timezone('Europe/Berlin', 'America/New_York', ntz)",
        "convert_timezone('PST', ntz)",
        "convert_timezone(zone, 'UTC', ntz)",
    ],
    "date_format": [
        "date_format(ts, 'yyyy-MM-dd HH:mm:ss.SSS')", "date_format(dt, 'EEE, d MMM yyyy')",
        "date_format(ntz, 'D Q a h')", "date_format(ts, 'xxx')",
    ],
    "to_date": ["to_date(day)", "to_date(day, 'yyyy-MM-dd')", "to_date(ts)"],
    "try_to_date": ["try_to_date(day)", "try_to_date(day, 'yyyy-MM-dd')"],
    "to_timestamp": [
        "to_timestamp(day)", "to_timestamp(day, 'yyyy-MM-dd HH:mm:ss')", "to_timestamp(dt)",
        "to_timestamp(raw, 'yyyy-MM-dd')",
    ],
    "try_to_timestamp": ["try_to_timestamp(day)", "try_to_timestamp(day, 'yyyy-MM-dd')"],
    "to_timestamp_ltz": ["to_timestamp_ltz(day)", "to_timestamp_ltz(day, 'yyyy-MM-dd')"],
    "to_timestamp_ntz": ["to_timestamp_ntz(day)", "to_timestamp_ntz(day, 'yyyy-MM-dd HH:mm:ss')"],
    "timestampadd": [f"timestampadd({unit}, n, ts)" for unit in _UNITS]
    + ["timestampadd(DAY, i, ntz)"],
    "timestampdiff": [f"timestampdiff({unit}, ts, ts2)" for unit in _UNITS]
    + ["timestampdiff(MONTH, dt, ntz)"],
    "current_date": [
        "current_date() > date'2020-01-01'", "curdate() is null",
        "CAST('today' AS DATE) = current_date()", "CAST(' Now ' AS DATE) = current_date()",
        "datediff(to_date('TOMORROW'), CAST('yesterday Europe/Berlin' AS DATE))",
        "CAST('epoch' AS DATE)", "try_cast('today Mars' AS DATE)", "try_cast('to day' AS DATE)",
    ],
    "current_timestamp": [
        "current_timestamp() > timestamp'2020-01-01'", "CAST('epoch UTC' AS TIMESTAMP)",
        "to_timestamp('now') > timestamp'2020-01-01'", "try_cast('now UTC' AS TIMESTAMP)",
        "CAST('today' AS TIMESTAMP) = CAST('0:0' AS TIMESTAMP)",
        "CAST('tomorrow' AS TIMESTAMP_NTZ) - CAST('yesterday' AS TIMESTAMP_NTZ) > INTERVAL 1 DAY",
        "date_format(CAST('T10:20:30.5' AS TIMESTAMP), 'HH:mm:ss.SSS')",
        "try_cast('T10:00' AS TIMESTAMP_NTZ)", "hour(CAST('T23:00+01:00' AS TIMESTAMP)) >= 0",
    ],
    "now": ["now() is null"],
    "localtimestamp": ["localtimestamp() > timestamp_ntz'2020-01-01'"],
    "interval": [
        "dt + INTERVAL 2 MONTH", "ts + INTERVAL 1 DAY", "ntz - INTERVAL 36 HOURS",
        "ts - INTERVAL '1-2' YEAR TO MONTH", f"ts + {_DT}", f"dt + {_YM}", f"ntz + {_YM}",
        f"dt - {_YM}",
        f"ts + {_DT} * 2", f"dt + ({_YM} + {_YM})", f"dt + (- {_YM})", f"ts + {_DT} / 4",
        f"ts + ({_DT} - INTERVAL 1 HOUR)", f"dt + abs({_YM})", f"ts + abs({_DT})",
        f"dt + ({_YM} / 2)", f"dt + {_DT}", f"dt - {_DT}",
        f"extract(DAY FROM {_DT} * 1.5)", f"extract(MONTH FROM {_YM})",
        f"extract(YEAR FROM {_YM})",
        "extract(DAY FROM ts - ts2)",
        "extract(HOUR FROM ts - ts2)", "extract(SECOND FROM ts - ts2)",
        "extract(MINUTE FROM ntz - ntz2)", f"{_YM} > INTERVAL 1 MONTH", f"{_DT} = INTERVAL 2 DAY",
        f"signum({_DT})", f"signum({_YM})",
        "ts + CAST(concat(m, ' months ', dd, ' days ', sec, ' seconds') AS INTERVAL)",
        "ntz + CAST(concat_ws(' ', i, 'days', i2, 'hours') AS INTERVAL)",
        "ts + CAST(if(m > 0, '-1 day', '3 minutes 2.5 seconds') AS INTERVAL)",
    ],
    "make_interval": [
        "ts + make_interval(m, n, m, dd, hh, mi, cast(sec AS DECIMAL(18, 6)))",
        "ntz - make_interval(m, n, m, dd, hh, mi, cast(sec AS DECIMAL(18, 6)))",
        "ts - make_interval(0, mo, 0, -dd)",
        "ts + make_interval(i, i2)",
        "ts - make_interval(0, i, 0, i2)",
        "ntz2 + make_interval(0, i, 0, -i)",
        "ts2 + make_interval(0, 0, i, 0, i2, i, cast(d AS DECIMAL(18, 6)))",
        "ts + if(m > n, make_interval(m, n, 0, dd), make_interval(i, i2))",
        "ntz + coalesce(try_make_interval(i, i2), make_interval(0, 0, 0, dd, 0, mi))",
        "dt + make_interval(m, n, 1, dd)",
        "dt - make_interval(i, m, n, i2)",
        "dt + make_interval(0, n, 0, n, hh, mi)",
        "dt - make_interval(0, n, 0, dd, 0, 0, cast(sec AS DECIMAL(18, 6)))",
    ],
    "try_make_interval": [
        "ts + try_make_interval(m, n, m, dd, hh, mi, cast(sec AS DECIMAL(18, 6)))",
        "ts - try_make_interval(i, i2)",
        "ntz + try_make_interval(0, i, i2, i)",
        "dt + try_make_interval(i, i2)",
    ],
    "make_dt_interval": [
        "ts + make_dt_interval(n, hh, mi, sec)",
        "extract(HOUR FROM make_dt_interval(n, m, mi, 1.5))",
        "make_dt_interval(i) + INTERVAL 1 DAY > INTERVAL 2 DAY",
    ],
    "make_ym_interval": [
        "dt + make_ym_interval(m, n)", "extract(MONTH FROM make_ym_interval(m, n))",
    ],
}  # fmt: skip

_BUCKETS = ["5 MINUTE", "7 SECOND", "23 HOUR", "1 DAY", "7 DAY", "1 MONTH", "5 MONTH", "1 YEAR"]
_BUCKETS += ["'1 02:03:04.5' DAY TO SECOND", "'1-2' YEAR TO MONTH"]
_ORIGIN = "TIMESTAMP '2024-01-31 02:30:00.000001'"
TEMPLATES["time_bucket"] = [
    *(f"time_bucket(INTERVAL {size}, ts)" for size in _BUCKETS),
    *(f"time_bucket(INTERVAL {size}, ntz)" for size in _BUCKETS[::2]),
    *(f"time_bucket(INTERVAL {size}, ts, {_ORIGIN})" for size in _BUCKETS),
    "time_bucket(INTERVAL 1 DAY, ntz, TIMESTAMP_NTZ '1999-12-31 23:59:59')",
    "time_bucket(INTERVAL 7 MONTH, ntz, TIMESTAMP_NTZ '2020-01-31 10:00:00')",
]
