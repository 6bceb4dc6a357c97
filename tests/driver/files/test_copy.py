"""COPY in both directions: what is written is read again, in both formats, and what is wrong says where."""

from __future__ import annotations

import decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from examples import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from nyala.errors import DataError, NotSupportedError, OperationalError, ProgrammingError, StatementError

TEXTS = st.text(st.sampled_from("a,\"'\n| \\üN"), max_size=6)
COLUMNS = "k BIGINT PRIMARY KEY, s STRING, n INT, d DECIMAL(12,3), f DOUBLE, b BOOLEAN, day DATE, at TIMESTAMP"
ROW = st.tuples(
    st.none() | TEXTS,
    st.none() | st.integers(-(2**31), 2**31 - 1),
    st.none() | st.decimals(-999999, 999999, places=3).map(lambda d: d.quantize(decimal.Decimal("0.001"))),
    st.none() | st.floats(allow_nan=False),
    st.none() | st.booleans(),
    st.none() | st.dates(),
    st.none() | st.datetimes(),
)


@pytest.fixture
def tables(connection: Any) -> Any:
    for name in ("t", "u"):
        connection.execute(f"CREATE TABLE {name} ({COLUMNS})")
    return connection


@settings(max_examples=examples(30), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(ROW, max_size=8),
    target=st.sampled_from(
        [
            ("x.parquet", "", ""),
            ("x.parquet", "(COMPRESSION none, ROW_GROUP_SIZE 3)", ""),
            ("x.csv", "", ""),
            ("x.csv.gz", "(DELIMITER '|', NULL 'N')", "(DELIMITER '|', NULL 'N')"),
            ("x.csv", "WITH (HEADER false, QUOTE '''', NULL '\\N')", "CSV HEADER FALSE QUOTE '''' NULL '\\N'"),
            ("x.dat", "(FORMAT csv, COMPRESSION zstd)", "(FORMAT csv, COMPRESSION zstd)"),
        ]
    ),
)
def test_what_is_written_is_read_again(tables: Any, tmp_path: Path, rows: list[Any], target: Any) -> None:
    name, writing, reading = target
    tables.execute("TRUNCATE TABLE t; TRUNCATE TABLE u")
    tables.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?, ?, ?, ?)", [(i, *row) for i, row in enumerate(rows)])
    path = tmp_path / name
    assert tables.execute(f"COPY t TO '{path}' {writing}").rowcount == len(rows)
    assert tables.execute(f"COPY u FROM '{path}' {reading}").rowcount == len(rows)
    expected = tables.execute("SELECT * FROM t ORDER BY k").fetchall()
    assert tables.execute("SELECT * FROM u ORDER BY k").fetchall() == expected
    assert [file.name for file in tmp_path.iterdir() if file.suffix == ".tmp"] == []


def test_queries_and_columns(tables: Any, tmp_path: Path) -> None:
    tables.execute("INSERT INTO t (k, s, n) VALUES (1, 'a', 10), (2, 'b', 20)")
    path = tmp_path / "x.csv"
    tables.execute(f"COPY (SELECT s, n * 2 AS twice FROM t WHERE k > 1) TO '{path}'")
    assert path.read_text() == "s,twice\nb,40\n"
    tables.execute(f"COPY t (n, k) TO '{path}' (HEADER false)")
    assert sorted(path.read_text().split()) == ["10,1", "20,2"]
    tables.execute(f"COPY u (n, k) FROM '{path}' (HEADER false)")
    assert sorted(tables.execute("SELECT k, n FROM u").fetchall()) == [(1, 10), (2, 20)]


def test_row_groups_are_full(tables: Any, tmp_path: Path) -> None:
    tables.executemany("INSERT INTO t (k) VALUES (?)", [(i,) for i in range(25)])
    tables.execute(f"COPY t TO '{tmp_path}/x.parquet' (ROW_GROUP_SIZE 10, COMPRESSION gzip)")
    footer = pq.read_metadata(tmp_path / "x.parquet")
    assert [footer.row_group(i).num_rows for i in range(footer.num_row_groups)] == [10, 10, 5]
    assert footer.row_group(0).column(0).compression == "GZIP"


def test_many_files_at_once(tables: Any, tmp_path: Path) -> None:
    for i in range(3):
        (tmp_path / f"part{i}.csv").write_text(f"K,n\n{i},{i}\n")
    assert tables.execute(f"COPY t FROM '{tmp_path}/part*.csv'").rowcount == 3
    assert tables.execute(f"COPY u FROM '{tmp_path}' (FORMAT csv)").rowcount == 3


def test_a_file_is_replaced_only_when_it_is_complete(tables: Any, tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("old")
    tables.execute("INSERT INTO t (k) VALUES (0), (1)")
    with pytest.raises(DataError):
        tables.execute(f"COPY (SELECT 1 / k FROM t) TO '{path}'")
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["x.csv"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("k,n\n1,2\n\n2,x\n", "line 4, column n: 'x' is no INT"),
        ('k,s\n1,"two\nlines"\nzwei,b\n', "line 4, column k: 'zwei' is no BIGINT"),
        ("k,n\n1,2\n3,4,5\n", "line 3: expected 2 columns, got 3"),
        ("k,d\n1,1.2345\n", "line 2, column d: rescaling Decimal value would cause data loss"),
        ("k,n\n1,99999999999\n", "line 2, column n: '99999999999' is no INT"),
        ("k,nn\n1,1\n", "column nn of .* is not in table t; table t has"),
        ("", "is empty"),
    ],
)
def test_mistakes_in_a_file(tables: Any, tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "x.csv"
    path.write_text(text)
    with pytest.raises((DataError, ProgrammingError), match=message):
        tables.execute(f"COPY t FROM '{path}'")
    assert tables.execute("SELECT count(*) FROM t").fetchone() == (0,)


def test_a_parquet_file_with_two_columns_of_one_name(tables: Any, tmp_path: Path) -> None:
    pq.write_table(pa.table([pa.array([1]), pa.array([2])], names=["k", "k"]), tmp_path / "x.parquet")
    for text in ("COPY t FROM '{}'", "SELECT k FROM '{}'", "SELECT count(*) FROM '{}'"):
        if text.startswith("SELECT count"):
            assert tables.execute(text.format(tmp_path / "x.parquet")).fetchone() == (1,)
            continue
        with pytest.raises((DataError, ProgrammingError), match=r"two columns k|column k .*twice|ambiguous"):
            tables.execute(text.format(tmp_path / "x.parquet"))


def test_what_cannot_be_written(tables: Any, tmp_path: Path) -> None:
    with pytest.raises(OperationalError, match="there is no folder"):
        tables.execute(f"COPY t TO '{tmp_path}/none/x.csv'")
    with pytest.raises(OperationalError, match="is a folder"):
        tables.execute(f"COPY t TO '{tmp_path}' (FORMAT csv)")
    with pytest.raises(NotSupportedError, match="column x of type INTERVAL has no text form"):
        tables.execute(f"COPY (SELECT INTERVAL '1' DAY AS x) TO '{tmp_path}/x.csv'")
    with pytest.raises(ProgrammingError, match="two columns k"):
        tables.execute(f"COPY (SELECT k, k FROM t) TO '{tmp_path}/x.parquet'")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("COPY t FROM 'x.csv' (HEDER)", "did you mean header"),
        ("COPY t FROM 'x.csv' (HEADER, HEADER)", "given twice"),
        ("COPY t TO 'x.csv' (ROW_GROUP_SIZE 5)", "for Parquet files only"),
        ("COPY t FROM 'x.parquet' (COMPRESSION zstd)", "for CSV files only|for writing files only"),
        ("COPY t TO 'x.parquet' (COMPRESSION lzma)", "zstd, snappy, gzip or none"),
        ("COPY t TO 'x.dat'", "FORMAT parquet"),
        ("COPY t FROM 'x.csv' (DELIMITER ';;')", "exactly one character"),
    ],
)
def test_options(tables: Any, text: str, message: str) -> None:
    with pytest.raises(StatementError, match=message):
        tables.execute(text)
