"""The windowed count in Quix Streams. Run by the interpreter of its own environment, with a
dictionary of JSON (:func:`bench.peers.work.running`)."""

import json
import subprocess
import sys
from pathlib import Path

from quixstreams import Application
from quixstreams.dataframe.windows import Count, Max

told = json.loads(sys.argv[1])


def run(number):
    app = Application(
        broker_address=told["bootstrap"],
        consumer_group=told["group"],
        auto_offset_reset="earliest",
        state_dir=Path(told["folder"]) / f"state-{number}",
        producer_extra_config={"linger.ms": 0 if told["what"] == "updates" else 50},
        loglevel="WARNING",
    )
    source = app.topic(
        told["source"],
        value_deserializer="json",
        timestamp_extractor=lambda value, headers, timestamp, kind: value["at"],
    )
    windows = (
        app.dataframe(source)
        .tumbling_window(told["window_ms"], grace_ms=told["delay_ms"])
        .agg(count=Count(), due=Max("due"))
    )
    if told["what"] == "closed":
        counts = windows.final(closing_strategy="partition")
    else:
        counts = windows.current()
    counts.to_topic(app.topic(told["sink"], value_serializer="json"))
    app.run()


if __name__ == "__main__":
    if len(sys.argv) == 3:
        run(int(sys.argv[2]))
    else:
        processes = [
            subprocess.Popen([sys.executable, __file__, sys.argv[1], str(number)])
            for number in range(told["processes"])
        ]
        sys.exit(max(process.wait() for process in processes))
