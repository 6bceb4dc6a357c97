"""ANALYZE and SHOW STATS: statistics of what the rows are now, kept with the store."""

from __future__ import annotations

import random

import nyala
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from nyala.driver.session.session import Session
from nyala.storage.database import Database
from nyala.storage.files.memory_filesystem import CrashableFileSystem


def stats(c, table="t"):
    """SHOW STATS by column: (distinct, nulls, min, max); None is the table: (rows, rowsets)."""
    found = {}
    for name, rows, distinct, nulls, low, high, _, _, _, _, rowsets in c.execute(f"SHOW STATS FOR {table}").fetchall():
        found[name] = (rows, rowsets) if name is None else (distinct, nulls, low, high)
    return found


@pytest.fixture
def c(connection):
    connection.execute("CREATE TABLE t (k INT PRIMARY KEY, a STRING, b INT) DISTRIBUTE BY HASH (k) INTO 2 BUCKETS")
    connection.execute("INSERT INTO t VALUES (1, 'x', 10), (2, 'y', 20), (3, 'x', NULL), (4, 'z', 40)")
    return connection


def test_rows_in_memory_are_flushed(c):
    assert c.execute("ANALYZE t").fetchall() == [("t", 4, 4, 2, 0)]
    assert stats(c) == {"k": (4, 0, "1", "4"), "a": (3, 0, "x", "z"), "b": (3, 1, "10", "40"), None: (4, 2)}
    assert c.execute("ANALYZE TABLE t").fetchall() == [("t", 4, 0, 2, 0)]


def test_updates_and_deletions_are_folded_in(c):
    c.execute("ANALYZE t")
    c.execute("DELETE FROM t WHERE k = 4")
    c.execute("UPDATE t SET a = 'new', b = coalesce(b, 0) - 100")
    ((_, rows, flushed, rowsets, read),) = c.execute("ANALYZE t").fetchall()
    assert (rows, flushed, rowsets) == (3, 0, 2) and 1 <= read <= 2
    assert stats(c) == {"k": (3, 0, "1", "3"), "a": (1, 0, "new", "new"), "b": (3, 0, "-100", "-80"), None: (3, 2)}


def test_what_comes_after_it_counts_too(c):
    c.execute("UPDATE t SET b = 1")
    c.execute("ANALYZE t")
    c.execute("UPDATE t SET b = 2")
    c.execute("ANALYZE t")
    c.execute("INSERT INTO t VALUES (50, 'n', 7), (60, 'n', NULL)")
    assert stats(c)["b"] == (2, 1, "2", "7") and stats(c)["k"][3] == "60"
    c.execute("COMPACT TABLE t")
    assert stats(c)["b"] == (2, 1, "2", "7")


def test_a_column_that_came_later_is_known_after_it(c):
    c.execute("ANALYZE t")
    c.execute("ALTER TABLE t ADD COLUMN z INT NOT NULL DEFAULT 5, RENAME COLUMN b TO bb")
    c.execute("UPDATE t SET z = 9 WHERE k < 3")
    c.execute("DELETE FROM t WHERE k = 4")
    c.execute("ANALYZE t")
    assert stats(c)["bb"] == (2, 1, "10", "20")
    assert stats(c)["z"][2:] == ("5", "9")
    c.execute("ALTER TABLE t RENAME COLUMN z TO y")
    assert stats(c)["y"][2:] == ("5", "9")


def test_analyze_without_a_table_takes_all(c):
    c.execute("CREATE TABLE u (k INT PRIMARY KEY)")
    assert [(name, rows) for name, rows, *_ in c.execute("ANALYZE").fetchall()] == [("t", 4), ("u", 0)]
    c.execute("CREATE VIEW v AS SELECT 1 AS one")
    for statement in ("ANALYZE v", "SHOW STATS FOR v", "SHOW PARTITIONS v"):
        with pytest.raises(nyala.ProgrammingError, match="v is a view"):
            c.execute(statement)


def test_the_planner_uses_it(c):
    values = ", ".join(f"({k}, 'v', {k})" for k in range(100, 1100))
    c.execute(f"INSERT INTO t VALUES {values}")
    c.execute("UPDATE t SET b = 1")

    def estimate():
        lines = [line for (line,) in c.execute("EXPLAIN SELECT k FROM t WHERE b = 1").fetchall()]
        return int(next(line for line in lines if "TableScan" in line).split("(~")[1].split()[0].replace(",", ""))

    before = estimate()
    c.execute("ANALYZE t")
    assert estimate() > 900 > before


def test_it_survives_a_crash_and_a_damaged_file_is_passed_over(tmp_path):
    with nyala.connect(tmp_path) as c:
        c.execute("CREATE TABLE t (k INT PRIMARY KEY, b INT)")
        c.execute("INSERT INTO t VALUES (1, 10), (2, 20)")
        c.execute("ANALYZE t")
        plain = stats(c)
        c.execute("UPDATE t SET b = 7")
        c.execute("ANALYZE t")
        known = stats(c)
        assert known["b"] == (1, 0, "7", "7")
    with nyala.connect(tmp_path) as c:
        assert stats(c) == known
    (file,) = tmp_path.glob("tables/*/statistics")
    file.write_bytes(file.read_bytes()[:-3] + b"...")
    with nyala.connect(tmp_path) as c:
        assert stats(c)["b"] == plain["b"]
        assert c.execute("SELECT b FROM t").fetchall() == [(7,), (7,)]
        c.execute("ANALYZE t")
        assert stats(c) == known


def test_a_crash_in_the_middle_leaves_rows_alone():
    images: list[CrashableFileSystem] = []
    rng = random.Random(5)
    fs = CrashableFileSystem(lambda what: images.append(fs.crash(0.5, rng)) if recording else None)
    recording = False
    with Database("db", fs=fs, background=False) as store:
        session = Session(store, threads=1)
        for text in (
            "CREATE TABLE t (k INT PRIMARY KEY, b INT)",
            "INSERT INTO t VALUES (1, 10), (2, 20), (3, 30)",
            "ANALYZE t",
            "DELETE FROM t WHERE k = 3",
            "INSERT INTO t VALUES (4, 40)",
        ):
            session.run(text).drain()
        recording = True
        session.run("ANALYZE t").drain()
        recording = False
    assert len(images) > 3
    for image in images:
        with Database("db", fs=image, background=False) as db:
            assert db.statistics(db.table("t")).row_count == 3
            db.analyze_table(db.table("t"))
            assert db.statistics(db.table("t")).columns["b"].high == 40


CHANGES = st.lists(
    st.one_of(
        st.tuples(
            st.just("UPSERT INTO t VALUES ({}, {})"), st.integers(0, 9), st.one_of(st.none(), st.integers(-5, 5))
        ),
        st.tuples(st.just("DELETE FROM t WHERE k = {}"), st.integers(0, 9), st.none()),
        st.tuples(st.sampled_from(["ANALYZE t", "COMPACT TABLE t", "ANALYZE"]), st.none(), st.none()),
    ),
    max_size=15,
)


@settings(max_examples=examples(40), deadline=None)
@given(CHANGES)
def test_after_it_the_statistics_are_those_of_the_rows(changes):
    with nyala.connect(":memory:", threads=1) as c:
        c.execute("CREATE TABLE t (k INT PRIMARY KEY, b INT)")
        for text, key, value in changes:
            c.execute(text.format(key, "NULL" if value is None else value))
        c.execute("ANALYZE t")
        for name in ("k", "b"):
            (expected,) = c.execute(
                f"SELECT count(DISTINCT {name}), count(*) - count({name}), CAST(min({name}) AS STRING), "
                f"CAST(max({name}) AS STRING) FROM t"
            ).fetchall()
            assert stats(c)[name] == expected
