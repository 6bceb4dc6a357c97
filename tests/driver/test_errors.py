"""Errors that users see, end to end: class, SQLSTATE and message."""

import nyala
import pytest
from nyala import errors


@pytest.fixture
def orders(connection):
    connection.execute(
        "CREATE TABLE orders (id INT PRIMARY KEY, customer STRING NOT NULL, total DECIMAL(10,2), day DATE)"
    )
    connection.execute("INSERT INTO orders VALUES (1, 'ann', 10.00, DATE '2020-01-01')")
    return connection


CASES = [
    ("SELECT * FROM order_s", errors.UnknownTable, "42P01", "table order_s does not exist; did you mean orders?", 14),
    ("SELECT totl FROM orders", errors.UnknownColumn, "42703", "totl", 7),
    ("SELECT summ(total) FROM orders", errors.UnknownFunction, "42883", "summ", 7),
    ("SELECT * FROM orders WHERE day = 5", errors.TypeMismatch, "42804", "DATE", None),
    ("SELECT * FROM orders WHERE total + customer > 1", errors.TypeMismatch, "42804", "STRING", None),
    ("SELECT customer, sum(total) FROM orders", errors.GroupingError, "42803", "customer", None),
    ("SELECT a.id FROM orders a, orders b WHERE id = 1", errors.AmbiguousColumn, "42702", "id", None),
    ("SELEC 1", errors.SqlSyntaxError, "42601", "SELEC", 0),
    ("SELECT (1", errors.SqlSyntaxError, "42601", "", None),
    ("INSERT INTO orders VALUES (1, 'bob', 1, NULL)", errors.AlreadyPresent, "23505", "1", None),
    ("INSERT INTO orders VALUES (2, NULL, 1, NULL)", errors.NotNullViolation, "23502", "customer", None),
    ("INSERT INTO orders (customer) VALUES ('x')", nyala.Error, None, "id", None),
    ("INSERT INTO orders VALUES (2, 'bob', 123456789012.00, NULL)", errors.NumericOutOfRange, "22003", "", None),
    ("SELECT 1 / 0", errors.DivisionByZero, "22012", "", None),
    ("SELECT total / (id - 1) FROM orders", errors.DivisionByZero, "22012", "", None),
    ("SELECT CAST('abc' AS INT)", errors.InvalidText, "22P02", "abc", None),
    ("CREATE TABLE orders (id INT PRIMARY KEY)", errors.DuplicateTable, "42P07", "orders", None),
    ("CREATE TABLE t (a INT)", errors.InvalidTableDefinition, "42P16", "PRIMARY KEY", None),
    ("CREATE TABLE t (a DOUBLE PRIMARY KEY)", errors.InvalidTableDefinition, "42P16", "DOUBLE", None),
    ("DROP TABLE nothing", errors.UnknownTable, "42P01", "nothing", None),
]


@pytest.mark.parametrize(("text", "error", "sqlstate", "message", "position"), CASES, ids=[c[0] for c in CASES])
def test_a_wrong_statement(orders, text, error, sqlstate, message, position):
    with pytest.raises(error) as raised:
        orders.execute(text).fetchall()
    assert sqlstate in (None, raised.value.sqlstate)
    assert message in str(raised.value)
    if position is not None:
        assert raised.value.position == position
        assert "^" in str(raised.value)
    assert orders.execute("SELECT * FROM orders").fetchall()[0][0] == 1


def test_the_caret_stands_under_the_place(orders):
    with pytest.raises(errors.UnknownColumn) as raised:
        orders.execute("SELECT id,\n       totl\nFROM orders")
    lines = str(raised.value).splitlines()
    assert lines[-2:] == ["LINE 2:        totl", "               ^^^^"]
    assert raised.value.line == 2


def test_the_place_counts_from_the_start_of_the_whole_text(orders):
    text = "SELECT 1;\nSELECT * FROM nowhere"
    with pytest.raises(errors.UnknownTable) as raised:
        orders.execute(text)
    assert text[raised.value.position :] == "nowhere"
    assert "LINE 2: " in str(raised.value)


def test_an_insert_with_one_refused_row_inserts_none(orders):
    with pytest.raises(errors.AlreadyPresent, match="1 of 2 rows refused, none was inserted"):
        orders.execute("INSERT INTO orders VALUES (7, 'x', 1, NULL), (1, 'y', 1, NULL)")
    assert orders.execute("SELECT id, customer FROM orders ORDER BY id").fetchall() == [(1, "ann")]
    orders.execute("INSERT INTO orders VALUES (7, 'x', 1, NULL), (8, 'y', 1, NULL)")


def test_a_damaged_file_is_named_and_never_read_as_data(tmp_path):
    """Flip one byte in the middle of each file of a flushed table: the answer is right, or an error names the file."""
    import pyarrow as pa

    with nyala.connect(tmp_path) as connection:
        connection.execute("CREATE TABLE t (k INT PRIMARY KEY, v STRING)")
        connection.load("t", pa.table({"k": pa.array(range(1000), pa.int32()), "v": [f"v{i}" for i in range(1000)]}))
    expected = [(i, f"v{i}") for i in range(1000)]
    damaged = 0
    for file in sorted(path for path in tmp_path.rglob("*") if path.is_file() and path.stat().st_size):
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 0x40
        original = file.read_bytes()
        file.write_bytes(bytes(content))
        try:
            with nyala.connect(tmp_path) as connection:
                assert connection.execute("SELECT * FROM t ORDER BY k").fetchall() == expected, file
        except errors.CorruptionError as error:
            damaged += 1
            assert error.path.endswith(file.name)
            assert error.sqlstate == "XX001"
            assert error.place
        finally:
            file.write_bytes(original)
    assert damaged >= 2
