"""FOR SYSTEM_TIME beside a list of all states, in memory, in a directory and after flushes and compactions."""

from __future__ import annotations

import datetime

import nyala
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

OPERATIONS = st.one_of(
    st.tuples(st.just("upsert"), st.integers(1, 6), st.integers(0, 9)),
    st.tuples(st.just("delete"), st.integers(1, 6), st.just(0)),
    st.tuples(st.sampled_from(["flush", "compact"]), st.just(0), st.just(0)),
)


def rows(connection, text, parameters=None):
    return connection.execute(text, parameters).fetchall()


class History:
    """A table and, beside it, the dictionary that it should be, at every moment."""

    def __init__(self, connection):
        self.connection = connection
        connection.execute("CREATE TABLE t (k INT PRIMARY KEY, v INT) DISTRIBUTE BY HASH (k) INTO 2 BUCKETS")
        self.moments = [(connection.store.now(), {})]

    def apply(self, op, key, value):
        state = dict(self.moments[-1][1])
        if op == "upsert":
            self.connection.execute("UPSERT INTO t VALUES (?, ?)", (key, value))
            state[key] = value
        elif op == "delete":
            self.connection.execute("DELETE FROM t WHERE k = ?", (key,))
            state.pop(key, None)
        elif op == "flush":
            self.connection.store.flush()
        else:
            self.connection.execute("COMPACT TABLE t")
        self.moments.append((self.connection.store.now(), state))

    def check(self, since, until):
        (a, before), (b, after) = self.moments[since], self.moments[until]
        c = self.connection
        assert rows(c, "SELECT k, v FROM t FOR SYSTEM_TIME AS OF ? ORDER BY k", (a,)) == sorted(before.items())
        joined = rows(
            c,
            "SELECT k, x.v, y.v FROM t FOR SYSTEM_TIME AS OF ? x FULL JOIN t FOR SYSTEM_TIME AS OF ? y USING (k) "
            "ORDER BY k",
            (a, b),
        )
        assert joined == [(k, before.get(k), after.get(k)) for k in sorted({*before, *after})]
        net = rows(c, "SELECT k, v, _change FROM t FOR SYSTEM_TIME FROM ? TO ? ORDER BY k", (a, b))
        found = dict(before)
        for key, value, change in net:
            assert (change == "insert") == (key not in before)
            assert (change == "delete") == (key not in after)
            found.pop(key, None) if change == "delete" else found.update({key: value})
        assert found == after
        found = dict(before)
        text = "SELECT * FROM t FOR SYSTEM_TIME BETWEEN ? AND ? ORDER BY _changed_at, k"
        for key, value, change, changed_at in rows(c, text, (a, b)):
            assert a < changed_at <= b
            found.pop(key) if change == "delete" else found.update({key: value})
        assert found == after


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(OPERATIONS, min_size=1, max_size=10), st.data())
def test_every_state_and_every_difference(operations, data):
    with nyala.connect(":memory:", threads=1) as connection:
        history = History(connection)
        for operation in operations:
            history.apply(*operation)
        since = data.draw(st.integers(0, len(operations)))
        history.check(since, data.draw(st.integers(since, len(operations))))


def test_the_past_outlives_the_process(tmp_path):
    with nyala.connect(tmp_path / "store") as connection:
        history = History(connection)
        for key in range(1, 5):
            history.apply("upsert", key, key)
        history.apply("flush", 0, 0)
        history.apply("upsert", 2, 20)
        history.apply("delete", 3, 0)
    with nyala.connect(tmp_path / "store") as connection:
        history.connection = connection
        history.apply("upsert", 3, 30)
        for since in range(len(history.moments)):
            history.check(since, len(history.moments) - 1)


@pytest.fixture
def table(connection):
    connection.execute("CREATE TABLE t (k INT PRIMARY KEY, v STRING)")
    connection.execute("INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    return connection


def test_times_are_written_in_many_ways(table):
    ((before,),) = rows(table, "SELECT now()")
    hybrid = table.store.now()
    table.execute("DELETE FROM t WHERE k > 1")
    assert rows(table, "SELECT count(*) FROM t") == [(1,)]
    count = "SELECT count(*) FROM t FOR SYSTEM_TIME AS OF "
    assert rows(table, f"{count} ?", (before,)) == [(3,)]
    assert rows(table, f"{count} :then", {"then": str(before)}) == [(3,)]
    assert rows(table, f"{count} TIMESTAMP '{before}'") == [(3,)]
    assert rows(table, f"{count} {hybrid}") == [(3,)]
    assert rows(table, f"{count} now()") == [(1,)]
    assert rows(table, f"{count} CURRENT_TIMESTAMP - INTERVAL '1' DAY") == [(0,)]
    with pytest.raises(nyala.DataError, match=r"future(.|\n)* \^"):
        table.execute(f"{count} ?", (before + datetime.timedelta(days=1),))


def test_now_sees_all_that_was_written(connection):
    connection.execute("CREATE TABLE t (k INT PRIMARY KEY)")
    for k in range(200):
        connection.execute("INSERT INTO t VALUES (?)", (k,))
        assert rows(connection, "SELECT count(*) FROM t FOR SYSTEM_TIME AS OF now()") == [(k + 1,)]


def test_rows_are_brought_back(table):
    then = table.store.now()
    table.execute("UPDATE t SET v = 'lost'")
    table.execute("DELETE FROM t WHERE k = 2")
    table.execute("UPSERT INTO t SELECT * FROM t FOR SYSTEM_TIME AS OF ?", (then,))
    assert rows(table, "SELECT * FROM t ORDER BY k") == [(1, "a"), (2, "b"), (3, "c")]


def test_predicates_and_limits_on_changes(table):
    start = table.store.now()
    for k in (3, 1, 3):
        table.execute("UPDATE t SET v = v || '!' WHERE k = ?", (k,))
    table.execute("DELETE FROM t WHERE k = 1")
    changes = "FROM t FOR SYSTEM_TIME BETWEEN ? AND now()"
    assert rows(table, f"SELECT k, v {changes} WHERE _change = 'update' AND k > 1 ORDER BY _changed_at", (start,)) == [
        (3, "c!"),
        (3, "c!!"),
    ]
    assert rows(table, f"SELECT k, count(*) {changes} GROUP BY k ORDER BY k", (start,)) == [(1, 2), (3, 2)]
    assert rows(table, f"SELECT DISTINCT k {changes} ORDER BY k", (start,)) == [(1,), (3,)]
    # The key is not unique among changes: no plan may think so.
    assert rows(
        table, f"SELECT k, max(_changed_at) IS NOT NULL, v {changes} GROUP BY k, v ORDER BY k, v", (start,)
    ) == [
        (1, True, "a!"),
        (3, True, "c!"),
        (3, True, "c!!"),
    ]
    newest = f"SELECT k, _change {changes} ORDER BY _changed_at DESC LIMIT 1"
    assert rows(table, newest, (start,)) == [(1, "delete")]
    assert rows(table, f"SELECT k {changes} ORDER BY k, _change LIMIT 2", (start,)) == [(1,), (1,)]
    assert rows(table, f"SELECT t.k FROM t JOIN (SELECT DISTINCT k {changes}) c ON c.k = t.k", (start,)) == [(3,)]


def test_changes_of_a_table_whose_key_is_not_unique(connection):
    connection.execute("CREATE TABLE log (host STRING, n INT, NON UNIQUE PRIMARY KEY (host))")
    connection.execute("INSERT INTO log VALUES ('a', 1), ('a', 2)")
    start = connection.store.now()
    connection.execute("DELETE FROM log WHERE n = 1")
    connection.execute("UPDATE log SET n = 3")
    text = "SELECT host, n, _change FROM log FOR SYSTEM_TIME {} ORDER BY n"
    for words in ("BETWEEN ? AND now()", "FROM ? TO now()"):
        assert rows(connection, text.format(words), (start,)) == [("a", 1, "delete"), ("a", 3, "update")]
        star = rows(connection, text.format(words).replace("host, n, _change", "*"), (start,))
        assert [len(row) for row in star] == [4, 4]


def test_the_past_is_shown_in_todays_columns(table):
    then = table.store.now()
    table.execute("ALTER TABLE t ADD COLUMN n INT DEFAULT 4, DROP COLUMN v, RENAME COLUMN k TO key")
    table.execute("DELETE FROM t WHERE key = 1")
    assert rows(table, "SELECT * FROM t FOR SYSTEM_TIME AS OF ? ORDER BY key", (then,)) == [(1, 4), (2, 4), (3, 4)]


def test_history_that_is_gone_is_an_error_with_its_place(tmp_path):
    with nyala.connect(tmp_path / "store", history_seconds=0) as connection:
        connection.execute("CREATE TABLE t (k INT PRIMARY KEY, v INT)")
        connection.execute("INSERT INTO t VALUES (1, 1)")
        connection.store.flush()
        then = connection.store.now()
        connection.execute("UPDATE t SET v = 2")
        connection.execute("COMPACT TABLE t")
        with pytest.raises(nyala.OperationalError, match=r"history is kept only since(.|\n)*LINE 1(.|\n)*\^\^\^"):
            rows(connection, f"SELECT * FROM t FOR SYSTEM_TIME AS OF {then}")
        assert rows(connection, "SELECT v FROM t") == [(2,)]


def test_a_store_remembers_how_long_it_keeps_the_past(tmp_path):
    def shown(connection):
        return int(connection.execute("SHOW history_seconds").fetchone()[0])

    path = tmp_path / "store"
    with nyala.connect(path) as connection:
        assert shown(connection) == 7 * 24 * 3600
        connection.execute("CREATE TABLE t (k INT PRIMARY KEY, v INT)")
    for seconds in (0, 3600, 7 * 24 * 3600):
        with nyala.connect(path, history_seconds=seconds) as one, nyala.connect(path) as other:
            assert (shown(one), shown(other)) == (seconds, seconds)
            with pytest.raises(nyala.InterfaceError, match="is open in this process with"):
                nyala.connect(path, history_seconds=5)
            one.execute(f"CREATE TABLE t{seconds} (k INT PRIMARY KEY)")
        with nyala.connect(path) as connection:
            assert shown(connection) == seconds
            with nyala.connect(path, history_seconds=seconds) as other:
                assert shown(other) == seconds
    with nyala.connect(path, history_seconds=0) as connection:
        connection.execute("INSERT INTO t VALUES (1, 1)")
        connection.store.flush()
        then = connection.store.now()
    with nyala.connect(path) as connection:
        connection.execute("UPDATE t SET v = 2")
        connection.execute("COMPACT TABLE t")
        with pytest.raises(nyala.OperationalError, match="history is kept only since"):
            rows(connection, f"SELECT * FROM t FOR SYSTEM_TIME AS OF {then}")


def test_explain_tells_the_time(table):
    text = "\n".join(
        line for (line,) in rows(table, "EXPLAIN SELECT k FROM t FOR SYSTEM_TIME BETWEEN 0 AND now() WHERE v = 'a'")
    )
    assert "all changes after 1970-01-01 00:00:00.000000 UTC up to" in text


def test_now_is_a_moment_to_come_back_to(tmp_path):
    with nyala.connect(tmp_path / "store") as connection:
        connection.execute("CREATE TABLE t (k INT PRIMARY KEY)")
        connection.execute("INSERT INTO t VALUES (1)")
    with nyala.connect(tmp_path / "store") as connection:
        assert connection.last_timestamp is None
        with pytest.raises(nyala.ProgrammingError, match=r"last_timestamp .* None .* connection\.now\(\)"):
            connection.execute("SELECT * FROM t FOR SYSTEM_TIME AS OF ?", [connection.last_timestamp])
        before = connection.now()
        connection.execute("INSERT INTO t VALUES (2)")
        found = connection.execute("SELECT * FROM t FOR SYSTEM_TIME AS OF ?", [before]).fetchall()
        with connection.at(before) as past:
            assert found == past.execute("SELECT * FROM t").fetchall() == [(1,)]
