"""The windowed count in Pathway. Run by the interpreter of its own environment, with a dictionary
of JSON (:func:`bench.peers.work.running`)."""

import json
import os
import subprocess
import sys

told = json.loads(sys.argv[1])


def run():
    import pathway as pw

    class Record(pw.Schema):
        key: str
        at: int
        due: float

    closes = told["what"] == "closed"
    records = pw.io.kafka.read(
        {
            "bootstrap.servers": told["bootstrap"],
            "group.id": told["group"],
            "auto.offset.reset": "earliest",
        },
        topic=told["source"],
        schema=Record,
        format="json",
        autocommit_duration_ms=100 if closes else 5,
    )
    behavior = pw.temporal.exactly_once_behavior(shift=told["delay_ms"]) if closes else None
    counts = records.windowby(
        records.at,
        window=pw.temporal.tumbling(duration=told["window_ms"]),
        instance=records.key,
        behavior=behavior,
    ).reduce(
        key=pw.this._pw_instance,
        count=pw.reducers.count(),
        due=pw.reducers.max(pw.this.due),
    )
    pw.io.kafka.write(
        counts,
        {"bootstrap.servers": told["bootstrap"], "linger.ms": "0"},
        topic_name=told["sink"],
        format="json",
    )
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)


if __name__ == "__main__":
    if "PATHWAY_PROCESS_ID" in os.environ:
        run()
    else:
        spawn = ["pathway", "spawn", "--processes", str(told["processes"]), "--threads", "1"]
        sys.exit(subprocess.call([*spawn, sys.executable, __file__, sys.argv[1]]))
