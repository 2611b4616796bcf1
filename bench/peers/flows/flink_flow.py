"""The windowed count in Flink's SQL, by PyFlink. Run by the interpreter of its own environment,
with a dictionary of JSON (:func:`bench.peers.work.running`)."""

import json
import sys

from pyflink.table import EnvironmentSettings, TableEnvironment

told = json.loads(sys.argv[1])
window, delay = (f"INTERVAL '{told[name] // 1000}' SECOND" for name in ("window_ms", "delay_ms"))
kafka = f"'properties.bootstrap.servers' = '{told['bootstrap']}'"

tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
config = tables.get_config()
config.set("pipeline.jars", ";".join(told["libraries"]))
config.set("parallelism.default", str(told["processes"]))
config.set("execution.checkpointing.interval", "1 s")
config.set("execution.buffer-timeout.interval", "1 ms")
tables.execute_sql(f"""
    CREATE TABLE records (
        `key` STRING, `at` BIGINT, `due` DOUBLE, `time` AS TO_TIMESTAMP_LTZ(`at`, 3),
        WATERMARK FOR `time` AS `time` - {delay}
    ) WITH (
        'connector' = 'kafka', 'topic' = '{told["source"]}', {kafka}, 'format' = 'json',
        'properties.group.id' = '{told["group"]}', 'scan.startup.mode' = 'earliest-offset'
    )
""")
if told["what"] == "closed":
    tables.execute_sql(f"""
        CREATE TABLE counts (`key` STRING, `count` BIGINT, `due` DOUBLE) WITH (
            'connector' = 'kafka', 'topic' = '{told["sink"]}', {kafka}, 'format' = 'json'
        )
    """)
    running = tables.execute_sql(f"""
        INSERT INTO counts SELECT `key`, COUNT(*), MAX(`due`)
        FROM TABLE(TUMBLE(TABLE records, DESCRIPTOR(`time`), {window}))
        GROUP BY `key`, window_start, window_end
    """)
else:
    tables.execute_sql(f"""
        CREATE TABLE counts (
            `key` STRING, `start` BIGINT, `count` BIGINT, `due` DOUBLE,
            PRIMARY KEY (`key`, `start`) NOT ENFORCED
        ) WITH (
            'connector' = 'upsert-kafka', 'topic' = '{told["sink"]}', {kafka},
            'key.format' = 'json', 'value.format' = 'json'
        )
    """)
    running = tables.execute_sql(f"""
        INSERT INTO counts SELECT `key`, `at` / {told["window_ms"]}, COUNT(*), MAX(`due`)
        FROM records GROUP BY `key`, `at` / {told["window_ms"]}
    """)
running.wait()
