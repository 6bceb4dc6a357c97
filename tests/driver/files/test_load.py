"""Bulk loads from Arrow and from files."""

import datetime
import decimal

import numpy as np
import nyala
import pandas as pd
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from nyala.errors import AlreadyPresent, NotNullViolation, UnknownColumn, UnknownTable

TABLE = pa.table(
    {
        "k": pa.array([3, 1, 2], pa.int64()),
        "name": pa.array(["c", "a", None], pa.string_view()),
        "price": pa.array([decimal.Decimal("1.5"), None, decimal.Decimal("2")], pa.decimal128(10, 1)),
        "day": pa.array([datetime.date(2020, 1, 1)] * 3),
    }
)
ROWS = [
    (1, "a", None, datetime.date(2020, 1, 1)),
    (2, None, decimal.Decimal("2.00"), datetime.date(2020, 1, 1)),
    (3, "c", decimal.Decimal("1.50"), datetime.date(2020, 1, 1)),
]


@pytest.fixture
def empty(connection):
    connection.execute("CREATE TABLE t (k INT PRIMARY KEY, name STRING, price DECIMAL(15,2), day DATE)")
    return connection


def rows_of(connection):
    return connection.execute("SELECT * FROM t ORDER BY k").fetchall()


@pytest.mark.parametrize(
    "source",
    [
        TABLE,
        TABLE.combine_chunks().to_batches()[0],
        [TABLE.slice(0, 1), TABLE.slice(1)],
        TABLE.select(["day", "price", "name", "k"]),
        TABLE.rename_columns(["K", "Name", "PRICE", "day"]),
    ],
    ids=["table", "batch", "list", "other order", "other case"],
)
def test_arrow(empty, source):
    assert empty.load("t", source) == 3
    assert rows_of(empty) == ROWS


def test_a_stream_is_read_once_and_tells_its_progress(empty):
    reader = pa.RecordBatchReader.from_batches(TABLE.schema, TABLE.to_batches(max_chunksize=2))
    progress = []
    assert empty.load("t", reader, progress.append) == 3
    assert progress == [2, 3]
    assert rows_of(empty) == ROWS


def test_files_and_directories(empty, tmp_path):
    pq.write_table(TABLE.slice(0, 1), tmp_path / "a.parquet")
    pq.write_table(TABLE.slice(1, 1), tmp_path / "b.parquet")
    (tmp_path / "csv").mkdir()
    plain = TABLE.slice(2).cast(TABLE.schema.set(1, pa.field("name", pa.string())))
    pa_csv.write_csv(plain, tmp_path / "csv" / "c.csv")
    assert empty.load("t", tmp_path / "a.parquet") == 1
    assert empty.load("t", tmp_path / "csv") == 1
    assert empty.load("t", str(tmp_path / "b.parquet")) == 1
    assert rows_of(empty) == ROWS


def test_missing_columns_are_null(empty):
    empty.load("t", TABLE.select(["k"]))
    assert rows_of(empty) == [(k, None, None, None) for k in (1, 2, 3)]


@pytest.mark.parametrize(
    ("source", "error", "message"),
    [
        (
            TABLE.append_column("nam", TABLE["name"]),
            UnknownColumn,
            "column nam of the source is not in table t; did you mean name?",
        ),
        (TABLE.select(["name"]), NotNullViolation, "the source lacks column k, which is NOT NULL in table t"),
        (pa.table({"k": [1 << 40]}), nyala.DataError, "column t.k: int64 does not convert to int32"),
        (pa.table({"k": ["x"]}), nyala.DataError, "column t.k: string does not convert to int32"),
        (7, nyala.InterfaceError, "cannot load from a int: give the path"),
        (b"x", nyala.InterfaceError, "cannot load from a bytes: give the path"),
        ([1], nyala.InterfaceError, "cannot load from a int"),
        ([[1, "a"]], nyala.InterfaceError, "cannot load from a int"),
        ({"k": [1, 2], "name": ["a"]}, nyala.InterfaceError, "the columns have different lengths: k 2, name 1"),
        ({"k": [1], "name": "a"}, nyala.InterfaceError, "column name is a str, where others are lists of values"),
        ([{"k": 1}, {"nam": 2}], UnknownColumn, "did you mean name?"),
        ([{"k": 1}, {"k": "x"}], nyala.DataError, "column k, row 2: 'x' is not a value of type INT"),
        (["/nowhere/x.parquet"], nyala.OperationalError, "there is no file /nowhere/x.parquet"),
        ("/nowhere/x.parquet", nyala.OperationalError, "there is no file /nowhere/x.parquet"),
    ],
)
def test_what_does_not_fit_is_refused_and_nothing_loaded(empty, source, error, message):
    with pytest.raises(error) as raised:
        empty.load("t", source)
    assert message in str(raised.value)
    assert rows_of(empty) == []


def test_files_of_unknown_kind_or_broken(empty, tmp_path):
    (tmp_path / "x.txt").write_text("k\n1\n")
    (tmp_path / "x.parquet").write_text("k\n1\n")
    (tmp_path / "none").mkdir()
    for name, error, message in (
        ("x.txt", nyala.OperationalError, "must end in .parquet or .csv"),
        ("x.parquet", nyala.DataError, "x.parquet: "),
        ("none", nyala.OperationalError, "no .parquet or .csv file in"),
    ):
        with pytest.raises(error, match=message):
            empty.load("t", tmp_path / name)


def test_a_duplicate_key_loads_nothing(empty):
    with pytest.raises(AlreadyPresent):
        empty.load("t", [TABLE, TABLE.slice(0, 1)])
    assert rows_of(empty) == []
    empty.execute("INSERT INTO t (k) VALUES (2)")
    with pytest.raises(AlreadyPresent):
        empty.load("t", TABLE)
    assert len(rows_of(empty)) == 1


def test_the_longest_decimals_are_no_more_than_their_type_has(connection):
    connection.execute("CREATE TABLE d (k INT PRIMARY KEY, v DECIMAL(38, 0))")
    values = [decimal.Decimal(sign + digits) for sign in ("", "-") for digits in (38 * "9", 29 * "9" + 9 * "5")]
    rows = pa.table({"k": pa.array(range(4), pa.int32()), "v": pa.array(values, pa.decimal128(38, 0))})
    assert connection.load("d", rows) == 4
    assert [v for (v,) in connection.execute("SELECT v FROM d ORDER BY k").fetchall()] == values


def test_an_unknown_table(connection):
    with pytest.raises(UnknownTable):
        connection.load("nothing", TABLE)


PYTHON_ROWS = [dict(zip(("k", "name", "price", "day"), row)) for row in ROWS]


@pytest.mark.parametrize(
    "source",
    [
        PYTHON_ROWS,
        tuple(PYTHON_ROWS),
        iter(PYTHON_ROWS),
        ROWS,
        (row for row in ROWS),
        [TABLE.slice(1, 1), ROWS[1], TABLE.slice(0, 1)],
        [[ROWS[0]], [[ROWS[1]], TABLE.slice(0, 1)]],
        {name: [row[name] for row in PYTHON_ROWS] for name in PYTHON_ROWS[0]},
        {name: np.array([row[name] for row in PYTHON_ROWS], object) for name in PYTHON_ROWS[0]},
        {name: TABLE[name] for name in TABLE.column_names},
        {name: pd.Series([row[name] for row in PYTHON_ROWS], dtype=object) for name in PYTHON_ROWS[0]},
        pd.DataFrame(PYTHON_ROWS).set_index("k"),
        [pd.DataFrame(PYTHON_ROWS[:2]), PYTHON_ROWS[2]],
    ],
    ids=lambda source: type(source).__name__,
)
def test_rows_in_every_form(empty, source):
    given = empty.load("t", source)
    found = rows_of(empty)
    assert found == (ROWS if given == 3 else ROWS[: len(found)])
    assert given == len(found) == 3


def test_lists_of_paths_and_patterns(empty, tmp_path):
    for place, name in enumerate(("a.parquet", "b.parquet")):
        pq.write_table(TABLE.slice(place, 1), tmp_path / name)
    (tmp_path / "c.csv").write_text("name,k,price,day\n,2,2.00,2020-01-01\n")
    paths = [str(tmp_path / "a.parquet"), tmp_path / "b.parquet", str(tmp_path / "*.csv")]
    assert empty.load("t", paths) == 3
    assert rows_of(empty) == ROWS
    empty.execute("TRUNCATE TABLE t")
    assert empty.load("t", str(tmp_path / "*.parquet")) == 2
    empty.execute("TRUNCATE TABLE t")
    (tmp_path / "d.csv").write_text("k\n4\nx\n")
    with pytest.raises(nyala.DataError, match=r"d.csv, line 3, column k: 'x' is no INT"):
        empty.load("t", [*paths, tmp_path / "d.csv"])
    assert rows_of(empty) == []


def test_rows_that_lack_columns_take_the_defaults(connection):
    connection.execute("CREATE TABLE d (k INT PRIMARY KEY, n INT DEFAULT 7, s STRING)")
    assert connection.load("d", [{"k": 1}, {"k": 2, "n": None}, {"k": 3, "n": 8, "s": "a"}]) == 3
    assert connection.load("d", {"k": 4}) == 1
    assert connection.load("d", []) == 0
    assert connection.execute("SELECT * FROM d ORDER BY k").fetchall() == [
        (1, 7, None), (2, None, None), (3, 8, "a"), (4, 7, None),
    ]  # fmt: skip


def test_lists_in_themselves_end_in_an_error(empty):
    endless = []
    endless.append(endless)
    with pytest.raises(nyala.InterfaceError, match="deep in each other"):
        empty.load("t", endless)
