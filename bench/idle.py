"""What a query that reads nothing asks of its storage: requests to S3 per minute.

A whole query, whose source is an empty folder, as it is by default and with the two options that
docs/engine.md names for a quiet one.
"""

from __future__ import annotations

import json
import os
import tempfile
import threading
import time
from typing import Any

from bench.size import sized
from engine import register, write_stream

_CASES: dict[str, dict[str, str]] = {
    "as it is, epochs of 1 s": {},
    "emptyEpochInterval 10 minutes, leaseHeartbeatMs 10,000": {
        "emptyEpochInterval": "10 minutes",
        "leaseHeartbeatMs": "10000",
    },
}
ENGINES = tuple(_CASES)
_WARM_UP_S = sized(20.0, 10.0, 2.0)
_MEASURE_S = sized(60.0, 30.0, 5.0)


def main(engine: str) -> None:
    """Measure one case in this process and print its figures as JSON."""
    from bench.session import session
    from bench.slow_s3 import SlowS3

    with SlowS3() as s3, tempfile.TemporaryDirectory(prefix="bench-idle-") as folder:
        os.environ.update(
            AWS_ACCESS_KEY_ID=s3.options["key"],
            AWS_SECRET_ACCESS_KEY=s3.options["secret"],
            AWS_ENDPOINT_URL=s3.options["endpoint_url"],
            AWS_DEFAULT_REGION=s3.options["client_kwargs"]["region_name"],
        )
        with session() as spark:
            register(spark)
            tail = spark.readStream.format("tail").schema("value STRING")
            df = tail.option("path", folder).option("fileFormat", "text").load()
            writer: Any = write_stream(df).format("noop").trigger(continuous="1 second")
            writer = writer.option("checkpointLocation", s3.url)
            for option, value in _CASES[engine].items():
                writer = writer.option(option, value)
            query = writer.start()
            never = threading.Event()
            never.wait(_WARM_UP_S)
            s3.take()
            began = time.monotonic()
            never.wait(_MEASURE_S)
            calls, took_s = len(s3.take()), time.monotonic() - began
            assert query.isActive, query.exception()
            query.stop()
    print(json.dumps({"calls per minute": calls * 60 / took_s}))
