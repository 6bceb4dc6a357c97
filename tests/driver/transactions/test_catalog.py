"""Changes of the catalog in transactions: histories of interleaved sessions, every kind of store."""

from __future__ import annotations

from pathlib import Path

import nyala
import pyarrow as pa
import pytest
from interleaved_sessions import play
from nyala.errors import NotSupportedError, SerializationFailure, UnknownTable

pytestmark = pytest.mark.embedded_only("changes the catalog inside transactions, which other stores refuse")
SCRIPTS = sorted((Path(__file__).parent / "catalog").glob("*.txt"))


@pytest.mark.parametrize("path", SCRIPTS, ids=[path.stem for path in SCRIPTS])
def test_a_history_has_the_approved_outcome(golden, path):
    golden(path, play)


@pytest.fixture(params=["memory", "directory"])
def connection(request, tmp_path):
    target = ":memory:" if request.param == "memory" else tmp_path / "s"
    with nyala.connect(target) as found:
        found.execute("CREATE TABLE t (k INT PRIMARY KEY, v INT) DISTRIBUTE BY HASH (k) INTO 2 BUCKETS")
        found.execute("INSERT INTO t VALUES (1, 10), (2, 20)")
        yield found


def rows(connection, text):
    return connection.execute(text).fetchall()


def test_loads_and_tables_without_sql_go_into_new_tables(connection):
    with connection.duplicate() as other, connection.transaction():
        connection.execute("CREATE TABLE n (k BIGINT PRIMARY KEY, v STRING)")
        assert connection.load("n", pa.table({"k": range(1000), "v": [str(k) for k in range(1000)]})) == 1000
        handle = connection.table("n")
        handle.insert([(2000, "x")])
        connection.execute("ALTER TABLE n ADD COLUMN w INT DEFAULT 3")
        handle.upsert([(2001, "y")])  # by the columns that the table had
        assert connection.table("n").get(2001) == {"k": 2001, "v": "y", "w": 3}
        with connection.new_session() as session:
            session.insert("n", {"k": 3000, "v": "z", "w": 4})
        with pytest.raises(UnknownTable):
            other.table("n")
    assert rows(connection, "SELECT count(*), min(w), max(w) FROM n") == [(1003, 3, 4)]


def test_plans_of_other_sessions_and_of_later_transactions_follow_the_catalog(connection):
    select, insert = "SELECT * FROM t WHERE k = ?", "INSERT INTO t VALUES (?, ?)"
    with connection.duplicate() as other:
        for session in (connection, other, connection, other):
            assert session.execute(select, [1]).fetchall() == [(1, 10)]
        connection.begin()
        connection.execute("ALTER TABLE t ADD COLUMN w INT DEFAULT 5")
        for _ in range(3):
            assert connection.execute(select, [1]).fetchall() == [(1, 10, 5)]
            assert other.execute(select, [1]).fetchall() == [(1, 10)]
        connection.rollback()
        assert connection.execute(select, [1]).fetchall() == [(1, 10)]
        connection.begin()
        connection.execute("DROP TABLE t")
        with pytest.raises(UnknownTable):
            connection.execute(select, [1])
        connection.execute("CREATE TABLE t (k STRING PRIMARY KEY, v STRING)")
        connection.execute(insert, ["1", "one"])
        assert connection.execute(select, ["1"]).fetchall() == [("1", "one")]
        connection.commit()
        assert other.execute(select, ["1"]).fetchall() == [("1", "one")]


def test_open_cursors_keep_their_rows(connection):
    with connection.duplicate() as other:
        connection.executemany("INSERT INTO t VALUES (?, ?)", [(k, k) for k in range(10, 5000)])
        cursors = [session.execute("SELECT k FROM t") for session in (connection, other)]
        first = [cursor.fetchone() for cursor in cursors]
        connection.begin()
        connection.execute("ALTER TABLE t RENAME COLUMN v TO x")
        cursors.append(connection.execute("SELECT k, x FROM t"))
        connection.execute("DROP TABLE t")
        connection.commit()
        assert all(first)
        assert [len(cursor.fetchall()) for cursor in cursors] == [4991, 4991, 4992]


def test_hidden_keys_of_new_and_altered_tables_are_numbered(connection):
    connection.execute("CREATE TABLE h (k INT, NON UNIQUE PRIMARY KEY (k))")
    connection.execute("INSERT INTO h VALUES (1), (1)")
    with connection.transaction():
        connection.execute("CREATE TABLE n (k INT, v INT, NON UNIQUE PRIMARY KEY (k))")
        connection.execute("INSERT INTO n VALUES (1, 1), (1, 2)")
        connection.execute("ALTER TABLE h ADD COLUMN v INT")
        connection.execute("INSERT INTO h VALUES (1, 3)")
    connection.execute("INSERT INTO n VALUES (1, 3)")
    connection.execute("INSERT INTO h VALUES (1, 4)")
    assert rows(connection, "SELECT v FROM n ORDER BY v") == [(1,), (2,), (3,)]
    assert sorted(rows(connection, "SELECT v FROM h"), key=str) == [(3,), (4,), (None,), (None,)]


def test_listings_show_the_tables_of_the_transaction(connection):
    with connection.transaction():
        connection.execute("CREATE TABLE n (k INT PRIMARY KEY) DISTRIBUTE BY HASH (k) INTO 3 BUCKETS")
        connection.execute("INSERT INTO n VALUES (1), (2)")
        connection.execute("ALTER TABLE t ADD COLUMN w INT")
        assert len(rows(connection, "SHOW PARTITIONS n")) == 3
        assert "w INT" in rows(connection, "SHOW CREATE TABLE t")[0][-1]
        assert [row[0] for row in rows(connection, "DESCRIBE t")] == ["k", "v", "w"]
        for table in ("n", "t"):
            assert rows(connection, f"SHOW STATS {table}") is not None
            assert connection.execute(f"EXPLAIN ANALYZE SELECT * FROM {table}").fetchall()
        columns = "SELECT table_name, column_name FROM information_schema.columns ORDER BY 1, ordinal_position"
        assert rows(connection, columns) == [("n", "k"), ("t", "k"), ("t", "v"), ("t", "w")]


def test_a_conflict_over_the_catalog_is_retried(connection):
    with connection.duplicate() as other:
        attempts = []

        def migrate(inside):
            attempts.append(1)
            inside.execute("ALTER TABLE t ADD COLUMN w INT")
            if len(attempts) == 1:
                other.execute("ALTER TABLE t ADD COLUMN u INT")

        connection.run(migrate)
        assert len(attempts) == 2
        assert [row[0] for row in rows(connection, "DESCRIBE t")] == ["k", "v", "u", "w"]


def test_the_past_of_altered_tables_is_read(connection):
    before = connection.now()
    connection.execute("UPDATE t SET v = 11 WHERE k = 1")
    with connection.transaction():
        connection.execute("ALTER TABLE t ADD COLUMN w INT DEFAULT 7")
        connection.execute("ALTER TABLE t RENAME COLUMN v TO x")
        connection.execute("UPDATE t SET x = 12, w = 8 WHERE k = 1")
        past = f"SELECT * FROM t FOR SYSTEM_TIME AS OF {before} ORDER BY k"
        assert rows(connection, past) == [(1, 10, 7), (2, 20, 7)]
        assert rows(connection, "SELECT * FROM t WHERE w = 7") == [(2, 20, 7)]
        assert rows(connection, "SELECT * FROM t WHERE w > 7 ORDER BY k DESC LIMIT 1") == [(1, 12, 8)]
    assert rows(connection, "SELECT * FROM t ORDER BY k") == [(1, 12, 8), (2, 20, 7)]


def test_a_table_that_was_dropped_since_begin_is_a_conflict(connection):
    with connection.duplicate() as other:
        connection.begin()
        other.execute("DROP TABLE t")
        with pytest.raises(SerializationFailure, match="table t was dropped by another transaction"):
            connection.execute("SELECT * FROM t WHERE k = 1")
        connection.rollback()
        with pytest.raises(UnknownTable):
            connection.execute("SELECT * FROM t")


def test_other_processes_clients_are_told_what_to_do(tmp_path):
    from nyala.cluster.client.client import Client

    with nyala.connect(tmp_path / "s") as owner:
        address = owner.serve()
        with nyala.connect(address) as client:
            assert isinstance(client.store, Client) and not client.transactional_ddl and owner.transactional_ddl
            client.execute("CREATE TABLE t (k INT PRIMARY KEY)")
            client.begin()
            client.execute("INSERT INTO t VALUES (1)")
            for text in ("CREATE TABLE u (k INT PRIMARY KEY)", "DROP TABLE t", "CREATE VIEW v AS SELECT 1 AS a"):
                with pytest.raises(NotSupportedError, match="another process serves; COMMIT or ROLLBACK first"):
                    client.execute(text)
            client.commit()
            owner.begin()
            owner.execute("ALTER TABLE t ADD COLUMN v INT DEFAULT 5")
            owner.execute("INSERT INTO t VALUES (2, 6)")
            assert rows(client, "SELECT * FROM t") == [(1,)]
            owner.commit()
            client.store.refresh_catalog()
            assert rows(client, "SELECT * FROM t ORDER BY k") == [(1, 5), (2, 6)]
