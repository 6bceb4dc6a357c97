"""Range partitions with hash rules of their own: rows, pruning, ALTER TABLE and SHOW, also after reopening."""

from __future__ import annotations

import nyala
import pytest

CREATE = """
CREATE TABLE t (id INT, ts STRING, v INT, PRIMARY KEY (id, ts))
PARTITION BY HASH (id) PARTITIONS 2, RANGE (ts) (
  PARTITION '2023' <= VALUES < '2024', PARTITION '2024' <= VALUES < '2025' HASH (id) PARTITIONS 5)"""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "store"


def rows(connection, text, *parameters):
    return connection.execute(text, *parameters).fetchall()


def fill(connection, first, year):
    connection.execute(f"INSERT INTO t SELECT column1, '{year}-01', column1 % 7 FROM (VALUES {values(first)}) AS n")


def values(first):
    return ", ".join(f"({number})" for number in range(first, first + 100))


def test_rows_stay_findable_whatever_is_altered(path):
    with nyala.connect(path) as c:
        c.execute(CREATE)
        fill(c, 0, 2023)
        fill(c, 0, 2024)
        c.execute("ALTER TABLE t ADD RANGE PARTITION '2025' <= VALUES < '2026' HASH (ts, id) INTO 3 BUCKETS")
        c.execute("ALTER TABLE t RENAME COLUMN id TO number, RENAME COLUMN ts TO moment")
        fill(c, 0, 2025)
        assert len(rows(c, "SHOW PARTITIONS t")) == 2 + 5 + 3
    with nyala.connect(path) as c:
        assert rows(c, "SELECT count(*), count(DISTINCT number) FROM t") == [(300, 100)]
        for number in range(0, 100, 9):
            assert rows(c, "SELECT moment FROM t WHERE number = ? ORDER BY moment", (number,)) == [
                ("2023-01",), ("2024-01",), ("2025-01",)
            ]  # fmt: skip
            assert rows(c, "SELECT v FROM t WHERE number = ? AND moment = '2025-01'", (number,)) == [(number % 7,)]
        c.execute("ALTER TABLE t DROP RANGE PARTITION '2024' <= VALUES < '2025'")
        assert rows(c, "SELECT moment, count(*) FROM t GROUP BY moment ORDER BY 1") == [
            ("2023-01", 100),
            ("2025-01", 100),
        ]
        c.store.check()


def test_groups_are_whole_where_ranges_are_hashed_by_different_columns(path):
    """A tablet has all rows of a group only where the group names every column that some range is cut by."""
    with nyala.connect(path, threads=2) as c:
        c.execute(
            "CREATE TABLE t (id INT, ts STRING, v INT, PRIMARY KEY (id, ts)) DISTRIBUTE BY HASH (id) INTO 3 BUCKETS, "
            "RANGE (id) (PARTITION VALUES < 50 HASH (ts) INTO 4 BUCKETS, PARTITION 50 <= VALUES)"
        )
        for year in range(2000, 2010):
            fill(c, 0, year)
        assert rows(c, "SELECT id, count(*) FROM t GROUP BY id ORDER BY id") == [(number, 10) for number in range(100)]


def test_show_create_table_writes_what_makes_the_same_partitions(path):
    with nyala.connect(path) as c:
        c.execute(CREATE)
        ((text,),) = rows(c, "SHOW CREATE TABLE t")
        before, shown = c.store.table("t").partitions, rows(c, "SHOW PARTITIONS t")
        c.execute("DROP TABLE t")
        c.execute(text)
        assert c.store.table("t").partitions == before
        assert rows(c, "SHOW PARTITIONS t") == shown
    with nyala.connect(path) as c:
        assert c.store.table("t").partitions == before
        assert rows(c, "SHOW CREATE TABLE t") == [(text,)]


def test_explain_counts_the_tablets_that_are_left(path):
    with nyala.connect(path) as c:
        c.execute(CREATE)

        def tablets(where):
            lines = [line for (line,) in rows(c, f"EXPLAIN VERBOSE SELECT * FROM t WHERE {where}")]
            return next(line.split("· ")[1] for line in lines if "tablets" in line)

        assert tablets("id = 7") == "2 of 7 tablets"
        assert tablets("id = 7 AND ts = '2024-05'") == "1 of 7 tablets"
        assert tablets("ts >= '2024'") == "5 of 7 tablets"
        assert tablets("ts < '2024'") == "2 of 7 tablets"


def test_rules_that_are_the_tables_are_not_its_own(path):
    with nyala.connect(path) as c:
        c.execute(CREATE.replace("PARTITIONS 5", "PARTITIONS 2"))
        assert c.store.table("t").partitions.is_uniform
