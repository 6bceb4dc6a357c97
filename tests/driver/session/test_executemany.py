"""executemany: many rows, few writes; and the same result as one statement per row."""

import datetime
import decimal

import nyala
import pytest
from nyala.driver.session import insert_batches as bulk
from nyala.errors import AlreadyPresent


class CountingStore:
    """Passes everything on and counts the write batches."""

    def __init__(self, store):
        self._store = store
        self.batches = []

    def __getattr__(self, name):
        return getattr(self._store, name)

    def write(self, table, batch):
        self.batches.append(batch.rows.num_rows)
        return self._store.write(table, batch)


@pytest.fixture
def counted(connection):
    connection.execute("CREATE TABLE t (k INT PRIMARY KEY, name STRING, price DECIMAL(10,2), day DATE)")
    store = CountingStore(connection.store)
    connection.session.store = store
    return connection, store.batches


D = decimal.Decimal
AB = [(1, "a", None, None), (2, "b", None, None)]
ROW = (decimal.Decimal("1.25"), datetime.date(2020, 1, 1))


def test_rows_are_written_in_large_batches(counted):
    connection, batches = counted
    rows = [(i, f"n{i}", *ROW) for i in range(bulk.CHUNK_ROWS + 10)]
    cursor = connection.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", rows)
    assert cursor.rowcount == len(rows)
    assert batches == [bulk.CHUNK_ROWS, 10]
    assert connection.execute("SELECT * FROM t ORDER BY k").fetchall() == rows


@pytest.mark.parametrize(
    ("text", "rows", "expected"),
    [
        ("INSERT INTO t (name, k) VALUES (?, ?)", [("a", 1), ("b", 2)], AB),
        ("INSERT INTO t (k, name) VALUES ($2, $1)", [("a", 1)], [(1, "a", None, None)]),
        ("INSERT INTO t (k, name) VALUES (:k, :n)", [{"k": 1, "n": "a"}, {"n": "b", "k": 2}], AB),
        (
            "INSERT INTO t (k, name, price) VALUES (?, 'c', 2.5)",
            [(1,), (2,)],
            [(i, "c", D("2.50"), None) for i in (1, 2)],
        ),
        ("INSERT INTO t (k, day) VALUES (?, ?)", [(1, "2020-02-29")], [(1, None, None, datetime.date(2020, 2, 29))]),
        (
            "INSERT INTO t (k, price) VALUES (?, ?)",
            [(1, 0.1), (2, 3)],
            [(1, None, D("0.10"), None), (2, None, D("3.00"), None)],
        ),
    ],
)
def test_forms_of_insert_take_the_short_road(counted, text, rows, expected):
    connection, batches = counted
    connection.executemany(text, rows)
    assert batches == [len(rows)]
    assert connection.execute("SELECT * FROM t ORDER BY k").fetchall() == expected


@pytest.mark.parametrize(
    ("text", "rows", "expected"),
    [
        ("INSERT INTO t (k, name) VALUES (? + 1, upper(?))", [(1, "a"), (2, "b")], [(2, "A"), (3, "B")]),
        (
            "INSERT INTO t (k, name) VALUES (?, 'x'), (?, 'y')",
            [(1, 2), (3, 4)],
            [(1, "x"), (2, "y"), (3, "x"), (4, "y")],
        ),
        ("INSERT INTO t (k, name) SELECT ?, ?", [(1, "a"), (2, "b")], [(1, "a"), (2, "b")]),
    ],
)
def test_other_statements_run_one_by_one(counted, text, rows, expected):
    connection, _ = counted
    assert connection.executemany(text, rows).rowcount == len(expected)
    assert connection.execute("SELECT k, name FROM t ORDER BY k").fetchall() == expected


def test_no_rows_do_nothing(counted):
    connection, batches = counted
    assert connection.executemany("INSERT INTO t (k) VALUES (?)", []).rowcount == 0
    assert batches == []


def test_a_duplicate_key_says_which_row(counted):
    connection, _ = counted
    with pytest.raises(AlreadyPresent) as error:
        connection.executemany("INSERT INTO t (k) VALUES (?)", [(1,), (2,), (1,)])
    assert "in row 3 of the parameters" in error.value.__notes__[0]


def test_a_wrong_value_is_an_error_of_data(counted):
    connection, _ = counted
    with pytest.raises(nyala.DatabaseError, match="abc"):
        connection.executemany("INSERT INTO t (k, day) VALUES (?, ?)", [(1, "2020-01-01"), (2, "abc")])


def test_rows_of_another_length_are_refused_before_anything_is_written(counted):
    connection, batches = counted
    with pytest.raises(nyala.InterfaceError, match="row 2 of the parameters has 1 values, the first one 2 values"):
        connection.executemany("INSERT INTO t (k, name) VALUES (?, ?)", [(1, "a"), (2,)])
    with pytest.raises(nyala.InterfaceError, match="row 2 of the parameters lacks :n"):
        connection.executemany("INSERT INTO t (k, name) VALUES (:k, :n)", [{"k": 1, "n": "a"}, {"k": 2}])
    assert batches == []


def test_null_in_a_key_is_refused(counted):
    connection, _ = counted
    with pytest.raises(nyala.IntegrityError, match="k"):
        connection.executemany("INSERT INTO t (k) VALUES (?)", [(None,), (2,)])


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ((5, "abcd"), nyala.DataError),
        (("x", "a"), nyala.DataError),
        ((1.5, "a"), nyala.DataError),
        ((5, b"a"), nyala.DataError),
        ((object(), "a"), nyala.InterfaceError),
        ((None, "a"), nyala.IntegrityError),
        ((0, "a"), nyala.IntegrityError),
    ],
)
def test_a_piece_is_written_whole_or_not(connection, monkeypatch, wrong, error):
    monkeypatch.setattr("nyala.driver.session.insert_batches.CHUNK_ROWS", 4)
    connection.execute("CREATE TABLE pieces (k INT PRIMARY KEY, s VARCHAR(3))")
    rows = [(i, "ok") for i in range(12)]
    rows[5] = wrong
    with pytest.raises(error) as raised:
        connection.executemany("INSERT INTO pieces VALUES (?, ?)", rows)
    written = connection.execute("SELECT count(*) FROM pieces").fetchone()
    if isinstance(wrong[0], int | float | str | None):
        assert written == (4,)
        assert "in row 6 of the parameters" in "".join(raised.value.__notes__)
    else:
        assert written == (0,)  # parameters of no type are refused before anything begins
        assert "row 6" in str(raised.value)


def test_to_sql_leaves_nothing_of_a_refused_piece(connection):
    pandas = pytest.importorskip("pandas")
    connection.execute("CREATE TABLE pieces (k INT PRIMARY KEY, s VARCHAR(3))")
    frame = pandas.DataFrame({"k": range(10), "s": ["ok"] * 9 + ["much too long"]})
    with pytest.raises(nyala.DataError):
        connection.executemany("INSERT INTO pieces VALUES (?, ?)", list(frame.itertuples(index=False, name=None)))
    assert connection.execute("SELECT count(*) FROM pieces").fetchone() == (0,)
