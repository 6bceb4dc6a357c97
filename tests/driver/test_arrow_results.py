"""Results as Arrow: streams in constant memory, and the C interface that other libraries read."""

import decimal
import sys
import time

import duckdb
import nyala
import pyarrow as pa
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from nyala.executor.run import context
from nyala.executor.run.stream import BATCH_ROWS

EXPLODED = "SELECT a.k AS a, b.k AS b FROM n a, n b"


@pytest.fixture
def numbers(connection):
    """A table of four tablets."""
    connection.execute("CREATE TABLE n (k INT PRIMARY KEY) DISTRIBUTE BY HASH (k) INTO 16 BUCKETS")
    connection.load("n", pa.table({"k": pa.array(range(16_000), pa.int32())}))
    return connection


@pytest.fixture
def made(monkeypatch):
    """Rows of each batch that the executor has made for the result."""
    rows = []
    module = sys.modules["nyala.executor.execute"]
    read = module._read

    def counting(batch):
        rows.append(batch.length)
        return read(batch)

    monkeypatch.setattr(module, "_read", counting)
    return rows


def test_a_result_far_larger_than_memory_is_a_stream(numbers, made):
    numbers.execute("SET memory_limit = '16MB'")
    cursor = numbers.execute(EXPLODED)  # 256 million rows, 2 GB
    most = 2 * context.READ_AHEAD * context.AT_ONCE + context.AT_ONCE
    seen = 0
    for taken, batch in enumerate(cursor.record_batches(), 1):
        assert 0 < batch.num_rows <= 4 * BATCH_ROWS
        assert len(made) - taken <= most
        seen += batch.num_rows
        if taken == 200:
            break
    assert cursor.rownumber == seen
    cursor.close()


def test_a_reader_that_pauses_stops_the_producers(numbers, made):
    batches = numbers.execute(EXPLODED).record_batches()
    next(batches)
    before = -1
    while before != len(made):  # until the threads have nothing left that they may do
        before = len(made)
        time.sleep(0.3)
    assert len(made) <= 2 * context.READ_AHEAD * context.AT_ONCE + context.AT_ONCE
    # The threads are free for others meanwhile.
    assert numbers.execute("SELECT count(*) FROM n WHERE k % 2 = 0").fetchone() == (8_000,)
    next(batches)
    batches.close()


@settings(max_examples=examples(40), deadline=None)
@given(st.integers(0, 40_000), st.lists(st.tuples(st.sampled_from(["one", "many", "batch"]), st.integers(0, 9_000))))
def test_rows_and_batches_share_one_position(rows, steps):
    with nyala.connect(":memory:", threads=1) as connection:
        cursor = connection.execute("SELECT n FROM generate_series(0, ? - 1) AS g(n)", [rows])
        place = 0
        for kind, size in steps:
            if kind == "one":
                found = cursor.fetchone()
                values = [] if found is None else [found[0]]
            elif kind == "many":
                values = [n for (n,) in cursor.fetchmany(size)]
                assert len(values) == min(size, rows - place)
            else:
                batch = next(cursor.record_batches(), None)
                values = [] if batch is None else batch.column(0).to_pylist()
            assert values == list(range(place, place + len(values)))
            assert values or place == rows or (kind == "many" and size == 0)
            place += len(values)
            assert cursor.rownumber == place
        assert cursor.arrow().column("n").to_pylist() == list(range(place, rows))
        assert cursor.rowcount == rows


ALL_TYPES = "SELECT * FROM items ORDER BY id"


def test_pyarrow_reads_a_result(items):
    expected = items.execute(ALL_TYPES).arrow()
    assert pa.RecordBatchReader.from_stream(items.execute(ALL_TYPES)).read_all() == expected
    assert pa.table(items.execute(ALL_TYPES)) == expected
    assert expected.schema.types[:3] == [pa.int32(), pa.string(), pa.decimal128(15, 2)]


def test_schemas_do_not_depend_on_the_rows(items):
    some = items.execute("SELECT id, price FROM items").arrow()
    none = items.execute("SELECT id, price FROM items WHERE id > 100").arrow()
    one = items.execute("SELECT id, price FROM items WHERE id = ?", [1]).arrow()
    assert some.schema == none.schema == one.schema


def test_a_stream_begins_where_the_rows_ended(items):
    cursor = items.execute("SELECT id FROM items ORDER BY id")
    assert cursor.fetchone() == (1,)
    assert pa.table(cursor).column("id").to_pylist() == [2, 3, 4, 5]
    assert cursor.fetchone() is None


def test_reading_without_copies(numbers):
    cursor = numbers.execute("SELECT k FROM n WHERE k >= 0 ORDER BY k")
    (batch,) = cursor.record_batches()
    reader = pa.RecordBatchReader.from_batches(batch.schema, [batch])
    (read,) = pa.RecordBatchReader.from_stream(reader)
    assert read.column(0).buffers()[1].address == batch.column(0).buffers()[1].address


def test_duckdb_reads_a_result(items):
    cursor = items.execute("SELECT id, name, price, weight, sold, seen, good FROM items")  # noqa: F841
    with duckdb.connect() as other:
        assert other.execute("SELECT count(*), sum(price), max(sold), min(seen) FROM cursor").fetchone() == (
            5,
            *items.execute("SELECT sum(price), max(sold), min(seen) FROM items").fetchone(),
        )


def test_polars_reads_a_result(items):
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(items.execute("SELECT id, name, price, sold FROM items ORDER BY id"))
    assert frame.rows() == items.execute("SELECT id, name, price, sold FROM items ORDER BY id").fetchall()


def test_pandas_reads_a_result(items):
    pytest.importorskip("pandas")
    assert items.execute("SELECT id, name FROM items ORDER BY id").df()["name"].tolist() == [
        "one",
        "two",
        "three",
        "four",
        "five",
    ]


def test_a_result_is_loaded_into_another_store(items):
    with nyala.connect(":memory:") as other:
        other.execute("CREATE TABLE items (id INT PRIMARY KEY, name STRING, price DECIMAL(15,2))")
        assert other.load("items", items.execute("SELECT id, name, price FROM items")) == 5
        text = "SELECT id, name, price FROM items ORDER BY id"
        assert other.execute(text).fetchall() == items.execute(text).fetchall()


def test_errors_on_the_way_reach_the_reader(connection):
    connection.execute("CREATE TABLE n (k INT PRIMARY KEY)")
    connection.load("n", pa.table({"k": pa.array(range(400_000), pa.int32())}))
    cursor = connection.execute("SELECT 1 / (399999 - k) FROM n")
    with pytest.raises(Exception, match="division by zero"):
        pa.table(cursor)


def test_without_a_result_set_there_is_no_stream(connection):
    cursor = connection.execute("CREATE TABLE t (k INT PRIMARY KEY)")
    for read in (cursor.__arrow_c_stream__, cursor.record_batches, cursor.arrow):
        with pytest.raises(nyala.InterfaceError, match="no result set"):
            read()


def test_batches_of_a_result_that_was_replaced_are_gone(items):
    cursor = items.execute("SELECT id FROM items")
    batches = cursor.record_batches()
    cursor.execute("SELECT name FROM items")
    assert cursor.fetchone() is not None
    with pytest.raises(nyala.InterfaceError, match="these rows are gone"):
        next(batches)


def test_a_data_frame_has_numbers(items):
    cursor = items.execute(
        "SELECT id, CAST(id AS DECIMAL(20, 2)) / 4 AS d, avg(id) OVER () AS a, NULLIF(id, 1) AS n FROM items "
        "ORDER BY id"
    )
    frame = cursor.df()
    assert [str(frame[name].dtype) for name in ("id", "d", "a")] == ["int32", "float64", "float64"]
    assert set(frame.describe().columns) == {"id", "d", "a", "n"}
    exact = items.execute("SELECT CAST(id AS DECIMAL(20, 2)) / 4 AS d FROM items ORDER BY id").df(decimals="exact")
    assert [type(value) for value in exact["d"]] == [decimal.Decimal] * len(exact)
    assert exact["d"].astype(float).tolist() == frame["d"].tolist()
    nulls = items.execute("SELECT CAST(NULL AS DECIMAL(5, 2)) AS d").df()
    assert nulls["d"].isna().tolist() == [True]
    with pytest.raises(nyala.InterfaceError, match="'float' and 'exact'"):
        items.execute("SELECT 1").df(decimals="text")
