"""PEP 249, sentence by sentence."""

import datetime
import decimal
import subprocess
import sys
import threading
from types import SimpleNamespace

import nyala
import pyarrow as pa
import pytest
from nyala.errors import NotRolledBackWarning
from nyala.model.types import BIGINT, DATE, DECIMAL, DOUBLE, INT, STRING, TIMESTAMP, Kind

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


def test_every_type_has_one_type_object():
    objects = [nyala.STRING, nyala.BINARY, nyala.NUMBER, nyala.DATETIME, nyala.ROWID]
    for kind in Kind:
        type_ = SimpleNamespace(kind=kind)
        assert sum(o == type_ for o in objects) == (kind is not Kind.NULL), kind


def refused(connection, error, text):
    with pytest.raises(error):
        connection.execute(text)


WRITES = {
    "create": lambda c: c.execute("CREATE TABLE other (k INT PRIMARY KEY)"),
    "insert": lambda c: c.execute("INSERT INTO items (id, name) VALUES (?, ?)", [6, "six"]),
    "insert again": lambda c: [c.execute("UPSERT INTO items (id, name) VALUES (?, ?)", [i, "x"]) for i in (7, 8)],
    "select": lambda c: c.execute("INSERT INTO items (id, name) SELECT id + 10, name FROM items"),
    "returning": lambda c: c.execute("UPDATE items SET name = 'x' WHERE id < 3 RETURNING id").fetchall(),
    "many": lambda c: c.executemany("INSERT INTO items (id, name) VALUES (?, ?)", [(6, "six"), (7, "seven")]),
    "many updates": lambda c: c.executemany("UPDATE items SET name = ? WHERE id = ?", [("x", 1), ("y", 2)]),
    "load": lambda c: c.load("items", pa.table({"id": pa.array([9], pa.int32()), "name": ["nine"]})),
    "delete": lambda c: c.execute("DELETE FROM items WHERE id > 3"),
    "explain analyze": lambda c: c.execute("EXPLAIN ANALYZE DELETE FROM items WHERE id > 3"),
    "several": lambda c: c.execute("DELETE FROM items WHERE id = 1; SELECT 1"),
    "half of several": lambda c: refused(c, nyala.Error, "DELETE FROM items WHERE id = 1; SELECT * FROM none"),
}
NO_WRITES = {
    "nothing": lambda c: None,
    "select": lambda c: c.execute("SELECT * FROM items").fetchall(),
    "row": lambda c: [c.execute("SELECT name FROM items WHERE id = ?", [1]).fetchone() for _ in range(3)],
    "no match": lambda c: c.execute("DELETE FROM items WHERE id = 77"),
    "no match by a condition": lambda c: c.execute("UPDATE items SET name = 'x' WHERE name = 'none'"),
    "show": lambda c: c.execute("SHOW TABLES; DESCRIBE items; SHOW CREATE TABLE items"),
    "set": lambda c: c.execute("SET threads = 1"),
    "explain": lambda c: c.execute("EXPLAIN DELETE FROM items"),
    "refused": lambda c: refused(c, nyala.IntegrityError, "INSERT INTO items (id, name) VALUES (1, '')"),
    "no rows": lambda c: c.executemany("INSERT INTO items (id, name) VALUES (?, ?)", []),
}


@pytest.mark.parametrize("write", WRITES)
def test_rollback_after_a_write_warns_that_it_stays(items, write):
    items.commit()
    before = items.last_timestamp
    WRITES[write](items)
    assert before < items.last_timestamp <= items.store.now()
    if write != "create":
        with pytest.warns(NotRolledBackWarning, match="nothing is rolled back: the rows were written outside of a"):
            items.rollback()
    items.rollback()


@pytest.mark.parametrize("work", NO_WRITES)
def test_rollback_with_nothing_to_take_back_does_nothing(items, work):
    items.commit()
    before = items.last_timestamp
    NO_WRITES[work](items)
    items.rollback()
    assert items.last_timestamp == before


def test_a_rollback_does_not_hide_the_error_that_led_to_it(connection):
    connection.execute("CREATE TABLE t (k INT PRIMARY KEY)")
    with pytest.raises(nyala.IntegrityError), pytest.warns(NotRolledBackWarning, match="nothing is rolled back"):
        try:
            connection.execute("INSERT INTO t VALUES (1)")
            connection.execute("INSERT INTO t VALUES (1)")
        except nyala.Error:
            connection.rollback()
            raise


# ---- the past --------------------------------------------------------------------------------------------------------


def test_a_view_sees_what_its_connection_had_written(connection):
    assert connection.last_timestamp is None
    connection.execute("CREATE TABLE t (k INT PRIMARY KEY, v INT) DISTRIBUTE BY HASH (k) INTO 2 BUCKETS")
    views = []
    for k in range(30):
        connection.execute("UPSERT INTO t VALUES (?, ?)", [k % 20, k])
        views.append(connection.at(connection.last_timestamp))
        if k % 7 == 0:
            connection.store.flush()
    for k, view in enumerate(views):
        state = {n % 20: n for n in range(k + 1)}
        assert dict(view.execute("SELECT k, v FROM t").fetchall()) == state
        assert view.execute("SELECT count(*), max(v), min(k) FROM t").fetchone() == (len(state), k, 0)
        for _ in range(3):  # on the row path, too
            assert view.execute("SELECT v FROM t WHERE k = ?", [k % 20]).fetchall() == [(k,)]
            assert view.execute("SELECT v FROM t WHERE k = ?", [k % 20 + 1]).fetchall() == [
                (v,) for n, v in state.items() if n == k % 20 + 1
            ]
        view.close()
    assert connection.execute("SELECT count(*) FROM t").fetchone() == (20,)


def test_moments_are_what_system_time_takes(items):
    ((before,),) = items.execute("SELECT now()").fetchall()
    hybrid = items.store.now()
    items.execute("DELETE FROM items WHERE id > 1")
    aware = before.replace(tzinfo=datetime.UTC).astimezone(datetime.timezone(datetime.timedelta(hours=5)))
    for moment, count in (
        (before, 5),
        (hybrid, 5),
        (str(before), 5),
        (aware, 5),
        (datetime.date(2000, 1, 1), 0),
        (0, 0),
    ):
        with items.at(moment) as view:
            assert view.execute("SELECT count(*) FROM items").fetchone() == (count,), moment
    for moment, error in (
        (before + datetime.timedelta(days=1), nyala.DataError),
        (items.store.now() + 10**9 * 4096, nyala.DataError),
        ("yesterday", nyala.DataError),
        (1.5, nyala.InterfaceError),
        (None, nyala.InterfaceError),
        (True, nyala.InterfaceError),
        ([], nyala.InterfaceError),
    ):
        with pytest.raises(error):
            items.at(moment)


@pytest.mark.parametrize("write", set(WRITES) - {"half of several"})
def test_a_view_changes_nothing(items, write):
    items.execute("CREATE VIEW names AS SELECT name FROM items")
    rows = items.execute("SELECT * FROM items").fetchall()
    with items.at(items.store.now()) as view, pytest.raises(nyala.NotSupportedError, match="changes nothing: a "):
        WRITES[write](view)
    assert items.execute("SELECT * FROM items").fetchall() == rows


@pytest.mark.parametrize(
    "text",
    ["DROP TABLE items", "ALTER TABLE items DROP COLUMN raw", "COMPACT TABLE items", "ANALYZE items", "DROP VIEW v",
     "CREATE TABLE u PRIMARY KEY (id) AS SELECT id FROM items", "CREATE VIEW w AS SELECT 1 AS one",
     "COPY items FROM 'x.csv'"],
)  # fmt: skip
def test_a_view_does_no_ddl(items, tmp_path, monkeypatch, text):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.csv").write_text("id,name\n1,x\n")
    items.execute("CREATE VIEW v AS SELECT 1 AS one")
    with items.at(items.store.now()) as view, pytest.raises(nyala.NotSupportedError, match="changes nothing"):
        view.execute(text)


def test_system_time_of_a_statement_wins_over_the_view(items):
    then = items.store.now()
    items.execute("DELETE FROM items WHERE id > 2")
    now = items.store.now()
    with items.at(then) as view:
        text = "SELECT (SELECT count(*) FROM items), (SELECT count(*) FROM items FOR SYSTEM_TIME AS OF ?)"
        assert view.execute(text, [now]).fetchone() == (5, 2)
        assert view.execute("SHOW threads").fetchone() == items.execute("SHOW threads").fetchone()


def test_a_view_and_its_connection_close_by_themselves(tmp_path):
    connection = nyala.connect(tmp_path)
    connection.execute("CREATE TABLE t (k INT PRIMARY KEY); INSERT INTO t VALUES (1)")
    view = connection.at(connection.last_timestamp)
    connection.close()
    assert view.execute("SELECT k FROM t").fetchall() == [(1,)]
    view.close()
    with nyala.connect(tmp_path, durability="os") as again:  # the store was closed with the last of them
        assert again.execute("SELECT k FROM t").fetchall() == [(1,)]


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


def test_rows_are_numbered(items):
    cursor = items.cursor()
    assert cursor.rownumber is None
    cursor.execute("SELECT id FROM items ORDER BY id")
    assert cursor.rownumber == 0
    assert cursor.next() == (1,)
    assert (cursor.rownumber, cursor.rows_at_hand) == (1, 4)
    cursor.fetchmany(2)
    assert cursor.rownumber == 3
    cursor.fetchall()
    assert (cursor.rownumber, cursor.rows_at_hand) == (5, 0)
    cursor.execute("DELETE FROM items WHERE id = 1")
    assert cursor.rownumber is None


def test_one_cursor_is_cancelled(items):
    other = items.execute("SELECT a.id FROM items a, items b")
    cursor = items.execute("SELECT a.id FROM generate_series(1, 3000) AS a(id), generate_series(1, 3000) AS b(id)")
    cursor.fetchone()
    cursor.cancel()
    with pytest.raises(nyala.OperationalError, match="cancelled"):
        cursor.fetchall()
    assert len(other.fetchall()) == 25
    cursor.cancel()  # there is nothing left
    assert cursor.execute("SELECT count(*) FROM items").fetchone() == (5,)


def test_many_rows_of_parameters_are_cancelled(items):
    def rows():
        for number in range(100):
            if number == 50:
                cursor.cancel()
            yield (100 + number, "x")

    for text in ("INSERT INTO items (id, name) VALUES (?, ?)", "UPDATE items SET id = id WHERE id = ? OR name = ?"):
        cursor = items.cursor()
        with pytest.raises(nyala.Error):
            cursor.executemany(text, rows())
    assert items.execute("SELECT count(*) FROM items").fetchone() == (5,)


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


def test_many_threads_write_and_read_on_one_connection(items):
    """8 threads, each with cursors of its own: each sees its own writes at once, and no row is lost or torn."""
    items.execute("CREATE TABLE t (thread INT, n INT, v STRING, PRIMARY KEY (thread, n))")
    errors = []

    def work(thread):
        try:
            cursor, reader = items.cursor(), items.cursor()
            for n in range(0, 60, 3):
                cursor.execute("INSERT INTO t VALUES (?, ?, ?)", [thread, n, f"{thread}-{n}"])
                cursor.executemany(
                    "UPSERT INTO t VALUES (?, ?, ?)", [(thread, n + i, f"{thread}-{n + i}") for i in (1, 2)]
                )
                assert reader.execute("SELECT v FROM t WHERE thread = ? AND n = ?", [thread, n + 2]).fetchall() == [
                    (f"{thread}-{n + 2}",)
                ]
                count = reader.execute("SELECT count(*), max(n) FROM t WHERE thread = ?", [thread]).fetchone()
                assert count == (n + 3, n + 2)
                with items.at(items.last_timestamp) as view:
                    assert view.execute("SELECT count(*) FROM t WHERE thread = ?", [thread]).fetchone() == (n + 3,)
                for row_thread, row_n, value in reader.execute("SELECT * FROM t"):
                    assert value == f"{row_thread}-{row_n}"
                with pytest.raises(nyala.IntegrityError):
                    cursor.execute("INSERT INTO t VALUES (?, ?, ?)", [thread, n, "again"])
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert items.execute("SELECT count(*), count(DISTINCT thread) FROM t").fetchone() == (480, 8)


def test_bigint_counts(items):
    cursor = items.execute("SELECT count(*) AS n FROM items")
    assert cursor.description[0][:2] == ("n", BIGINT)
    assert cursor.fetchone() == (5,)
