"""NON UNIQUE PRIMARY KEY (): tables whose rows are distinguished only by the store's own numbers."""

from __future__ import annotations

from collections import Counter

import nyala
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nyala.errors import InvalidTableDefinition, SqlSyntaxError

CREATE = "CREATE TABLE t (x DOUBLE, flag BOOLEAN, NON UNIQUE PRIMARY KEY ())"
VALUES = st.sampled_from([None, 0.0, 1.5, -2.0])
ACTIONS = st.one_of(
    st.tuples(st.just("insert"), st.lists(VALUES, min_size=1, max_size=4)),
    st.tuples(st.just("load"), st.lists(VALUES, min_size=1, max_size=4)),
    st.tuples(st.just("double"), VALUES),
    st.tuples(st.just("delete"), VALUES),
    st.tuples(st.sampled_from(["compact", "reopen"]), st.none()),
)


@given(st.lists(ACTIONS, max_size=8))
def test_it_holds_a_bag_of_rows(tmp_path_factory: pytest.TempPathFactory, actions: list) -> None:
    path = tmp_path_factory.mktemp("bag")
    connection = nyala.connect(path, durability="os", threads=1)
    connection.execute(CREATE)
    expected: Counter = Counter()
    for action, value in actions:
        if action == "insert":
            connection.executemany("INSERT INTO t (x) VALUES (?)", [[x] for x in value])
            expected.update(value)
        elif action == "load":
            connection.load("t", pa.table({"x": pa.array(value, pa.float64())}))
            expected.update(value)
        elif action == "double":
            changed = connection.execute("UPDATE t SET x = x * 2 WHERE x = ?", [value]).rowcount
            assert changed == (expected[value] if value is not None else 0)
            if changed:
                expected[value * 2] += expected.pop(value) if value else 0
        elif action == "delete":
            connection.execute("DELETE FROM t WHERE x IS NOT DISTINCT FROM ?", [value])
            expected.pop(value, None)
        elif action == "compact":
            connection.execute("COMPACT TABLE t")
        else:
            connection.close()
            connection = nyala.connect(path, durability="os", threads=1)
    assert Counter(x for (x,) in connection.execute("SELECT x FROM t").fetchall()) == +expected
    numbers = connection.execute("SELECT count(DISTINCT auto_incrementing_id), count(*) FROM t").fetchone()
    assert numbers[0] == numbers[1]
    connection.close()


def test_what_is_written_of_it(connection):
    connection.execute(CREATE)
    text = connection.execute("SHOW CREATE TABLE t").fetchone()[0]
    assert text.splitlines()[-2] == "  NON UNIQUE PRIMARY KEY ()"
    connection.execute("DROP TABLE t")
    connection.execute(text)
    connection.execute("INSERT INTO t VALUES (1, true), (1, true)")
    connection.execute("CREATE TABLE u (NON UNIQUE PRIMARY KEY ()) AS SELECT x FROM t")
    assert connection.execute("SELECT * FROM u").fetchall() == [(1.0,), (1.0,)]
    assert connection.execute("SHOW PARTITIONS t").fetchall() == [(0,)]


@pytest.mark.parametrize(
    ("statement", "error", "message"),
    [
        ("CREATE TABLE t (x DOUBLE, PRIMARY KEY ())", SqlSyntaxError, "a name expected"),
        ("CREATE TABLE t (x DOUBLE)", InvalidTableDefinition, "PRIMARY KEY of at least one column"),
        ("CREATE TABLE t AS SELECT 1 AS x", InvalidTableDefinition, "needs a key"),
        (
            "CREATE TABLE t (x INT, NON UNIQUE PRIMARY KEY ()) DISTRIBUTE BY HASH (x) INTO 2 BUCKETS",
            InvalidTableDefinition,
            "only key columns can partition",
        ),
        (
            "CREATE TABLE t (x INT, NON UNIQUE PRIMARY KEY ()) DISTRIBUTE BY HASH INTO 2 BUCKETS",
            InvalidTableDefinition,
            "HASH needs at least one column",
        ),
    ],
)
def test_what_is_refused(connection, statement, error, message):
    with pytest.raises(error, match=message):
        connection.execute(statement)


@pytest.mark.parametrize("pattern", ["'%' || ? || '%'", "?", "'%' || NULL || ?"])
def test_a_pattern_joined_of_constants_may_have_an_escape(connection, pattern):
    """As SQLAlchemy writes contains(..., autoescape=True)."""
    connection.execute("CREATE TABLE names (name STRING PRIMARY KEY)")
    connection.execute("INSERT INTO names VALUES ('50%'), ('500'), ('5%0')")
    query = f"SELECT name FROM names WHERE name LIKE {pattern} ESCAPE '#' ORDER BY name"
    expected = {"?": ["50%"], "'%' || ? || '%'": ["50%"]}.get(pattern, [])
    for _ in range(2):
        assert [name for (name,) in connection.execute(query, ["50#%"]).fetchall()] == expected
    if expected:
        assert connection.execute(query, ["5##0"]).fetchall() == []
