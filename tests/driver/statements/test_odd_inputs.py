"""Odd inputs: each returns a result, or is refused with an error that says why."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import nyala
import pytest
from nyala import errors


@pytest.fixture
def connection() -> Iterator[nyala.Connection]:
    with nyala.connect(":memory:", threads=1) as found:
        found.execute("CREATE TABLE r (k INT PRIMARY KEY, a INT, s VARCHAR); INSERT INTO r VALUES (1, 2, 'x')")
        yield found


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("SELECT " + "9" * 5000, errors.NumericOutOfRange, "38 digits"),
        ("SELECT '\ud800'", errors.SqlSyntaxError, "half a character"),
        ('SELECT ""', errors.SqlSyntaxError, "a quoted name is empty"),
        ("SELECT 1 /* and so on", errors.SqlSyntaxError, "a comment is not closed"),
        ("SELECT * FROM ..r", errors.SqlSyntaxError, "a name is missing"),
        ("DROP TABLE ..r", errors.SqlSyntaxError, "a name is missing"),
        ("SELECT " + "- " * 20_000 + "a FROM r", errors.StatementTooComplex, "nested too deeply"),
        ("SELECT " + " + ".join("a" * 20_000) + " FROM r", errors.StatementTooComplex, "nested too deeply"),
        ("SELECT 'a' LIKE 'a!' ESCAPE '!'", errors.DataError, "ends in an escape character with nothing to escape"),
        ("SELECT repeat('ab', 9223372036854775807)", errors.DataError, "longer than the limit"),
    ],
)
def test_texts_that_are_refused(connection: nyala.Connection, text: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        connection.execute(text)


@pytest.mark.parametrize(
    "value",
    [
        "-(-2147483647 - 1)",
        "-(-9223372036854775807 - 1)",
        "DATE '9999-12-31' + 1",
        "DATE '0001-01-01' - 1",
        "DATE '2024-01-01' + INTERVAL '9999999 days'",
        "INTERVAL '1' YEAR * 1000000000",
        "INTERVAL '178956970 years' + INTERVAL '1 year'",
        "DATE '2024-01-01' + INTERVAL '1' YEAR * 1000000000",
    ],
)
def test_constants_out_of_range_fail_when_a_row_needs_them(connection: nyala.Connection, value: str) -> None:
    with pytest.raises(errors.NumericOutOfRange):
        connection.execute(f"SELECT {value} FROM r").fetchall()
    assert connection.execute(f"SELECT {value} FROM r WHERE k > 1").fetchall() == []


def test_an_empty_template_has_no_place_for_digits(connection: nyala.Connection) -> None:
    assert connection.execute("SELECT to_char(1.5, '')").fetchall()[0][0].strip() == ""


def test_a_parameter_may_be_cast_in_short(connection: nyala.Connection) -> None:
    assert connection.execute("SELECT ?::BIGINT", ("7",)).fetchall() == [(7,)]


@pytest.mark.parametrize("text", ["SELECT a AS ? FROM r", "SELECT * FROM r ?", "SELECT * FROM r AS x (?)"])
def test_a_parameter_is_no_name(connection: nyala.Connection, text: str) -> None:
    with pytest.raises(errors.SqlSyntaxError, match="a parameter is a value"):
        connection.execute(text, ("b",))


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda c: c.execute(None), errors.InterfaceError),
        (lambda c: c.execute(b"SELECT 1"), errors.InterfaceError),
        (lambda c: c.executemany("DELETE FROM r WHERE k = ?", None), errors.InterfaceError),
        (lambda c: c.executemany("INSERT INTO r (k, s) VALUES (?, ?)", [(2, "\udfff")]), errors.InvalidText),
        (lambda c: c.execute("SELECT :s", {"s": "\udfff"}), errors.InvalidText),
        (lambda c: c.execute("SELECT ?", (10**5000,)), errors.NumericOutOfRange),
        (lambda c: c.execute("SELECT 1").fetchmany("2"), errors.InterfaceError),
    ],
)
def test_calls_that_are_refused(
    connection: nyala.Connection, call: Callable[[nyala.Cursor], object], error: type[Exception]
) -> None:
    with pytest.raises(error):
        call(connection.cursor())
    assert connection.execute("SELECT count(*) FROM r").fetchall() == [(1,)]


def test_in_takes_values_as_a_query(connection: nyala.Connection) -> None:
    query = "SELECT 2 IN (VALUES (1), (2)), (k, a) IN (VALUES (1, 2)), a NOT IN (VALUES (1), (NULL)) FROM r"
    assert connection.execute(query).fetchall() == [(True, True, None)]


@pytest.mark.parametrize("around", [*" \t\n\v\f\r", "\x1c", "\x1f", "\x85", "\xa0", "\u2003", "\x00"])
@pytest.mark.parametrize("kind", ["INT", "DOUBLE", "DECIMAL(9, 2)", "BOOLEAN", "DATE", "INTERVAL"])
def test_only_white_space_may_stand_around_a_value(around: str, kind: str) -> None:
    text = {"BOOLEAN": "true", "DATE": "2026-11-25", "INTERVAL": "3 days"}.get(kind, "5")
    connection = nyala.connect(":memory:")
    connection.execute("CREATE TABLE t (k INT PRIMARY KEY, v STRING)")
    connection.executemany("INSERT INTO t VALUES (?, ?)", [(1, around + text), (2, text + around)])
    queries = (f"SELECT CAST(v AS {kind}) FROM t", f"SELECT CAST('{around + text}' AS {kind})")
    for query in queries:
        if around in " \t\n\v\f\r":
            plain = connection.execute(f"SELECT CAST('{text}' AS {kind})").fetchone()
            assert set(connection.execute(query).fetchall()) == {plain}
        else:
            with pytest.raises(errors.DataError):
                connection.execute(query).fetchall()
