"""ALTER TABLE, the keys and attributes of CREATE TABLE, CREATE TABLE AS, TRUNCATE, SHOW: in memory and reopened."""

from __future__ import annotations

import string
from typing import Any

import nyala
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st


@pytest.fixture(params=["memory", "directory"])
def reopen(request, tmp_path):
    """A function that gives the connection; with a directory, closed and opened again each time."""
    open_ones: list[Any] = []

    def connect():
        if request.param == "memory":
            if not open_ones:
                open_ones.append(nyala.connect(":memory:", threads=2))
        else:
            for connection in open_ones:
                connection.close()
            open_ones[:] = [nyala.connect(tmp_path / "store", threads=2)]
        return open_ones[0]

    yield connect
    for connection in open_ones:
        connection.close()


def rows(connection, text, parameters=None):
    return connection.execute(text, parameters).fetchall()


# ---- ALTER TABLE -----------------------------------------------------------------------------------------------------


def test_one_statement_changes_much_at_once(reopen):
    c = reopen()
    c.execute("CREATE TABLE t (k INT PRIMARY KEY, a STRING, b DOUBLE)")
    c.execute("INSERT INTO t VALUES (1, 'x', 1.5), (2, NULL, 2.5)")
    c.execute(
        "ALTER TABLE t ADD COLUMN n INT NOT NULL DEFAULT 7, ADD COLUMN IF NOT EXISTS a INT, DROP COLUMN b, "
        "DROP COLUMN IF EXISTS b, RENAME COLUMN a TO label, ALTER COLUMN n SET DEFAULT 9, RENAME TO u, COMMENT 'both'"
    )
    c = reopen()
    assert rows(c, "SHOW TABLES") == [("u", "table")]
    c.execute("INSERT INTO u (k) VALUES (3)")
    assert rows(c, "SELECT * FROM u ORDER BY k") == [(1, "x", 7), (2, None, 7), (3, None, 9)]
    assert "COMMENT 'both'" in rows(c, "SHOW CREATE TABLE u")[0][0]


def test_a_dropped_column_does_not_come_back_with_its_name(reopen):
    c = reopen()
    c.execute("CREATE TABLE t (k INT PRIMARY KEY, a STRING)")
    c.execute("INSERT INTO t VALUES (1, 'old')")
    c.execute("ALTER TABLE t DROP COLUMN a, ADD COLUMN a INT DEFAULT 5")
    c = reopen()
    assert rows(c, "SELECT k, a FROM t") == [(1, 5)]


def test_an_action_that_cannot_be_leaves_all_as_it_was(reopen):
    c = reopen()
    c.execute("CREATE TABLE t (k INT PRIMARY KEY, a STRING)")
    before = rows(c, "SHOW CREATE TABLE t")
    with pytest.raises(nyala.ProgrammingError, match=r"column nope does not exist(.|\n)*\^\^\^\^"):
        c.execute("ALTER TABLE t ADD COLUMN b INT, DROP COLUMN nope")
    with pytest.raises(nyala.ProgrammingError, match="part of the primary key"):
        c.execute("ALTER TABLE t RENAME TO u, DROP COLUMN k")
    c = reopen()
    assert rows(c, "SHOW CREATE TABLE t") == before


def test_range_partitions_come_and_go(reopen):
    c = reopen()
    c.execute("CREATE TABLE t (d DATE PRIMARY KEY, v INT) DISTRIBUTE BY RANGE (d) (PARTITION VALUES < '2025-01-01')")
    with pytest.raises(nyala.IntegrityError):
        c.execute("INSERT INTO t VALUES ('2025-06-01', 1)")
    c.execute(
        "ALTER TABLE t ADD PARTITION '2025-01-01' <= VALUES < '2026-01-01', ADD RANGE PARTITION VALUE = '2026-01-01'"
    )
    c.execute("INSERT INTO t VALUES ('2024-06-01', 0), ('2025-06-01', 1), ('2026-01-01', 2)")
    with pytest.raises(nyala.IntegrityError):
        c.execute("INSERT INTO t VALUES ('2026-01-02', 3)")
    c = reopen()
    assert rows(c, "SHOW PARTITIONS t") == [
        (0, "PARTITION VALUES < '2025-01-01'"),
        (1, "PARTITION '2025-01-01' <= VALUES < '2026-01-01'"),
        (2, "PARTITION VALUE = '2026-01-01'"),
    ]
    c.execute("ALTER TABLE t DROP PARTITION VALUES < '2025-01-01', DROP PARTITION VALUE = '2026-01-01'")
    assert rows(c, "SELECT v FROM t") == [(1,)]
    c.execute("ALTER TABLE t DROP PARTITION '2025-01-01' <= VALUES < '2026-01-01'")
    assert rows(c, "SHOW PARTITIONS t") == rows(c, "SELECT * FROM t") == []
    ((written,),) = rows(c, "SHOW CREATE TABLE t")
    c.execute("DROP TABLE t")
    c.execute(written)
    assert rows(c, "SHOW CREATE TABLE t") == [(written,)]


def test_a_plan_of_before_does_not_read_the_table_of_after(reopen):
    c = reopen()
    c.execute("CREATE TABLE t (k INT PRIMARY KEY, a INT, b INT)")
    c.execute("INSERT INTO t VALUES (1, 10, 20)")
    assert rows(c, "SELECT a FROM t WHERE k = ?", (1,)) == [(10,)]
    c.execute("ALTER TABLE t RENAME a TO old, RENAME b TO a")
    assert rows(c, "SELECT a FROM t WHERE k = ?", (1,)) == [(20,)]


# ---- keys and attributes ---------------------------------------------------------------------------------------------


def test_a_key_that_is_not_unique(reopen):
    c = reopen()
    c.execute(
        "CREATE TABLE log (host STRING, ts TIMESTAMP, line STRING, NON UNIQUE PRIMARY KEY (host, ts)) "
        "DISTRIBUTE BY HASH (host) INTO 2 BUCKETS STORED AS KUDU TBLPROPERTIES ('kudu.num_tablet_replicas' = '1')"
    )
    for line in ("one", "two", "three"):
        c.execute("INSERT INTO log VALUES ('n1', '2026-01-01', ?)", (line,))
    c = reopen()
    c.execute("INSERT INTO log SELECT * FROM log WHERE line = 'two'")
    assert rows(c, "SELECT * FROM log WHERE line = 'one'")[0][0] == "n1"
    numbers = rows(c, "SELECT auto_incrementing_id, line FROM log ORDER BY auto_incrementing_id")
    assert [line for _, line in numbers] == ["one", "two", "three", "two"]
    assert len({number for number, _ in numbers}) == 4
    c.execute("DELETE FROM log WHERE line = 'two'")
    c.execute("UPDATE log SET line = line || '!'")
    assert sorted(rows(c, "SELECT line FROM log")) == [("one!",), ("three!",)]
    described = {line[0]: line for line in rows(c, "DESCRIBE log")}
    assert described["auto_incrementing_id"][3] and described["auto_incrementing_id"][9]


def test_a_file_without_header_does_not_give_the_hidden_column(tmp_path, connection):
    (tmp_path / "log.csv").write_text("n1,a\nn1,b\n")
    connection.execute("CREATE TABLE log (host STRING, line STRING, NON UNIQUE PRIMARY KEY (host))")
    connection.execute(f"COPY log FROM '{tmp_path}/log.csv' (HEADER false)")
    assert sorted(rows(connection, "SELECT * FROM log")) == [("n1", "a"), ("n1", "b")]


def test_an_immutable_column_keeps_its_value(reopen):
    c = reopen()
    c.execute("CREATE TABLE t (k INT PRIMARY KEY, born DATE IMMUTABLE, v INT BLOCK_SIZE 4096)")
    c.execute("INSERT INTO t VALUES (1, '2026-01-01', 1)")
    c = reopen()
    with pytest.raises(nyala.IntegrityError, match="IMMUTABLE"):
        c.execute("UPSERT INTO t VALUES (1, '2026-02-02', 2)")
    c.execute("UPSERT INTO t (k, v) VALUES (1, 3)")
    assert rows(c, "SELECT CAST(born AS STRING), v FROM t") == [("2026-01-01", 3)]
    described = {line[0]: line for line in rows(c, "DESCRIBE t")}
    assert described["born"][8] and described["v"][7] == 4096


# ---- CREATE TABLE AS, TRUNCATE ---------------------------------------------------------------------------------------


def test_a_table_made_of_a_query(reopen):
    c = reopen()
    c.execute("CREATE TABLE t (k INT PRIMARY KEY, s STRING, v DECIMAL(9, 2) NOT NULL)")
    c.execute("INSERT INTO t VALUES (1, 'a', 1.5), (2, 'b', 2.5), (3, 'a', 3.5)")
    made = c.execute(
        "CREATE TABLE u (PRIMARY KEY (s)) DISTRIBUTE BY HASH (s) INTO 2 BUCKETS COMMENT 'sums' AS "
        "SELECT sum(v) AS total, s, max(v) AS most FROM t GROUP BY s"
    )
    assert made.rowcount == 2
    assert c.execute("CREATE TABLE IF NOT EXISTS u (PRIMARY KEY (k)) AS SELECT k FROM t").rowcount == 0
    c = reopen()
    assert [line[:4] for line in rows(c, "DESCRIBE u")] == [
        ("s", "STRING", False, True),
        ("total", "DECIMAL(38,2)", False, False),
        ("most", "DECIMAL(9,2)", False, False),
    ]
    assert [(s, float(t), float(m)) for s, t, m in rows(c, "SELECT * FROM u ORDER BY s")] == [
        ("a", 5.0, 3.5),
        ("b", 2.5, 2.5),
    ]


@pytest.mark.parametrize(
    "query", ["SELECT s FROM t", "SELECT nullif(s, 'b') AS s FROM t WHERE k > 1", "SELECT 1 / (k - 1) AS s FROM t"]
)
def test_a_table_whose_rows_cannot_be_does_not_stay(reopen, query):
    c = reopen()
    c.execute("CREATE TABLE t (k INT PRIMARY KEY, s STRING)")
    c.execute("INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'a')")
    with pytest.raises(nyala.DatabaseError):
        c.execute(f"CREATE TABLE u (PRIMARY KEY (s)) AS {query}")
    c = reopen()
    assert rows(c, "SHOW TABLES") == [("t", "table")]


def test_truncate_leaves_the_table_and_its_past(reopen):
    c = reopen()
    c.execute("CREATE TABLE t (k INT PRIMARY KEY)")
    c.execute("INSERT INTO t VALUES (1), (2)")
    full = c.store.now()
    assert c.execute("TRUNCATE TABLE t").rowcount == 2
    c = reopen()
    assert rows(c, "SELECT count(*) FROM t") == [(0,)]
    assert rows(c, "SELECT count(*) FROM t FOR SYSTEM_TIME AS OF ?", (full,)) == [(2,)]


# ---- SHOW CREATE TABLE -----------------------------------------------------------------------------------------------

NAMES = st.one_of(
    st.sampled_from(
        ["k", "select", "order", "value", "range", "hash", "Mixed", 'a "b"', "non", "check", "date", "1st"]
    ),
    st.text(string.ascii_letters + '_"é ', min_size=1, max_size=6),
)
TYPES = {
    "INT": ["-5", "NULL"],
    "STRING": ["'it''s'", "''"],
    "DECIMAL(9,2)": ["-1.50"],
    "DATE": ["'2026-02-28'"],
    "TIMESTAMP": ["'2026-02-28 10:11:12.5'"],
    "BINARY": ["x'00ff'"],
}
PLAIN_TYPES = {
    "BOOLEAN": ["TRUE"],
    "DOUBLE": ["-1e300", "CAST('NaN' AS DOUBLE)", "0.1"],
    "FLOAT": ["0.1"],
    "VARCHAR(3)": ["'x'"],
}


@st.composite
def definitions(draw):
    def quoted(name):
        return '"' + name.replace('"', '""') + '"'

    names = draw(st.lists(NAMES, min_size=3, max_size=5, unique=True))
    table, key, *others = names
    kind = draw(st.sampled_from(sorted(TYPES)))
    items = [f"{quoted(key)} {kind} NOT NULL"]
    for name in others:
        type_, values = draw(st.sampled_from(sorted({**TYPES, **PLAIN_TYPES}.items())))
        options = ["", f"DEFAULT {draw(st.sampled_from(values))}", "IMMUTABLE", "BLOCK_SIZE 4096", "COMPRESSION LZ4"]
        chosen = draw(
            st.lists(st.sampled_from([*options, "ENCODING PLAIN", "COMMENT 'it''s'"]), unique=True, max_size=3)
        )
        items.append(f"{quoted(name)} {type_} {' '.join(chosen)}")
    unique = draw(st.sampled_from(["", "NON UNIQUE "]))
    items.append(f"{unique}PRIMARY KEY ({quoted(key)})")
    rules = []
    if draw(st.booleans()):
        rules.append(f"HASH ({quoted(key)}) INTO 3 BUCKETS")
    bound = TYPES[kind][0]
    bounds = draw(
        st.sampled_from(
            ["", f"PARTITION VALUES < {bound}", f"PARTITION {bound} <= VALUES", f"PARTITION VALUE = {bound}"]
        )
    )
    if bounds and bound != "''":
        rules.append(f"RANGE ({quoted(key)}) ({bounds})")
    clauses = f" DISTRIBUTE BY {', '.join(rules)}" if rules else ""
    return table, f"CREATE TABLE {quoted(table)} ({', '.join(items)}){clauses} COMMENT 'it''s'"


@settings(max_examples=examples(60), deadline=None)
@given(definitions())
def test_show_create_table_makes_the_same_table(definition):
    name, text = definition
    quoted = '"' + name.replace('"', '""') + '"'
    with nyala.connect(":memory:", threads=1) as c:
        c.execute(text)
        table = c.store.table(name)
        ((written,),) = rows(c, f"SHOW CREATE TABLE {quoted}")
        c.execute(f"DROP TABLE {quoted}")
        c.execute(written)
        again = c.store.table(name)
        assert (again.schema, again.partitions, again.comment) == (table.schema, table.partitions, table.comment) or (
            "NaN" in text and written == rows(c, f"SHOW CREATE TABLE {quoted}")[0][0]
        )


@pytest.mark.embedded_only("five replicas need five servers", "cluster")
def test_the_number_of_replicas_is_kept_for_a_cluster():
    with nyala.connect(":memory:", threads=1) as c:
        c.execute("CREATE TABLE t (k INT PRIMARY KEY) REPLICAS 3")
        c.execute("INSERT INTO t VALUES (1)")
        c.execute("ALTER TABLE t SET REPLICAS 5")
        assert "REPLICAS 5" in rows(c, "SHOW CREATE TABLE t")[0][0]
        c.execute("ALTER TABLE t SET TBLPROPERTIES ('kudu.num_tablet_replicas' = '7', 'other' = 'ignored')")
        assert "REPLICAS 7" in rows(c, "SHOW CREATE TABLE t")[0][0]
        assert rows(c, "SELECT k FROM t") == [(1,)]
        with pytest.raises(nyala.Error, match="REPLICAS must be 1, 3, 5 or 7, not 4"):
            c.execute("ALTER TABLE t SET REPLICAS 4")
        with pytest.raises(nyala.Error, match="REPLICAS, SCHEMA or TBLPROPERTIES expected"):
            c.execute("ALTER TABLE t SET OWNER x")
