"""What both sinks of databases promise: each epoch once, whoever dies or comes too late."""

from __future__ import annotations

import pytest

from engine.checkpoint.sink_context import Inherited
from engine.errors import ConfigError, SinkAheadError, SinkUnavailableError, StaleRunError
from tests.connectors.databases.queries import (
    CHANGES,
    KEYED,
    QUERY,
    Query,
    changes,
    rows,
    unbound,
)
from tests.connectors.databases.tables import Database


def test_an_epoch_is_committed_once(database: Database) -> None:
    query = Query(database.writer())
    message = query.prepare(0, rows(1))
    query.sink.commit([message], 0)
    query.sink.commit([message], 0)
    again = Query(database.writer(), generation=1, logged=0, prepared=[(0, [message])])
    assert again.latest == 0
    assert database.ids() == [1]


def test_another_process_finishes_what_was_prepared(database: Database) -> None:
    query = Query(database.writer())
    message = query.prepare(0, rows(1))
    Query(database.writer(), generation=1, logged=0, prepared=[(0, [message])])
    assert database.ids() == [1]


def test_a_run_that_was_replaced_commits_nothing(database: Database) -> None:
    old = Query(database.writer())
    message = old.prepare(0, rows(1))
    Query(database.writer(), generation=1)
    with pytest.raises(StaleRunError, match="generation 1 has written"):
        old.sink.commit([message], 0)
    with pytest.raises(StaleRunError):
        Query(database.writer())
    assert database.ids() == []


def test_the_last_change_of_a_key_counts(database: Database) -> None:
    everything = f"SELECT * FROM {database.table} ORDER BY id"
    query = Query(database.writer(CHANGES, **KEYED))
    query.commit(0, changes((1, "a", False), (2, "b", False), (1, "c", False)))
    assert database.read(everything) == [(1, "c"), (2, "b")]
    query.commit(
        1,
        changes((1, None, True), (3, "d", False), (2, "x", True)),
        changes((2, "e", False), (4, "f", False), (4, None, True)),
    )
    assert database.read(everything) == [(2, "e"), (3, "d")]
    message = query.prepare(2, changes((2, "g", False)))
    other = query.prepare(2, changes((2, "h", False)), task=1)
    for _ in range(2):
        query.sink.commit([message, other], 2)
        assert database.read(everything) == [(2, "h"), (3, "d")]


def test_rows_of_later_epochs_are_taken_back(database: Database) -> None:
    options = {"epochColumn": "epoch_"}
    query = Query(database.writer(**options))
    for epoch in range(3):
        query.commit(epoch, rows(epoch))
    late = query.prepare(3, rows(3))
    taken = database.reopened(**options)
    taken.bind(Query(database.writer(**options), generation=1, logged=3).context)
    taken.checkRewind(0)
    assert database.ids() == [0, 1, 2]
    again = database.writer(**options)
    again.bind(type(query.context)(QUERY, "run", 2, 2))
    again.checkRewind(0)
    for _ in range(2):
        again.rewind(0)
        assert database.ids() == [0]
    assert again.latestEpoch() == 0
    with pytest.raises(StaleRunError):
        query.sink.commit([late], 3)
    after = Query(database.writer(**options), generation=3, timeline=2, logged=0)
    assert after.latest == 0
    after.commit(1, rows(11))
    found = database.read(f"SELECT id, epoch_ FROM {database.table} ORDER BY 1")
    assert found == [(0, 0), (11, 1)]


def test_what_was_upserted_stays_and_comes_again(database: Database) -> None:
    options = {"mode": "upsert", "keyColumns": "id"}
    query = Query(database.writer(**options))
    for epoch in range(3):
        query.commit(epoch, rows(epoch))
    taken = database.reopened(**options)
    taken.bind(type(query.context)(QUERY, "run", 1, 1))
    taken.checkRewind(0)
    taken.rewind(0)
    assert database.ids() == [0, 1, 2]
    after = Query(database.writer(**options), generation=2, timeline=1, logged=0)
    assert after.latest == 0
    after.commit(1, rows(1))
    assert database.ids() == [0, 1, 2]


def test_a_rewind_that_does_not_know_which_rows_is_refused(database: Database) -> None:
    with pytest.raises(ConfigError, match="has no epochColumn"):
        database.writer().checkRewind(0)
    query = Query(database.writer(epochColumn="e"))
    Query(database.writer(epochColumn="e"), query_id="other")
    with pytest.raises(ConfigError, match="1 other query writes"):
        query.sink.checkRewind(0)


def test_a_table_has_one_name_however_options_spell_it(database: Database) -> None:
    full = f"{database.default_schema}.{database.table}"
    own = Query(database.writer(epochColumn="e"))
    other = Query(database.writer(epochColumn="e", table=full), query_id="other")
    assert database.read("SELECT DISTINCT target FROM continuous_epochs") == [(full,)]
    for query in (own, other):
        with pytest.raises(ConfigError, match="1 other query writes"):
            query.sink.checkRewind(0)
    elsewhere = f"{database.default_schema}.other_table"
    database.run(f"UPDATE continuous_epochs SET target = '{elsewhere}' WHERE query_id = 'other'")
    own.sink.checkRewind(0)


def test_notes_of_a_release_that_spelled_tables_as_options_do(database: Database) -> None:
    options = {"epochColumn": "e"}
    query = Query(database.writer(**options))
    query.commit(0, rows(1))
    Query(database.writer(**options), query_id="other")
    database.run(f"UPDATE continuous_epochs SET target = '{database.table}'")
    with pytest.raises(ConfigError, match="1 other query writes"):
        query.sink.checkRewind(0)
    again = Query(database.writer(**options), generation=1, logged=0)
    assert again.latest == 0
    assert database.read(f"SELECT target FROM continuous_epochs WHERE query_id = '{QUERY}'") == [
        (f"{database.default_schema}.{database.table}",)
    ]


@pytest.mark.parametrize("database", ["sink postgres"], indirect=True)
def test_both_sinks_name_a_table_alike(database: Database) -> None:
    """:param database: whose search path finds the table in its second schema."""
    path = f"search_path%3D{database.default_schema}_first%2C{database.default_schema}"
    database.run(f"CREATE SCHEMA {database.default_schema}_first")
    url = database.url.replace(f"search_path%3D{database.default_schema}", path)
    assert url != database.url
    Query(database.writer(), query_id="made")
    plain = Database(url, database.table)
    found = unbound("sqlalchemy", plain.options)._epochs
    libpq = f"-csearch_path={database.default_schema}_first,{database.default_schema}"
    other = database.writer(**{"libpq.options": libpq})._epochs
    assert {found.target, other.target} == {f"{database.default_schema}.{database.table}"}
    for each in (found, other):
        each.forget()
    plain.engine.dispose()


def test_a_table_that_is_gone_is_not_made_anew(database: Database) -> None:
    query = Query(database.writer())
    query.commit(0, rows(1))
    database.run(f"DROP TABLE {database.table}")
    with pytest.raises(ConfigError, match="has no table"):
        Query(database.writer(), generation=1, logged=0)
    query.sink.bind(query.context)
    with pytest.raises(SinkUnavailableError, match="has no table"):
        query.sink.checkLogged(0)


COPIED = Inherited(QUERY, 0)
"""The checkpoint of a query that has prepared nothing: a copy that has epoch 0 of another one."""


def test_a_copy_has_a_table_of_its_own(database: Database) -> None:
    query = Query(database.writer(), query_id="copy", logged=0, inherited=COPIED)
    query.commit(1, rows(2))
    assert database.ids() == [2]
    with pytest.raises(ConfigError, match="has no note of the query"):
        Query(database.writer(), query_id="another", logged=0)


def test_a_copy_goes_on_in_the_same_table_if_there_is_nothing_later(database: Database) -> None:
    source = Query(database.writer())
    source.commit(0, rows(1))
    source.commit(1, rows(2))
    with pytest.raises(SinkAheadError, match=f"epoch 1 of query {QUERY}, .* copy up to epoch 0"):
        Query(database.writer(), query_id="copy", logged=0, inherited=COPIED)
    assert database.ids() == [1, 2]
    database.run(
        f"DELETE FROM {database.table} WHERE id = 2",
        f"DELETE FROM continuous_epochs WHERE query_id = '{QUERY}'",
    )
    query = Query(database.writer(), query_id="copy", logged=0, inherited=COPIED)
    query.commit(1, rows(2))
    assert database.ids() == [1, 2]


def test_what_spark_has_begun_goes_on_in_its_table(database: Database) -> None:
    database.run(f"CREATE TABLE {database.table} (id BIGINT, name TEXT)")
    query = Query(database.writer(), logged=7, inherited=Inherited(None, 7))
    query.commit(8, rows(1))
    assert database.ids() == [1]


@pytest.mark.parametrize("inherited", [None, COPIED])
def test_a_table_that_was_there_is_not_made_anew(
    inherited: Inherited | None, database: Database
) -> None:
    """Before anything is prepared: the query starts in place, in the same process."""
    logged = -1 if inherited is None else 0
    query = Query(database.writer(), logged=logged, inherited=inherited)
    database.run(f"DROP TABLE {database.table}")
    query.sink.bind(query.context)
    with pytest.raises(SinkUnavailableError, match=r"has no table .* any more"):
        query.sink.checkLogged(logged)


def test_a_database_that_knows_nothing_of_the_query_is_refused(database: Database) -> None:
    query = Query(database.writer())
    query.commit(0, rows(1))
    database.run(f"DELETE FROM continuous_epochs WHERE query_id = '{QUERY}'")
    with pytest.raises(ConfigError, match="has no note of the query"):
        Query(database.writer(), generation=1, logged=0)
    with pytest.raises(ConfigError, match=rf"has no row of query {QUERY} in .*continuous_epochs"):
        query.commit(1, rows(2))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"mode": "merge"}, "one of append, upsert"),
        ({"mode": "upsert"}, "needs the option keyColumns"),
        ({"keyColumns": "id"}, "no effect in mode append"),
        ({"mode": "upsert", "keyColumns": "nope"}, "'nope', which is no column"),
        ({"mode": "upsert", "keyColumns": "id", "deleteColumn": "name"}, "must be BOOLEAN"),
        ({"mode": "upsert", "keyColumns": "id", "epochColumn": "e"}, "no effect in mode upsert"),
        ({"epochColumn": "id"}, "has a column 'id'"),
        ({"tabel": "x"}, "Did you mean table"),
        ({"table": " "}, "needs the option table"),
    ],
)
def test_options_that_are_wrong_are_refused(
    database: Database, options: dict[str, str], says: str
) -> None:
    with pytest.raises(ConfigError, match=says):
        database.writer(**options)
