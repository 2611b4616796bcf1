"""What holds up the cases that fall short of their goals, by those who have looked.

A case without an entry is told with the first line of its profile (``python -m bench --profile``).
"""

from __future__ import annotations

from collections.abc import Mapping

_SMALL_COMMIT = (
    "six times in a row something is made durable (strace): three files of the checkpoint, and "
    "the folder of each behind it. On a checkpoint in memory the same commit takes 0.56 ms, "
    "nearly all of it CPU: the rest is the disk's, some 0.35 ms each time. One file less would be "
    "another format of the checkpoint, one call less would stand a power failure less well"
)
_EPOCH = (
    "15 % of a core are 3 ms of CPU for each of 50 epochs a second, and the driver alone has 3.6 "
    "(by thread, checkpoint in memory): 1.9 on the thread that commits, a quarter of them for "
    "three files and a fifth for waking up another thread, 0.6 each for coordinator and wire, 0.4 "
    "for retention and reports. Each of the two workers has another 1.9, and wakes up for every "
    "one of its 500 rows a second"
)
_KAFKA = (
    "a record passes the broker twice, and the broker, its producer and its consumer share the "
    "two cores: sent and read with no engine between, it takes 0.7 to 1.7 ms, and 9 ms and more at "
    "p99. Of the samples of the engine's Python a quarter is the wait, 5 ms at most, for the "
    "broker's answer to a small batch, behind which the next one is read. Not to wait is no "
    "quicker: 3.5 ms against 2.4 and 3.2. As the machine goes p50 and p99 are 2.4 and 8 ms to 7 "
    "and 25 ms"
)
REASONS: Mapping[str, Mapping[str, str]] = {
    "cold": {
        "engine": (
            "most of it is Spark's: its session and its first Python job take 8.4 s beside it, and "
            "7.0 s on a machine where this took 6.4. Of the driver's own samples 14 % wait for the "
            "JVM, and 11 % are patterns of `parse_url` that are compiled when Python imports them, "
            "25 ms in each process"
        ),
    },
    "commits": {
        "local disk, 2 partitions": _SMALL_COMMIT,
        "local disk, 2 partitions, epoch 1,000,000": _SMALL_COMMIT,
        "local disk, 10,000 partitions": (
            "it is JSON of 10,000 offsets and as many messages, 0.5 and 1.6 MB. 37 % of the "
            "samples are Python's encoder (msgspec needs a ninth of its time, but takes what "
            "is no JSON), 17 % the text of the messages, 16 % making files durable and removing "
            "old ones"
        ),
    },
    "count_latency": {
        "engine": (
            "two readers and two reducers keep both cores busy, so rows wait for a core: alone, a "
            "batch of 12 rows takes 0.36 ms of CPU, beside the three others more than 1 ms. A "
            "reader that rests for 1 ms behind each small batch takes a tenth off the p99 and "
            "adds as much to the p50. In the first 20 ms of each epoch, while its state is taken, "
            "written and reported, the p50 is twice that of the others. As the machine goes p50 "
            "and p99 are 1.6 and 5 ms to 2.9 and 15 ms"
        ),
    },
    "joined_latency": {
        "engine": (
            "four readers and two reducers share two cores: 20,000 rows a second in batches of a "
            "few, each of which wakes a reducer. As the machine goes 17 to 90 ms; that readers "
            "rest between their batches changes nothing"
        ),
    },
    "state_restarts": {
        "1,000,000 keys": (
            "1.8 s on a machine whose cores do a fixed piece of work in half the time. 16 % of the "
            "samples find the keys' places in the table, 11 % read the state's files and their "
            "checksums, 5 % are arrays that grow"
        ),
    },
    "exchange": {
        "10,000 rows": (
            "16 to 26 million as the machine goes, by turns in runs of the same code; the HMAC "
            "of each frame is in it"
        ),
    },
    "epochs": {
        "noop, 20 ms": _EPOCH,
        "parquet, 20 ms": (
            "45 % of a core are 9 ms of CPU for each of 50 epochs a second. Each of the two "
            "workers has 3.1 (by process, checkpoint in memory, on a busy machine), for it writes "
            "a file of ten rows in each epoch and wakes up for every row; the driver has 3.6, as "
            "for noop, and the log of the files"
        ),
    },
    "expressions": {
        "CASE WHEN b <> 0 THEN a / b ELSE 0 END": (
            "100,000 rows: some twenty steps over the columns. Casts of two BIGINTs to DOUBLE have "
            "14 % of the time, the choice between the branches 13 %, the division 12 %, no other "
            "more than 6 %"
        ),
        "IF(b <> 0, a DIV b, a * 2 + 1)": (
            "100,000 rows: a third of the time is Arrow's division of BIGINTs with nulls, 14 % the "
            "choice between the branches, 13 % the search for the least and the largest value that "
            "tells whether a product or a sum may overflow; a division by doubles was not faster"
        ),
        "IF(a > 0, a * 2 + 1, a - b)": (
            "a third of the time are a product, a sum and a difference with the search, before "
            "each, for the least and the largest value of its columns, which has half of that; a "
            "fifth is the choice between the branches"
        ),
        "from_json, 5 fields": (
            "one record: a quarter of the time is Arrow's making of five arrays of one value, a "
            "fifth reading the JSON and building the struct, the rest what there is for each batch"
        ),
        "filter, 3 projections": (
            "10 rows: 21 to 28 µs as the machine goes, in three runs of the same code; Python "
            "computes so few rows, and most of it is what there is for each batch and column"
        ),
        "filter, 3 projections, one of them upper": (
            "1 and 10 rows: 17 to 28 and 24 to 34 µs as the machine goes, otherwise as the filter "
            "above. 100,000 rows: a third of the time is Arrow's gathering of the 50,000 texts "
            "that pass the filter, and a tenth is finding which rows pass"
        ),
    },
    "kafka_functions": {
        "engine": _KAFKA,
    },
    "kafka_latency": {
        "engine": _KAFKA,
    },
    "listing": {
        "1,000 queries, 50 ms per call": (
            "1,002 calls of 50 ms, 256 at a time, are 0.2 s; the rest is CPU, 0.7 s to 1 s as the "
            "machine goes: a thread, a lease and its summary for each query"
        ),
    },
    "peer_latency": {
        "engine": (
            "a batch of a few records costs each of the four tasks 1.5 to 2 ms of CPU beside the "
            "others, three times what it takes alone, and the broker, its producer and its "
            "consumer have 0.9 of the two cores: both are full, and records wait for one. It is "
            "spread thin: reading JSON, the time and its window, hashing the key twice, finding "
            "its count, the frame between the tasks, writing JSON. With `keysStayInPartitions`, as "
            "Quix does it, there are two tasks, and nothing is sent between them. Readers that "
            "rest for 2 or 5 ms behind each batch change nothing: the cores are full all the same"
        ),
    },
    "wire": {
        "2,000 tasks": (
            "the driver needs 30 ms of CPU to authenticate and send the 2,000 markers of an "
            "epoch, 15 µs each, and the processes that play the tasks read and answer on the same "
            "two cores meanwhile: the last task waits for all of that"
        ),
    },
}
"""By case and engine; ``""`` is every other engine of the case."""
