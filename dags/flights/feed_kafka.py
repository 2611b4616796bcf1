"""Sends the same departures to a topic of Kafka, one record each: the flight is its key.

``python -m flights.feed_kafka --servers HOST:PORT --topic TOPIC --rows-per-second N --done FILE``
makes the empty file ``FILE`` when the brokers have acknowledged all of them, and exits.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from flights.feed import Departure, FeedError, departures, paced, rate

_POLL_S = 0.01
_FLUSH_S = 60.0


def send(lines: Iterable[Departure], servers: str, topic: str) -> int:
    """Send departures as they come, in their order for each flight.

    :return: how many the brokers have acknowledged.
    :raises FeedError: they have refused one, or do not answer.
    """
    from confluent_kafka import Producer

    settings = {"bootstrap.servers": servers, "enable.idempotence": True, "linger.ms": 5}
    producer, refused, sent = Producer(settings), list[Any](), 0
    for departure in lines:
        record = json.loads(departure.line)
        key = f"{record['carrier']} {record['flight']}"
        while True:
            try:
                producer.produce(topic, departure.line, key, on_delivery=_keep(refused))
                break
            except BufferError:  # its queue is full
                producer.poll(_POLL_S)
        producer.poll(0)
        sent += 1
    if producer.flush(_FLUSH_S) or refused:
        raise FeedError(f"{topic} at {servers} did not take all: {refused[:1] or 'no answer'}.")
    return sent


def _keep(refused: list[Any]) -> Any:
    def delivered(error: Any, message: Any) -> None:
        if error is not None:
            refused.append(error)

    return delivered


def main(arguments: list[str] | None = None) -> int:
    """Run the feeder; 0 when all was sent or Ctrl-C ended it."""
    parser = argparse.ArgumentParser(prog="flights.feed_kafka", description=__doc__.split("\n")[0])
    parser.add_argument("--servers", required=True, metavar="HOST:PORT")
    parser.add_argument("--topic", required=True)
    parser.add_argument("--rows-per-second", type=rate, required=True, metavar="N")
    parser.add_argument("--done", type=Path, required=True, metavar="FILE")
    chosen = parser.parse_args(arguments)
    try:
        lines = paced(departures(), chosen.rows_per_second, threading.Event())
        sent = send(lines, chosen.servers, chosen.topic)
        chosen.done.touch()
    except FeedError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 0
    print(f"{sent} departures sent to {chosen.topic}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
