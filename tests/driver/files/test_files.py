"""Files as tables: beside the same rows in a table, and what is read of them."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from examples import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from nyala.errors import DataError, NotSupportedError, OperationalError, StatementError, UnknownColumn
from nyala.executor.files import parquet_files

CONDITIONS = st.sampled_from(
    [
        "k > 40", "k BETWEEN 10 AND 12", "k = 7 OR k = 93", "f > 5", "f < 1", "f = 'nan'", "f IN (1.5, 'nan')",
        "f >= 'nan'",
        "s LIKE 'b%'", "s IS NULL", "s IS NOT NULL AND k < 3", "day > DATE '1970-02-01'", "k IN (1, 99, 1000)",
        "s = 'a' AND f < k", "d > 3.33", "d = 2.5 OR s = 'b'", "small > 2.5", "NOT (k < 98)",
        "at >= TIMESTAMP '1970-01-01'",
    ]
)  # fmt: skip


def sample(rows: int = 100) -> pa.Table:
    texts = ["a", "bc", None, "b"]
    return pa.table(
        {
            "k": pa.array(range(rows), pa.int64()),
            "S": pa.array([texts[i * 4 // rows] for i in range(rows)]),
            "f": pa.array([float("nan") if i % 10 == 3 else i / 2 for i in range(rows)]),
            "d": pa.array([None if i % 7 == 0 else i / 4 for i in range(rows)]).cast(pa.decimal128(9, 2), safe=False),
            "day": pa.array([datetime.date(1970, 1, 1) + datetime.timedelta(i) for i in range(rows)]),
            "small": pa.array([i % 5 for i in range(rows)], pa.uint8()),
            "at": pa.array([i * 1_000_000_001 for i in range(rows)], pa.timestamp("ns", "Europe/Berlin")),
            "list": pa.array([[i] for i in range(rows)]),
        }
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: Any) -> Path:
    path = tmp_path_factory.mktemp("files")
    pq.write_table(sample(), path / "x.parquet", row_group_size=10)
    pq.write_table(pa.table({"v": [1.5], "k": pa.array([1], pa.int32())}), path / "part1.parquet")
    pq.write_table(pa.table({"k": [2], "v": pa.array([2.5], pa.float32())}), path / "part2.parquet")
    (path / "x.csv").write_text('id|name|day\n1|"a|b"|2020-01-02\n2||\n')
    return path


@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(condition=CONDITIONS, negated=st.booleans())
def test_the_same_rows_as_in_a_table(connection: Any, folder: Path, condition: str, negated: bool) -> None:
    file = f"'{folder}/x.parquet'"
    names = "k, s, f, d, day, small, at"
    connection.execute(f"CREATE TABLE IF NOT EXISTS x PRIMARY KEY (k) AS SELECT {names} FROM {file}")
    test = f"NOT ({condition})" if negated else condition
    expected = connection.execute(f"SELECT {names} FROM x WHERE {test} ORDER BY k").fetchall()
    found = connection.execute(f"SELECT {names} FROM {file} WHERE {test} ORDER BY k").fetchall()
    assert list(map(repr, found)) == list(map(repr, expected))
    counted = connection.execute(f"SELECT count(*) FROM {file} WHERE {test}").fetchone()
    assert counted == (len(expected),)


def test_row_groups_are_left_out(connection: Any, folder: Path, monkeypatch: Any) -> None:
    read = []
    plain = parquet_files.pieces
    monkeypatch.setattr(parquet_files, "pieces", lambda *a: read.append(plain(*a)) or read[-1])
    for test, groups in (
        ("k >= 95", 1),
        ("day < DATE '1970-01-15'", 2),
        ("f > 1000", 10),
        ("f < 1", 1),
        ("s = 'bc'", 3),
    ):
        connection.execute(f"SELECT k FROM '{folder}/x.parquet' WHERE {test}").fetchall()
        assert len(read.pop()) == groups, test


def test_types_that_nyala_lacks_are_refused_where_they_are_read(connection: Any, folder: Path) -> None:
    assert connection.execute(f"SELECT count(*), max(k) FROM '{folder}/x.parquet'").fetchone() == (100, 99)
    for text in ("*", "list", "count(list)"):
        with pytest.raises(NotSupportedError, match=r"column list of .* is of type list<element: int64>"):
            connection.execute(f"SELECT {text} FROM '{folder}/x.parquet'")


def test_several_files(connection: Any, folder: Path) -> None:
    for source in (f"'{folder}/part*.parquet'", f"read_parquet('{folder}/part1.parquet', '{folder}/part2.parquet')"):
        assert connection.execute(f"SELECT v, k FROM {source} ORDER BY k").fetchall() == [(1.5, 1), (2.5, 2)]
    with pytest.raises(UnknownColumn, match=r"x.parquet has no column v, which .*part1.parquet has"):
        connection.execute(f"SELECT v FROM read_parquet('{folder}/part1.parquet', '{folder}/x.parquet')").fetchall()


def test_csv(connection: Any, folder: Path) -> None:
    path = f"{folder}/x.csv"
    found = connection.execute(f"SELECT * FROM read_csv('{path}', delim => '|')").fetchall()
    assert found == [(1, "a|b", datetime.date(2020, 1, 2)), (2, None, None)]
    text = f"SELECT * FROM read_csv('{path}', delim => '|', header => false, all_varchar => true) AS c (a, b)"
    cursor = connection.execute(text)
    assert [column[0] for column in cursor.description] == ["a", "b", "column3"]
    assert cursor.fetchone() == ("id", "name", "day")
    assert connection.execute(f"SELECT count(*) FROM read_csv('{path}', delim => '|')").fetchone() == (2,)


def test_files_in_joins_subqueries_and_changes(connection: Any, folder: Path) -> None:
    connection.execute("CREATE TABLE t (k INT PRIMARY KEY, n INT)")
    connection.execute(f"INSERT INTO t SELECT k, small FROM '{folder}/x.parquet' WHERE k < 3")
    text = f"SELECT t.k, p.v FROM t JOIN '{folder}/part*.parquet' AS p USING (k) ORDER BY 1"
    assert connection.execute(text).fetchall() == [(1, 1.5), (2, 2.5)]
    text = f"UPDATE t SET n = 9 WHERE k IN (SELECT k FROM '{folder}/part1.parquet') RETURNING k"
    assert connection.execute(text).fetchall() == [(1,)]


def test_a_file_is_looked_at_each_time(connection: Any, tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    for text, expected in (("a\n1\n", [(1,)]), ("a,b\nx,2\n", [("x", 2)])):
        path.write_text(text)
        assert connection.execute(f"SELECT * FROM '{path}'").fetchall() == expected


def test_what_is_not_there(connection: Any, folder: Path) -> None:
    for text, message in (
        (f"'{folder}/y.parquet'", r"there is no file .*; did you mean x.parquet"),
        (f"'{folder}/none/y.csv'", "there is no folder"),
        (f"'{folder}/q*.csv'", "no file matches"),
        ("read_csv('')", "takes paths in quotes"),
    ):
        with pytest.raises((OperationalError, StatementError), match=message):
            connection.execute(f"SELECT * FROM {text}")
    with pytest.raises(DataError, match=r"not a Parquet file(\n|$)"):
        connection.execute(f"SELECT * FROM read_parquet('{folder}/x.csv')")
    with pytest.raises(StatementError, match=r"the name x.txt does not tell the file's format"):
        connection.execute("SELECT * FROM 'x.txt'")
