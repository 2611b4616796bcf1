"""The format of a snapshot, by itself."""

from __future__ import annotations

import pyarrow as pa

from engine.state.contract import GONE, GROUP
from engine.state.files import Header, TableHead, decode, encode

_SCHEMA = pa.schema([GROUP, GONE, pa.field("key", pa.string()), pa.field("value", pa.int64())])
_HEAD = TableHead("aggregate", "groups", 1)
_HEADER = Header("q", 1, 0, 64, 7, 2, 0, (), (_HEAD,))


def rows(*numbers: int) -> pa.Table:
    values = [{"#group": 1, "#gone": False, "key": str(n), "value": n} for n in numbers]
    return pa.Table.from_pylist(values, _SCHEMA)


def read(data: bytes) -> pa.Table:
    header, (table,) = decode(data)
    assert header == _HEADER
    return table


def test_many_small_batches_are_one_in_the_file() -> None:
    small = pa.concat_tables([rows(number) for number in range(300)])
    written = encode(_HEADER, [small])
    found = read(written)
    assert found.equals(small)
    assert found.column(0).num_chunks == 1
    assert len(written) < 10 * len(encode(_HEADER, [rows()]))


def test_large_ones_stay_as_they_are() -> None:
    large = pa.concat_tables([rows(*range(2_000)), rows(*range(2_000))])
    found = read(encode(_HEADER, [large]))
    assert found.equals(large)
    assert found.column(0).num_chunks == 2


def test_a_table_may_have_no_rows() -> None:
    assert read(encode(_HEADER, [rows()])).num_rows == 0
    assert read(encode(_HEADER, [pa.concat_tables([rows(), rows()])])).num_rows == 0
