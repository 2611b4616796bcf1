-- parse events: raw
SELECT e.*
FROM {parsed};

-- nested fields: raw
SELECT id, user.name AS name, user.country
FROM {flat};

-- drop bad records: raw
SELECT *
FROM {flat}
WHERE id IS NOT NULL;

-- keep bad records: raw
SELECT offset, value
FROM {stream}
WHERE from_json(value, '{event}').id IS NULL;

-- route by type: raw
SELECT CASE type WHEN 'buy' THEN 'sales' WHEN 'refund' THEN 'returns' ELSE 'clicks' END AS topic, id
FROM {flat};

-- revenue sign: raw
SELECT id, IF(type = 'refund', -price, price) AS amount
FROM {flat}
WHERE type IN ('buy', 'refund');

-- default values: raw
SELECT id, coalesce(user.country, 'unknown') AS country, nvl(price, 0D) AS price
FROM {flat};

-- one line per item: raw
SELECT id, item.sku, item.n
FROM (SELECT id, explode(items) AS item FROM {flat});

-- one line per item, keeping empty ones: raw
SELECT id, item.sku
FROM (SELECT id, explode_outer(items) AS item FROM {flat});

-- inline items: raw
SELECT id, inline(items)
FROM {flat};

-- lateral view over tags: raw
SELECT id, pos, tag
FROM {flat}
LATERAL VIEW posexplode(tags) t AS pos, tag
WHERE tag != 'a';

-- two lateral views: raw
SELECT id, tag, item.n
FROM {flat}
LATERAL VIEW OUTER explode(tags) t AS tag
LATERAL VIEW OUTER explode(items) i AS item;

-- get_json_object: raw
SELECT get_json_object(value, '$.user.name') AS name, get_json_object(value, '$.items[0].sku') AS sku
FROM {stream};

-- back to JSON: raw
SELECT CAST(offset AS STRING) AS key, to_json(e) AS value
FROM {parsed};

-- JSON of a new struct: raw
SELECT to_json(named_struct('id', id, 'at', timestamp, 'who', user)) AS value
FROM {flat}
WHERE type = 'buy';

-- event time: raw
SELECT id, to_date(timestamp) AS day, hour(timestamp) AS hour, date_format(timestamp, 'yyyy-MM-dd HH:mm:ss.SSS') AS text
FROM {flat};

-- truncated to hours: raw
SELECT date_trunc('HOUR', timestamp) AS hour, trunc(to_date(timestamp), 'MM') AS month
FROM {stream};

-- partition columns: raw
SELECT *, year(timestamp) AS y, month(timestamp) AS m, day(timestamp) AS d
FROM {stream};

-- weekdays: raw
SELECT dayofweek(timestamp) AS d, weekofyear(timestamp) AS w, last_day(to_date(timestamp)) AS l
FROM {stream};

-- late by a day: raw
SELECT offset, timestamp + INTERVAL 1 DAY AS due, date_add(to_date(timestamp), 30) AS reminder
FROM {stream};

-- epoch seconds: raw
SELECT unix_timestamp(timestamp) AS s, unix_millis(timestamp) AS ms, timestamp_millis(offset * 1000) AS t
FROM {stream};

-- price with VAT: raw
SELECT id, round(price * 1.19, 2) AS gross, CAST(price AS DECIMAL(10, 2)) * CAST(0.19 AS DECIMAL(3, 2)) AS vat
FROM {flat};

-- price class: raw
SELECT id, CASE WHEN price < 10 THEN 'low' WHEN price < 30 THEN 'mid' WHEN price IS NULL THEN 'none' ELSE 'high' END AS class
FROM {flat};

-- a common table expression: raw
WITH buys AS (SELECT * FROM {flat} WHERE type = 'buy') SELECT id, price
FROM buys
WHERE price > 10;

-- select from select: raw
SELECT x + 1 AS y
FROM (SELECT offset * 2 AS x FROM {stream})
WHERE x % 3 = 0;

-- pseudonymous users: raw
SELECT sha2(user.name, 256) AS who, md5(user.name) AS short
FROM {flat};

-- a shard number: raw
SELECT offset, pmod(offset, 4) AS shard, offset & 3 AS mask, offset << 2 AS four
FROM {stream};

-- a hash of the key: raw
SELECT xxhash64(offset) AS h, hash(value) AS m, crc32(value) AS c
FROM {stream};

-- a sample by hash: raw
SELECT offset
FROM {stream}
WHERE pmod(xxhash64(offset), 100) < 30;

-- unpivot prices: raw
SELECT id, name, amount
FROM (SELECT id, price AS net, price * 2 AS gross FROM {flat})
UNPIVOT (amount FOR name IN (net, gross));

-- stacked columns: raw
SELECT id, stack(2, 'type', type, 'name', user.name) AS (name, value)
FROM {flat};

-- unwrap changes: cdc
SELECT after.*
FROM {stream}
WHERE op IN ('c', 'u', 'r');

-- tombstones: cdc
SELECT before.id AS id, true AS deleted
FROM {stream}
WHERE op = 'd';

-- the newest image: cdc
SELECT op, coalesce(after.id, before.id) AS id, coalesce(after.name, before.name) AS name, op = 'd' AS deleted
FROM {stream};

-- only real changes: cdc
SELECT after.id
FROM {stream}
WHERE op = 'u' AND NOT (before.name <=> after.name AND before.total <=> after.total);

-- difference of totals: cdc
SELECT coalesce(after.id, before.id) AS id, coalesce(after.total, 0D) - coalesce(before.total, 0D) AS delta
FROM {stream};

-- change time: cdc
SELECT timestamp_millis(ts_ms) AS at, CAST(timestamp_millis(ts_ms) AS DATE) AS day
FROM {stream};

-- words for operations: cdc
SELECT CASE op WHEN 'c' THEN 'insert' WHEN 'u' THEN 'update' WHEN 'd' THEN 'delete' ELSE 'snapshot' END AS change
FROM {stream};

-- a keyed message: cdc
SELECT to_json(named_struct('id', coalesce(after.id, before.id))) AS key, to_json(after) AS value
FROM {stream};

-- upserts: cdc
SELECT IF(op = 'd', before, after) AS row, op
FROM {stream};

-- access log: logs
SELECT regexp_extract(value, {line}, 1) AS ip, regexp_extract(value, {line}, 4) AS method, regexp_extract(value, {line}, 7) AS status
FROM {stream};

-- errors of the access log: logs
SELECT *
FROM (SELECT host, try_cast(regexp_extract(value, {line}, 7) AS INT) AS status FROM {stream})
WHERE status >= 400;

-- bytes sent: logs
SELECT try_cast(regexp_extract(value, {line}, 8) AS BIGINT) AS bytes
FROM {stream}
WHERE value IS NOT NULL;

-- times of log lines: logs
SELECT to_timestamp(nullif(regexp_extract(value, {line}, 3), ''), 'dd/MMM/yyyy:HH:mm:ss Z') AS at
FROM {stream};

-- lines that match: logs
SELECT value
FROM {stream}
WHERE value RLIKE 'GET|POST' AND value NOT LIKE '%.png%';

-- masked addresses: logs
SELECT regexp_replace(value, r'\d+\.\d+\.\d+\.(\d+)', 'x.x.x.$1') AS value
FROM {stream};

-- words of a line: logs
SELECT host, word
FROM (SELECT host, explode(split(value, ' ')) AS word FROM {stream})
WHERE word != '';

-- host names: logs
SELECT substring_index(host, '.', 1) AS host, upper(right(host, 2)) AS region, lpad(host, 12, '*') AS padded
FROM {stream};

-- trimmed lines: logs
SELECT trim(value) AS value, length(value) AS n, reverse(host) AS r, initcap(host) AS i
FROM {stream};

-- query parameters: logs
SELECT try_cast(regexp_extract(value, 'id=([^& ]+)', 1) AS INT) AS id
FROM {stream}
WHERE contains(value, 'id=');

-- concatenated: logs
SELECT concat_ws(' | ', host, value) AS line, host || ':' || coalesce(value, '-') AS other
FROM {stream};

-- translated: logs
SELECT translate(host, '-.', '__') AS name, replace(host, 'web', 'w') AS short, instr(host, '0') AS at
FROM {stream};

-- enriched with products: raw
SELECT s.id, s.sku, p.title, p.vat
FROM (SELECT id, inline(items) FROM {flat}) s
LEFT JOIN products p ON s.sku = p.sku;

-- known products only: raw
SELECT s.id, s.sku
FROM (SELECT id, inline(items) FROM {flat}) s
LEFT SEMI JOIN products p ON s.sku = p.sku AND p.vat > 10;

-- unknown products: raw
SELECT s.id, s.sku
FROM (SELECT id, inline_outer(items) FROM {flat}) s
LEFT ANTI JOIN products p ON s.sku = p.sku;

-- country names: raw
SELECT id, country, eu
FROM {flat} s
JOIN countries c ON upper(s.user.country) = c.code;

-- two tables: raw
SELECT /*+ BROADCAST(c) */ s.id, c.country, p.title
FROM (SELECT id, user, inline(items) FROM {flat}) s
JOIN countries c ON s.user.country = c.code
LEFT JOIN products p USING (sku)
WHERE c.eu;

-- tables first: raw
SELECT c.country, s.id
FROM countries c
RIGHT JOIN {flat} s ON c.code <=> s.user.country;

-- items in stock: raw
SELECT id, transform(filter(items, i -> i.n > 0), i -> concat(i.sku, ':', i.n, ' of ', id)) AS lines
FROM {flat}
WHERE type != 'refund';

-- the total of an order: raw
SELECT id, aggregate(items, 0L, (total, i) -> total + i.n * id, total -> total * 100) AS cents
FROM {flat};

-- every tag with every item: raw
SELECT id, transform(tags, t -> transform(items, i -> named_struct('tag', t, 'sku', i.sku, 'of', id))) AS pairs
FROM {flat};

-- items from the largest: raw
SELECT id, array_sort(items, (l, r) -> r.n - l.n) AS items, map_filter(map_from_arrays(tags, tags), (k, v) -> k != type) AS tags
FROM {flat};

-- tumbling windows: raw
SELECT window(timestamp, '12 hours') AS window, offset
FROM {stream};

-- windows that slide: raw
SELECT window.start, window.end, window_time(window) AS time, offset
FROM (SELECT window(timestamp, '1 day', '8 hours', '30 minutes') AS window, offset FROM {stream});

-- windows of local times, some missing: raw
SELECT window(CAST(nullif(timestamp, TIMESTAMP '2024-02-29 05:15:07.123456') AS TIMESTAMP_NTZ),
              '5 hours', '2 hours') AS window, offset
FROM {stream};

-- buckets of time: raw
SELECT time_bucket(INTERVAL 1 DAY, timestamp) AS day, time_bucket(INTERVAL 1 MONTH, timestamp) AS m
FROM {stream};
