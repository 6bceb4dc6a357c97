"""docs/types.md's table of conversions, by every way in: the same stored value, or the same refusal."""

from __future__ import annotations

import datetime
import decimal
import enum
import re
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import nyala
import pandas as pd
import pyarrow as pa
import pytest
from embedded_server_support import ServedStore
from nyala import col
from nyala.errors import DataError, InterfaceError, RowsRefused, TextTooLong


class Status(str, enum.Enum):  # noqa: UP042
    """The usual enumeration of a web application; `str` of it is `Status.ACTIVE`."""

    ACTIVE = "active"


class Level(enum.IntEnum):
    """An enumeration of integers."""

    HIGH = 7


class Color(enum.Enum):
    """An enumeration of neither."""

    RED = "red"


class Loud(str):
    """A text that spells itself otherwise."""

    def __str__(self) -> str:
        return f"<<{str.__str__(self)}>>"

    __repr__ = __str__


def _noisy(base: Any) -> Any:
    return type(f"My{base.__name__}", (base,), {"__str__": lambda self: "no!", "__repr__": lambda self: "no!"})


NAMES: dict[str, Any] = {
    "Status": Status, "Level": Level, "Color": Color, "Loud": Loud,
    "MyInt": _noisy(int), "MyFloat": _noisy(float), "MyDecimal": _noisy(decimal.Decimal), "MyBytes": _noisy(bytes),
    "MyDate": _noisy(datetime.date), "MyDatetime": _noisy(datetime.datetime),
    "Decimal": decimal.Decimal, "date": datetime.date, "datetime": datetime.datetime, "time": datetime.time,
    "timedelta": datetime.timedelta, "UUID": uuid.UUID, "np": np, "pd": pd, "pa": pa,
    "nan": float("nan"), "inf": float("inf"), "CEST": datetime.timezone(datetime.timedelta(hours=2)),
}  # fmt: skip
PAGE = Path(nyala.__file__).parent / "docs" / "types.md"
REFUSED = "-"


def table() -> tuple[list[str], dict[str, list[str]]]:
    """The column types of the page's table, and its cells by the expression of each value."""
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    (_, *types), *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
    return types, {expression: cells for expression, *cells in rows}


TYPES, CELLS = table()


def shown(value: Any) -> str:
    """A stored value as the page spells it."""
    if isinstance(value, bytes | str):
        return ascii(value)
    return "NULL" if value is None else str(value)


# ---- the ways in -------------------------------------------------------------------------------------------------

Way = Callable[[Any, Any, Any], Any]
_EMPTY = "INSERT INTO t VALUES (1, NULL)"


def _after(connection: Any, change: Callable[[], Any]) -> None:
    connection.execute(_EMPTY)
    change()


def _session(c: Any, t: Any, v: Any) -> None:
    with c.new_session("MANUAL_FLUSH") as session:
        session.insert("t", {"k": 1, "v": v})


def _frame(c: Any, t: Any, v: Any) -> None:
    t.insert(pd.DataFrame({"k": [1], "v": pd.Series([v], dtype=object)}))


WAYS: dict[str, Way] = {
    "?": lambda c, t, v: c.execute("INSERT INTO t VALUES (1, ?)", [v]),
    ":name": lambda c, t, v: c.execute("INSERT INTO t VALUES (1, :v)", {"v": v}),
    "rows of ?": lambda c, t, v: c.execute("INSERT INTO t VALUES (1, ?), (2, ?)", [v, v]),
    "UPSERT": lambda c, t, v: c.execute("UPSERT INTO t VALUES (1, ?)", [v]),
    "UPDATE by key": lambda c, t, v: _after(c, lambda: c.execute("UPDATE t SET v = ? WHERE k = 1", [v])),
    "UPDATE": lambda c, t, v: _after(c, lambda: c.execute("UPDATE t SET v = ?", [v])),
    "executemany": lambda c, t, v: c.executemany("INSERT INTO t VALUES (?, ?)", [(1, v), (2, None)]),
    "executemany of constants": lambda c, t, v: c.executemany("INSERT INTO t (v, k) VALUES (:v, 1)", [{"v": v}]),
    "dict": lambda c, t, v: t.insert({"k": 1, "v": v}),
    "tuple": lambda c, t, v: t.upsert((1, v)),
    "update": lambda c, t, v: _after(c, lambda: t.update({"k": 1, "v": v})),
    "tuples": lambda c, t, v: t.insert([(1, v), (2, v)]),
    "dicts": lambda c, t, v: t.insert([{"k": 1, "v": v}, {"k": 2}]),
    "session": _session,
    "load of dicts": lambda c, t, v: c.load("t", [{"k": 1, "v": v}]),
    "load of tuples": lambda c, t, v: c.load("t", iter([(1, v)])),
    "load of columns": lambda c, t, v: c.load("t", {"k": [1], "v": [v]}),
}


@pytest.fixture(scope="module")
def database() -> Iterator[Any]:
    with nyala.connect(":memory:", threads=1) as connection:
        yield connection


def stored(database: Any, way: Way, value: Any) -> str:
    """Stored value of one way of writing, as the page spells it."""
    database.execute("DELETE FROM t")
    try:
        way(database, database.table("t"), value)
    except (DataError, InterfaceError):
        return REFUSED
    except RowsRefused as error:
        assert isinstance(error.refused[0].error, DataError | InterfaceError)
        return REFUSED
    return shown(database.execute("SELECT v FROM t WHERE k = 1").fetchone()[0])


@pytest.mark.embedded_only("converts values before any store has them, in a minute of cases")
@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("place", range(len(TYPES)), ids=TYPES)
def test_every_way_in_stores_what_the_page_says(database: Any, place: int, way: str) -> None:
    database.execute(f"DROP TABLE IF EXISTS t; CREATE TABLE t (k INT PRIMARY KEY, v {TYPES[place]})")
    found = {text: stored(database, WAYS[way], eval(text, dict(NAMES))) for text in CELLS}
    assert found == {text: cells[place].strip("`") for text, cells in CELLS.items()}


SERVED_TYPES = ("BIGINT", "STRING")
SERVED = ("?", ":name", "rows of ?", "UPDATE by key", "executemany", "dict", "tuples", "session", "load of dicts")
"""Ways in that go over the wire in messages of their own: single rows, batches, loads."""


@pytest.mark.slow
def test_a_served_directory_stores_the_same() -> None:
    with ServedStore() as served_store:
        served = served_store.connection()
        for place in (TYPES.index(name) for name in SERVED_TYPES):
            served.execute(f"DROP TABLE IF EXISTS t; CREATE TABLE t (k INT PRIMARY KEY, v {TYPES[place]})")
            for way in SERVED:
                found = {text: stored(served, WAYS[way], eval(text, dict(NAMES))) for text in CELLS}
                assert found == {text: cells[place].strip("`") for text, cells in CELLS.items()}, (way, TYPES[place])


def test_a_refusal_is_of_one_class(database: Any) -> None:
    for type_, value, kind in (
        ("INT", 1.5, "InvalidText"),
        ("INT", 2**40, "NumericOutOfRange"),
        ("INT", uuid.UUID(int=1), "InterfaceError"),
        ("VARCHAR(3)", "four", "TextTooLong"),
        ("CHAR(3)", 1234, "TextTooLong"),
        ("VARCHAR(3)", Loud("four"), "TextTooLong"),
    ):
        database.execute(f"DROP TABLE IF EXISTS t; CREATE TABLE t (k INT PRIMARY KEY, v {type_})")
        for name, way in WAYS.items():
            database.execute("DELETE FROM t")
            with pytest.raises((DataError, InterfaceError, RowsRefused)) as raised:
                way(database, database.table("t"), value)
            error = raised.value.refused[0].error if isinstance(raised.value, RowsRefused) else raised.value
            assert type(error).__name__ == kind, name


ARROW = {
    "int": pa.array([1, 0, None]), "uint": pa.array([1], pa.uint64()), "bool": pa.array([True, None]),
    "double": pa.array([2.0, 2.345, None]), "whole": pa.array([2.0]), "nan": pa.array([float("nan")]),
    "float": pa.array([1.5], pa.float32()), "decimal": pa.array([decimal.Decimal("2.345"), decimal.Decimal("-2.345")]),
    "text": pa.array(["1", None]), "view": pa.array(["a"], pa.string_view()),
    "large": pa.array(["2024-01-31"], pa.large_string()),
    "spelt": pa.array([r"\x6162", r"a\000", None]), "spelt codes": pa.array([r"\x61"]).dictionary_encode(),
    "backslash": pa.array(["a", r"a\b"]), "large spelt": pa.array([r"\x61"], pa.large_string()),
    "bytes": pa.array([b"ab", rb"\x61"]), "day": pa.array([datetime.date(2024, 1, 31)]),
    "moment": pa.array([datetime.datetime(2024, 1, 31, 10)]), "ns": pa.array([-1, 1001], pa.timestamp("ns")),
    "zone": pa.array([0], pa.timestamp("us", "Europe/Berlin")), "dictionary": pa.array(["7", "8"]).dictionary_encode(),
    "null": pa.nulls(2), "list": pa.array([[1]]), "time": pa.array([datetime.time(10)]), "huge": pa.array([1e300]),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    [
        "TINYINT",
        "BIGINT",
        "FLOAT",
        "DOUBLE",
        "DECIMAL(9,2)",
        "BOOLEAN",
        "DATE",
        "TIMESTAMP",
        "STRING",
        "VARCHAR(3)",
        "BINARY",
    ],
)
def test_arrow_data_is_stored_as_python_values_are(database: Any, kind: str) -> None:
    database.execute(f"DROP TABLE IF EXISTS t; CREATE TABLE t (k INT PRIMARY KEY, v {kind})")
    ways: dict[str, Callable[[Any], Any]] = {
        "load": lambda array: database.load("t", pa.table({"k": range(len(array)), "v": array})),
        "insert": lambda array: database.table("t").insert(pa.table({"k": range(len(array)), "v": array})),
        "columns": lambda array: database.load("t", {"k": range(len(array)), "v": array}),
        "rows": lambda array: database.table("t").insert([(i, value) for i, value in enumerate(array)]),
    }
    for name, array in ARROW.items():
        found = {}
        for way, write in ways.items():
            database.execute("DELETE FROM t")
            try:
                write(array)
                found[way] = str(database.execute("SELECT v FROM t ORDER BY k").fetchall())
            except (DataError, InterfaceError, RowsRefused):
                found[way] = REFUSED
        assert len(set(found.values())) == 1, (name, found)


def test_arrow_data_beyond_a_columns_type_is_refused(database: Any) -> None:
    wide = pa.Array.from_buffers(
        pa.decimal128(9, 2), 1, [None, pa.array([decimal.Decimal(10**12)], pa.decimal128(38, 0)).buffers()[1]]
    )
    days, moments = (pa.array([4_000_000], pa.int32()).cast(pa.date32()), pa.array([2**62]).cast(pa.timestamp("us")))
    for kind, array in (("DECIMAL(9,2)", wide), ("DATE", days), ("TIMESTAMP", moments)):
        database.execute(f"DROP TABLE IF EXISTS t; CREATE TABLE t (k INT PRIMARY KEY, v {kind})")
        for write in (lambda rows: database.load("t", rows), database.table("t").insert):
            with pytest.raises(DataError, match="out of range"):
                write(pa.table({"k": [1], "v": array}))


def test_enumerations_of_texts_are_their_texts_everywhere(database: Any) -> None:
    database.execute("DROP TABLE IF EXISTS t; CREATE TABLE t (s STRING PRIMARY KEY, n INT)")
    t = database.table("t")
    t.insert({"s": Status.ACTIVE, "n": 1})
    assert t.get("active") == t.get(Status.ACTIVE) == {"s": "active", "n": 1}
    for condition in (col("s") == Status.ACTIVE, ("s", "=", Loud("active")), col("s").starts_with(Loud("act"))):
        assert t.scan(predicates=condition if not isinstance(condition, tuple) else [condition]).count() == 1
    for text, expected in (
        ("SELECT ?", Status.ACTIVE.value),
        ("SELECT n FROM t WHERE s = ?", 1),
        ("SELECT count(*) FROM t WHERE s IN (?, 'x')", 1),
        ("SELECT concat(?, '')", "active"),
    ):
        [found] = database.execute(text, [Status.ACTIVE]).fetchone()
        assert (found, type(found)) == (expected, type(expected))
    t.update({"s": Status.ACTIVE, "n": Level.HIGH})
    assert database.execute("UPDATE t SET n = n + 1 WHERE s = ?", [Loud("active")]).rowcount == 1
    t.delete({"s": Status.ACTIVE})
    assert t.scan().count() == 0


def test_texts_of_values_are_never_cut(database: Any) -> None:
    database.execute("DROP TABLE IF EXISTS t; CREATE TABLE t (k INT PRIMARY KEY, v VARCHAR(3))")
    for text in (
        "INSERT INTO t VALUES (1, 12345)",
        "INSERT INTO t VALUES (1, DATE '2024-01-31')",
        "INSERT INTO t SELECT 1, 12.25",
        "INSERT INTO t VALUES (1, 'four')",
        "UPSERT INTO t SELECT 1, s FROM (VALUES ('four')) AS v (s)",
    ):
        with pytest.raises(TextTooLong, match="too long") as raised:
            database.execute(text)
        assert raised.value.sqlstate == "22001"
    for array in (pa.array(["four"]), pa.array(["four"]).dictionary_encode(), pa.array(["four"], pa.large_string())):
        for write in (lambda rows: database.load("t", rows), database.table("t").insert):
            with pytest.raises(TextTooLong, match="too long"):
                write(pa.table({"k": [1], "v": array}))


def test_the_table_is_read_whole() -> None:
    assert len(TYPES) >= 8
    assert len(CELLS) >= 40
    assert all(re.fullmatch(r"[^|]+", cell) for cells in CELLS.values() for cell in cells)
