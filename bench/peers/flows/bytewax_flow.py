"""The windowed count in Bytewax. Run by the interpreter of its own environment, with a dictionary
of JSON (:func:`bench.peers.work.running`)."""

import json
import socket
import subprocess
import sys
from datetime import datetime, timedelta, timezone

import bytewax.operators as op
import bytewax.operators.windowing as win
from bytewax.connectors.kafka import KafkaSinkMessage
from bytewax.connectors.kafka import operators as kop
from bytewax.dataflow import Dataflow

told = json.loads(sys.argv[1])
brokers = [told["bootstrap"]]


def parsed(message):
    record = json.loads(message.value)
    return record["key"], record


def by_window(message):
    key, record = parsed(message)
    return f"{key} {record['at'] // told['window_ms']}", record


def counted(state, record):
    count = (state or 0) + 1
    return count, {"key": record["key"], "count": count, "due": record["due"]}


def result(found):
    return KafkaSinkMessage(None, json.dumps(found).encode())


flow = Dataflow("counts")
records = kop.input("in", flow, brokers=brokers, topics=[told["source"]]).oks
if told["what"] == "closed":
    clock = win.EventClock(
        lambda record: datetime.fromtimestamp(record["at"] / 1000, timezone.utc),
        wait_for_system_duration=timedelta(milliseconds=told["delay_ms"]),
    )
    windower = win.TumblingWindower(
        length=timedelta(milliseconds=told["window_ms"]),
        align_to=datetime(2020, 1, 1, tzinfo=timezone.utc),
    )
    windows = win.fold_window(
        "count",
        op.map("parse", records, parsed),
        clock,
        windower,
        lambda: 0,
        lambda count, _: count + 1,
        lambda left, right: left + right,
    )
    results = op.map("result", windows.down, lambda kv: {"key": kv[0], "count": kv[1][1]})
else:
    each = op.stateful_map("count", op.map("parse", records, by_window), counted)
    results = op.map("result", each, lambda keyed: keyed[1])
kop.output("out", op.map("json", results, result), brokers=brokers, topic=told["sink"])


def _ports(count):
    probes = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports


if __name__ == "__main__":
    addresses = [f"127.0.0.1:{port}" for port in _ports(told["processes"])]
    again = "import sys, json, runpy; from bytewax._bytewax import cluster_main; "
    again += "number, addresses, file = int(sys.argv[2]), json.loads(sys.argv[3]), sys.argv[4]; "
    again += "cluster_main(runpy.run_path(file)['flow'], addresses, number)"
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", again, sys.argv[1], str(number), json.dumps(addresses), __file__]
        )
        for number in range(told["processes"])
    ]
    sys.exit(max(process.wait() for process in processes))
