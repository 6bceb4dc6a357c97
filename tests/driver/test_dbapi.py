"""PEP 249, sentence by sentence."""

import datetime
import decimal
import subprocess
import sys
import threading

import nyala
import pyarrow as pa
import pytest
from nyala.storage.types import BIGINT, DATE, DECIMAL, DOUBLE, INT, STRING, TIMESTAMP

D = decimal.Decimal


def test_module_globals():
    assert nyala.apilevel == "2.0"
    assert nyala.threadsafety == 2
    assert nyala.paramstyle == "qmark"


def test_exceptions_form_the_tree_of_the_standard():
    assert issubclass(nyala.Warning, Exception)
    assert issubclass(nyala.InterfaceError, nyala.Error)
    for error in ("DataError", "OperationalError", "IntegrityError", "InternalError", "ProgrammingError"):
        assert issubclass(getattr(nyala, error), nyala.DatabaseError)
    assert issubclass(nyala.NotSupportedError, nyala.DatabaseError)


def test_exceptions_are_attributes_of_connections(connection):
    for name in ("Warning", "Error", "InterfaceError", "DatabaseError", "DataError", "OperationalError"):
        assert getattr(connection, name) is getattr(nyala, name)
    for name in ("IntegrityError", "InternalError", "ProgrammingError", "NotSupportedError"):
        assert getattr(connection, name) is getattr(nyala, name)


def test_constructors():
    assert nyala.Date(2020, 1, 2) == datetime.date(2020, 1, 2)
    assert nyala.Timestamp(2020, 1, 2, 3, 4, 5) == datetime.datetime(2020, 1, 2, 3, 4, 5)
    assert nyala.Time(3, 4, 5) == datetime.time(3, 4, 5)
    assert nyala.Binary(b"x") == b"x"
    ticks = datetime.datetime(2020, 1, 2, 3, 4, 5).timestamp()
    assert nyala.DateFromTicks(ticks) == datetime.date(2020, 1, 2)
    assert nyala.TimestampFromTicks(ticks) == datetime.datetime(2020, 1, 2, 3, 4, 5)
    assert nyala.TimeFromTicks(ticks) == datetime.time(3, 4, 5)


@pytest.mark.parametrize(
    ("type_", "family"),
    [
        (INT, nyala.NUMBER),
        (DECIMAL(5, 2), nyala.NUMBER),
        (DOUBLE, nyala.NUMBER),
        (STRING, nyala.STRING),
        (DATE, nyala.DATETIME),
        (TIMESTAMP, nyala.DATETIME),
    ],
)
def test_type_codes_equal_one_type_object(type_, family):
    objects = [nyala.STRING, nyala.BINARY, nyala.NUMBER, nyala.DATETIME, nyala.ROWID]
    assert [type_ == o for o in objects] == [o is family for o in objects]
    assert type_ != "INT"


def test_import_is_light():
    code = "import nyala, sys; print([m for m in ('pyarrow', 'numpy', 'sqlglot') if m in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


def test_description(items):
    cursor = items.execute("SELECT id, name, price, sold, seen FROM items")
    assert [column[0] for column in cursor.description] == ["id", "name", "price", "sold", "seen"]
    assert all(len(column) == 7 for column in cursor.description)
    codes = [column[1] for column in cursor.description]
    assert codes == [nyala.NUMBER, nyala.STRING, nyala.NUMBER, nyala.DATETIME, nyala.DATETIME]
    assert cursor.description[2][4:6] == (15, 2)
    assert [column[6] for column in cursor.description] == [False, False, True, True, True]


def test_description_is_none_without_a_result_set(connection):
    cursor = connection.cursor()
    assert cursor.description is None
    assert cursor.rowcount == -1
    cursor.execute("CREATE TABLE t (k INT PRIMARY KEY)")
    assert cursor.description is None
    with pytest.raises(nyala.InterfaceError, match="there is no result set"):
        cursor.fetchone()


def test_rows_are_tuples_of_python_values(items):
    rows = items.execute("SELECT * FROM items ORDER BY id").fetchall()
    assert rows[0] == (
        1,
        "one",
        D("1.50"),
        0.5,
        datetime.date(2020, 2, 29),
        datetime.datetime(2020, 1, 2, 3, 4, 5),
        True,
        None,
    )
    assert rows[1] == (2, "two", None, None, None, None, None, None)
    assert [row[2] for row in rows] == [D("1.50"), None, D("-3.25"), D("0.00"), D("99999999.99")]
    assert all(type(row) is tuple for row in rows)


def test_fetches_share_one_position(items):
    cursor = items.execute("SELECT id FROM items ORDER BY id")
    assert cursor.fetchone() == (1,)
    assert cursor.fetchmany() == [(2,)]
    cursor.arraysize = 2
    assert cursor.fetchmany() == [(3,), (4,)]
    assert cursor.rowcount == -1
    assert cursor.fetchmany(10) == [(5,)]
    assert cursor.fetchmany() == []
    assert cursor.fetchone() is None
    assert cursor.fetchall() == []
    assert cursor.rowcount == 5


def test_iteration(items):
    cursor = items.execute("SELECT id FROM items ORDER BY id DESC")
    assert next(cursor) == (5,)
    assert [row[0] for row in cursor] == [4, 3, 2, 1]


def test_arrow_gives_what_is_left(items):
    cursor = items.execute("SELECT id, price FROM items ORDER BY id")
    cursor.fetchmany(2)
    table = cursor.arrow()
    assert isinstance(table, pa.Table)
    assert table.column("id").to_pylist() == [3, 4, 5]
    assert table.schema.field("price").type == pa.decimal128(15, 2)
    assert cursor.fetchall() == []


def test_arrow_of_no_rows_keeps_the_types(items):
    table = items.execute("SELECT id, price FROM items WHERE id > 100").arrow()
    assert table.num_rows == 0
    assert table.schema.types == [pa.int32(), pa.decimal128(15, 2)]


def test_record_batches_stream(items):
    batches = items.execute("SELECT id FROM items ORDER BY id").record_batches()
    assert [n for batch in batches for n in batch.column(0).to_pylist()] == [1, 2, 3, 4, 5]


def test_results_larger_than_a_batch(connection):
    connection.execute("CREATE TABLE big (k INT PRIMARY KEY, v STRING)")
    n = 200_000
    connection.load("big", pa.table({"k": pa.array(range(n), pa.int32()), "v": [str(i) for i in range(n)]}))
    cursor = connection.execute("SELECT k, v FROM big")
    rows = [*cursor.fetchmany(70_000), cursor.fetchone(), *cursor.fetchall()]
    assert sorted(rows) == [(i, str(i)) for i in range(n)]
    assert cursor.rowcount == n


@pytest.mark.parametrize(
    ("text", "parameters"),
    [
        ("SELECT name FROM items WHERE id = ? AND sold < ?", [3, datetime.date(2000, 1, 1)]),
        ("SELECT name FROM items WHERE sold < $2 AND id = $1", (3, datetime.date(2000, 1, 1))),
        ("SELECT name FROM items WHERE id = :id AND sold < :day", {"id": 3, "day": datetime.date(2000, 1, 1)}),
        ("SELECT name FROM items WHERE price = ? AND name LIKE ?", [D("-3.25"), "thr%"]),
    ],
)
def test_parameters(items, text, parameters):
    assert items.execute(text, parameters).fetchall() == [("three",)]


def test_a_missing_parameter_is_an_error(items):
    with pytest.raises(nyala.InterfaceError, match="the statement has 2 placeholders, 1 given"):
        items.execute("SELECT name FROM items WHERE id = ? AND name = ?", [1])


def test_several_statements_of_one_text_run_in_order(connection):
    cursor = connection.execute(
        "CREATE TABLE t (k INT PRIMARY KEY); INSERT INTO t VALUES (1), (2); SELECT count(*) FROM t;"
    )
    assert cursor.fetchall() == [(2,)]


def test_a_later_statement_that_fails_leaves_the_earlier_ones_done(connection):
    with pytest.raises(nyala.ProgrammingError, match="nothing"):
        connection.execute("CREATE TABLE t (k INT PRIMARY KEY); INSERT INTO t VALUES (1); SELECT * FROM nothing")
    assert connection.execute("SELECT k FROM t").fetchall() == [(1,)]


def test_parameters_with_several_statements_are_refused(connection):
    with pytest.raises(nyala.InterfaceError, match="the text holds 2"):
        connection.execute("SELECT ?; SELECT ?", [1, 2])


@pytest.mark.parametrize("text", ["", "  ", ";", "-- nothing"])
def test_no_statement_is_an_error(connection, text):
    with pytest.raises(nyala.ProgrammingError, match="there is no statement"):
        connection.execute(text)


def test_rowcount_of_an_insert(connection):
    connection.execute("CREATE TABLE t (k INT PRIMARY KEY)")
    assert connection.execute("INSERT INTO t VALUES (1), (2), (3)").rowcount == 3
    assert connection.execute("INSERT INTO t SELECT k + 10 FROM t").rowcount == 3


def test_commit_is_nothing_and_rollback_is_honest(connection):
    connection.commit()
    assert connection.autocommit is True
    with pytest.raises(nyala.NotSupportedError, match="durable when it returns"):
        connection.rollback()


def test_closed_things_say_so(connection):
    cursor = connection.execute("SELECT 1")
    cursor.close()
    cursor.close()
    with pytest.raises(nyala.InterfaceError, match="the cursor is closed"):
        cursor.fetchone()
    other = connection.cursor()
    connection.close()
    connection.close()
    for use in (connection.cursor, connection.commit, lambda: other.execute("SELECT 1"), lambda: connection.store):
        with pytest.raises(nyala.InterfaceError, match="the connection is closed"):
            use()


def test_a_result_is_of_the_moment_of_execute(connection):
    connection.execute("CREATE TABLE t (k INT PRIMARY KEY)")
    connection.load("t", pa.table({"k": pa.array(range(0, 400_000, 2), pa.int32())}))
    cursor = connection.execute("SELECT k FROM t")
    cursor.fetchone()
    connection.execute("INSERT INTO t VALUES (1), (399999)")
    connection.load("t", pa.table({"k": pa.array(range(400_000, 500_000), pa.int32())}))
    assert len(cursor.fetchall()) == 199_999
    assert connection.execute("SELECT count(*) FROM t").fetchone() == (300_002,)


def test_a_dropped_table_is_read_to_its_end(connection):
    connection.execute("CREATE TABLE t (k INT PRIMARY KEY)")
    connection.load("t", pa.table({"k": pa.array(range(200_000), pa.int32())}))
    cursor = connection.execute("SELECT k FROM t")
    connection.execute("DROP TABLE t")
    assert len(cursor.fetchall()) == 200_000


def test_errors_of_evaluation_surface_at_execute(connection):
    with pytest.raises(nyala.DataError, match="division by zero"):
        connection.execute("SELECT 1 / 0")


def test_after_an_error_there_is_no_result(items):
    cursor = items.cursor()
    with pytest.raises(nyala.DataError):
        cursor.execute("SELECT 1 / (id - 5) FROM items").fetchall()
    with pytest.raises(nyala.InterfaceError, match="no result set"):
        cursor.fetchone()


def test_execute_ends_the_result_before(items):
    cursor = items.execute("SELECT id FROM items")
    cursor.fetchone()
    cursor.execute("SELECT name FROM items WHERE id = 5")
    assert cursor.fetchall() == [("five",)]


def test_context_managers_close(items):
    with items.cursor() as cursor:
        cursor.execute("SELECT 1")
    with pytest.raises(nyala.InterfaceError):
        cursor.fetchone()


def test_sizes_may_be_set(items):
    cursor = items.cursor()
    cursor.setinputsizes([10])
    cursor.setoutputsize(100)
    assert cursor.lastrowid is None
    assert cursor.connection is items


def test_threads_share_a_connection(items):
    results, errors = [], []

    def work():
        try:
            for _ in range(10):
                results.append(items.execute("SELECT count(*), min(price) FROM items").fetchone())
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert results == [(5, D("-3.25"))] * 40


def test_bigint_counts(items):
    cursor = items.execute("SELECT count(*) AS n FROM items")
    assert cursor.description[0][:2] == ("n", BIGINT)
    assert cursor.fetchone() == (5,)
