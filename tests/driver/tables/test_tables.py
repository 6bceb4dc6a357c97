"""Tables without SQL: rows in every form that they may have, refused rows, scans and their conditions."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
from operator import eq, ge, gt, le, lt, ne

import nyala
import pandas as pd
import pyarrow as pa
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from nyala.driver.tables.conditions import col
from nyala.errors import (
    AlreadyPresent,
    InvalidText,
    NotFound,
    NotNullViolation,
    NotSupportedError,
    RowsRefused,
    TypeMismatch,
    UnknownColumn,
    UnknownTable,
)


@dataclasses.dataclass
class Point:
    k: int
    j: str
    v: float | None = None


@pytest.fixture
def table(connection):
    connection.execute(
        "CREATE TABLE t (k INT, j STRING, v DOUBLE DEFAULT 0.5, n INT NOT NULL DEFAULT 7, PRIMARY KEY (k, j)) "
        "PARTITION BY HASH (k) INTO 3 BUCKETS"
    )
    return connection.table("t")


def rows(table, **options):
    return [tuple(row.values()) for row in table.scan(ordered=True, **options).to_arrow().to_pylist()]


def test_a_table_tells_what_it_is(connection, table):
    assert (table.name, table.key, table.schema.names) == ("t", ("k", "j"), ["k", "j", "v", "n"])
    assert table.partitions == [f"HASH (k) bucket {n} of 3" for n in range(3)]
    table.insert([(k, "", None, 1) for k in range(10)])
    assert table.num_rows == table.count() == sum(tablet.rows for tablet in table.tablets) == 10
    with pytest.raises(UnknownTable, match="table u does not exist"):
        connection.table("u")


@pytest.mark.parametrize(
    "given",
    [
        [{"k": 1, "j": "a", "v": 2}, {"k": 2, "j": "b", "v": None}],
        [{"k": 1, "j": "a", "v": 2.0}, Point(2, "b")],
        [(1, "a", 2.0, 7), (2, "b", None, 7)],
        lambda: ({"k": k, "j": j, "v": v} for k, j, v in [(1, "a", 2), (2, "b", None)]),
        pa.table({"K": pa.array([1, 2], pa.int64()), "j": pa.array(["a", "b"]).dictionary_encode(), "v": [2, None]}),
        pa.record_batch({"k": [1, 2], "j": ["a", "b"], "v": [2.0, None]}),
        [pa.table({"k": [1], "j": ["a"], "v": [2.0]}), {"k": 2, "j": "b", "v": None}],
        pd.DataFrame({"k": [1, 2], "j": ["a", "b"], "v": [2.0, float("nan")]}),
        pd.DataFrame({"j": ["a", "b"], "v": [2.0, None]}, index=pd.Index([1, 2], name="k")),
    ],
    ids=["dicts", "dataclass", "tuples", "iterator", "table", "batch", "mixed", "frame", "index"],
)
@pytest.mark.parametrize("all_or_none", [False, True])
def test_rows_may_have_any_form(table, given, all_or_none):
    written = table.upsert(given() if callable(given) else given, all_or_none)
    assert (written.applied, written.ignored) == (2, 0)
    assert rows(table) == [(1, "a", 2.0, 7), (2, "b", None, 7)]


def test_a_row_that_lacks_a_column_takes_the_default_or_keeps_its_value(table):
    table.insert([{"k": 1, "j": "a"}, {"k": 2, "j": "b", "v": None, "n": 1}])
    assert rows(table) == [(1, "a", 0.5, 7), (2, "b", None, 1)]
    table.update([{"k": 1, "j": "a", "n": 8}, {"k": 2, "j": "b", "v": 9}])
    assert rows(table) == [(1, "a", 0.5, 8), (2, "b", 9.0, 1)]
    table.update({"k": 1, "j": "a", "v": None})
    assert rows(table)[0] == (1, "a", None, 8)


def test_rows_are_deleted_by_key_whatever_else_is_given(table):
    table.insert([(k, "x", 0.0, k) for k in range(6)])
    table.delete((0, "x"))
    table.delete([(1, "x"), {"k": 2, "j": "x", "v": 5}])
    assert table.delete(table.scan(predicates=col("k") < 5)).applied == 2
    assert table.delete_ignore([(5, "x"), (6, "x")]).ignored == 1
    assert rows(table) == []


def test_refused_rows_are_listed_and_the_others_are_written(table):
    table.insert([(1, "a", 1.0, 1)])
    with pytest.raises(RowsRefused, match=r"(?s)2 of 4 rows .* row 2 \(k = 1, j = 'a'\): AlreadyPresent") as caught:
        table.insert([(0, "a", 1.0, 1), (1, "a", 2.0, 2), (2, "a", 1.0, None), (3, "a", 1.0, 1)])
    found = caught.value
    assert [(r.row, r.key["k"], type(r.error)) for r in found.refused] == [
        (1, 1, AlreadyPresent),
        (2, 2, NotNullViolation),
    ]
    assert found.applied == 2 and isinstance(found, nyala.IntegrityError)
    assert [row[0] for row in rows(table)] == [0, 1, 3]
    with pytest.raises(RowsRefused) as caught:
        table.update({"k": 8, "j": "", "v": 1})
    assert isinstance(caught.value.refused[0].error, NotFound)


def test_all_or_none_keeps_all_rows_out(table):
    with pytest.raises(RowsRefused, match="none was written"):
        table.insert([(0, "a", 1.0, 1), (0, "a", 1.0, 1)], all_or_none=True)
    assert table.count() == 0


def test_row_numbers_count_over_all_pieces(table, monkeypatch):
    monkeypatch.setattr("nyala.driver.tables.given_rows.CHUNK_ROWS", 3)
    monkeypatch.setattr("nyala.driver.tables.row_writes.CHUNK_ROWS", 3)
    with pytest.raises(RowsRefused) as caught:
        table.insert((k % 7, "a", 0.0, 1) for k in range(10))
    assert [row.row for row in caught.value.refused] == [7, 8, 9]


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"k": 1, "jj": "a"}, UnknownColumn, "column jj does not exist in table t; table t has"),
        ({"k": 1}, NotNullViolation, "key column j"),
        ({"k": "one", "j": "a"}, InvalidText, "column k"),
        ([{"k": 1, "j": "a", "v": "x"}], InvalidText, "column v, row 1"),
        ((1, "a"), nyala.InterfaceError, "4 columns: k, j, v, n"),
        (7, nyala.InterfaceError, "a int is no row"),
        ("ab", nyala.InterfaceError, "a str is no row"),
        ([1, 2], nyala.InterfaceError, "a int is no row"),
        (pa.table({"k": [1.5], "j": ["a"]}), nyala.DataError, "t.k: double is no INT"),
    ],
)
def test_what_is_no_row_of_the_table_is_an_error(table, given, error, message):
    with pytest.raises(error, match=message):
        table.insert(given)
    assert table.count() == 0


def test_rows_without_a_unique_key_get_numbers(connection):
    connection.execute("CREATE TABLE h (k INT, v INT, NON UNIQUE PRIMARY KEY (k))")
    table = connection.table("h")
    table.insert([(1, 1), (1, 2), {"k": 1, "v": 3}])
    assert table.key == ("k", "auto_incrementing_id") and table.schema.names == ["k", "v"]
    assert sorted(table.scan(["v"]).to_arrow()["v"].to_pylist()) == [1, 2, 3]
    table.delete(table.scan(["k", "auto_incrementing_id"], col("v") == 2))
    assert table.count() == 2


# ---- one row by its key ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", [(1, "a"), {"k": 1, "j": "a", "v": 9}, Point(1, "a"), ("1", "a")])
def test_a_row_by_its_key_in_any_form(table, key):
    table.insert([(1, "a", 2.0, 7), (1, "b", None, 8)])
    assert table.get(key) == {"k": 1, "j": "a", "v": 2.0, "n": 7}
    assert list(table.get(key, ["n", "k"]).items()) == [("n", 7), ("k", 1)]
    assert table.get((1, "c")) is None
    table.delete((1, "a"))
    assert table.get(key) is None


def test_a_row_by_its_key_at_a_time(connection, table):
    table.insert((1, "a", 2.0, 7))
    before = connection.store.now()
    table.update({"k": 1, "j": "a", "n": 8})
    connection.store.flush()
    assert (table.get((1, "a"))["n"], table.get((1, "a"), as_of=before)["n"]) == (8, 7)
    with connection.at(before) as past:
        assert past.table("t").get((1, "a"), ["n"]) == {"n": 7}


def test_a_key_of_one_column_may_be_bare(connection):
    connection.execute("CREATE TABLE days (day DATE PRIMARY KEY, v INT); INSERT INTO days VALUES ('2026-01-31', 1)")
    days = connection.table("days")
    for key in (datetime.date(2026, 1, 31), "2026-01-31", ("2026-1-31",), {"day": "2026-01-31"}):
        assert days.get(key, ["v"]) == {"v": 1}
    with pytest.raises(InvalidText, match="column day"):
        days.get("someday")


@pytest.mark.parametrize(
    ("key", "error", "message"),
    [
        (1, nyala.InterfaceError, "a int is no key of table t"),
        ([1, "a"], nyala.InterfaceError, "a list is no key of table t"),
        ((1,), nyala.InterfaceError, "2 columns: k, j"),
        ({"j": "a"}, NotNullViolation, "key column k"),
        ((None, "a"), TypeMismatch, "key column k of table t is never NULL"),
        (("one", "a"), InvalidText, "column k"),
    ],
)
def test_what_is_no_key_of_the_table_is_an_error(table, key, error, message):
    with pytest.raises(error, match=message):
        table.get(key)
    with pytest.raises(UnknownColumn):
        table.get((1, "a"), ["w"])


# ---- scans -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def kinds(connection):
    connection.execute(
        "CREATE TABLE kinds (k BIGINT PRIMARY KEY, i SMALLINT, d DECIMAL(30,2), f DOUBLE, day DATE, at TIMESTAMP, "
        "s STRING, b BINARY, y BOOLEAN) PARTITION BY HASH (k) INTO 2 BUCKETS"
    )
    table = connection.table("kinds")
    day = datetime.date(2020, 1, 1)
    made = []
    for k in range(40):
        null = k % 5 == 4
        at = datetime.datetime(2020, 1, 1, k % 24)
        cells = (k % 7, decimal.Decimal(k) / 4, k / 2, day + datetime.timedelta(k % 9), at, "ab"[k % 2] * (k % 4))
        made.append((k, *((None,) * 8 if null else (*cells, bytes([k % 3]), k % 2 == 0))))
    table.insert(made[:25])
    connection.store.flush()
    table.insert(made[25:])
    return table, made


VALUES = {
    "k": 20,
    "i": 3,
    "d": decimal.Decimal("4.25"),
    "f": 7.5,
    "day": datetime.date(2020, 1, 5),
    "at": datetime.datetime(2020, 1, 1, 11),
    "s": "bb",
    "b": b"\1",
    "y": True,
}


@pytest.mark.parametrize("operator", [eq, ne, lt, le, gt, ge])
def test_comparisons_are_pythons_and_null_is_none_of_them(kinds, operator):
    table, made = kinds
    for place, (name, value) in enumerate(VALUES.items()):
        expected = [row[0] for row in made if row[place] is not None and operator(row[place], value)]
        found = table.scan(["k"], operator(col(name), value), ordered=True).to_arrow()["k"].to_pylist()
        assert found == expected, name
        assert table.count(operator(table[name], value)) == len(expected)


def test_other_conditions(kinds):
    table, made = kinds
    for condition, test in [
        (col("i").between(2, 4), lambda r: r[1] is not None and 2 <= r[1] <= 4),
        (col("i").is_in([1, 5, 5]), lambda r: r[1] in (1, 5)),
        (col("i").is_in([]), lambda r: False),
        (col("i").not_in([1, 5]), lambda r: r[1] not in (1, 5, None)),
        (col("s").starts_with("a"), lambda r: (r[6] or "").startswith("a")),
        (col("y").is_null(), lambda r: r[8] is None),
        (col("y").is_not_null() & (col("k") < 9), lambda r: r[8] is not None and r[0] < 9),
        ((col("i") < 2) | (col("i") == 6) | col("i").is_null(), lambda r: r[1] is None or r[1] in (0, 1, 6)),
        ([("i", ">=", 3), ("s", "is not null")], lambda r: r[1] is not None and r[1] >= 3),
        (("i", "not in", [3]), lambda r: r[1] not in (3, None)),
        (("day", "<", "2020-01-03"), lambda r: r[4] is not None and r[4].day < 3),
    ]:
        expected = [row[0] for row in made if test(row)]
        assert table.scan(["k"], condition, ordered=True).to_arrow()["k"].to_pylist() == expected, condition


@pytest.mark.parametrize(
    ("condition", "error", "message"),
    [
        (col("kk") == 1, UnknownColumn, "table kinds has"),
        (col("k") == "1", TypeMismatch, "k is BIGINT; '1'"),
        (col("k") == 1.5, TypeMismatch, "1.5"),
        (col("k") == True, TypeMismatch, "True"),  # noqa: E712
        (col("i") < 1 << 20, TypeMismatch, "SMALLINT"),
        (col("d") < decimal.Decimal("0.125"), TypeMismatch, "more digits"),
        (col("day") < datetime.datetime(2020, 1, 1), TypeMismatch, "DATE"),
        (col("f") == float("nan"), TypeMismatch, "NaN"),
        (col("k") == None, TypeMismatch, "is_null"),  # noqa: E711
        (col("k").starts_with("a"), TypeMismatch, "starts_with is for"),
        (("k", "=>", 1), nyala.InterfaceError, "there is no operator"),
        (("k", "between", 1), nyala.InterfaceError, "takes 2 values"),
        (("k", "in", 1), nyala.InterfaceError, "list of values"),
        (5, nyala.InterfaceError, "is not a condition"),
    ],
)
def test_conditions_that_cannot_be(kinds, condition, error, message):
    with pytest.raises(error, match=message):
        kinds[0].scan(predicates=condition)


def test_or_is_for_one_column_and_conditions_have_no_truth():
    with pytest.raises(NotSupportedError, match="one column"):
        (col("a") == 1) | (col("b") == 1)
    with pytest.raises(nyala.InterfaceError, match="&"):
        assert col("a") == 1 and col("b") == 1


def test_a_scan_keeps_its_moment_and_may_be_read_again(table):
    table.insert([(k, "", 0.0, 0) for k in range(9)])
    with table.scan(["n", "k"], batch_rows=2, ordered=True) as scan:
        table.delete([(k, "") for k in range(8)])
        assert [batch.num_rows for batch in scan] == [batch.num_rows for batch in scan.reader()]
        assert max(batch.num_rows for batch in scan) == 2
        assert scan.schema.names == ["n", "k"] and scan.to_arrow().schema == scan.schema
        assert pa.table(scan).num_rows == len(scan.to_pandas()) == scan.count() == 9
        half_read = iter(scan)
        next(half_read)
    for read in (scan.count, scan.to_arrow, lambda: next(half_read)):
        with pytest.raises(nyala.InterfaceError, match="closed"):
            read()
    assert table.count(as_of=scan.snapshot) == 9 and table.count() == 1


def test_as_of_takes_what_system_time_takes(connection, table):
    before = table.insert([(1, "", 0.0, 0)]).timestamp
    moment = datetime.datetime.now(datetime.UTC)
    table.insert([(2, "", 0.0, 0)])
    for as_of in (before, moment, moment.replace(tzinfo=None), str(moment.replace(tzinfo=None))):
        assert table.count(as_of=as_of) == 1
    with pytest.raises(nyala.DataError, match="future"):
        table.scan(as_of=moment + datetime.timedelta(days=1))
    with pytest.raises(nyala.InterfaceError, match="not a point in time"):
        table.scan(as_of=1.5)
    with connection.at(before) as past:
        assert past.table("t").count() == 1
        with pytest.raises(NotSupportedError, match="changes nothing"):
            past.table("t").delete((1, ""))


@settings(max_examples=examples(63), deadline=None)
@given(
    st.lists(st.tuples(st.integers(-5, 5), st.text("ab", max_size=3)), unique=True, max_size=40),
    st.integers(0, 3),
    st.none() | st.integers(0, 20),
)
def test_ordered_scans_merge_tablets(keys, flushes, limit):
    with nyala.connect(":memory:", threads=1) as connection:
        connection.execute(
            "CREATE TABLE t (k INT, j STRING, PRIMARY KEY (k, j)) PARTITION BY HASH (j) INTO 3 BUCKETS, "
            "RANGE (k) (PARTITION VALUES < 0, PARTITION 0 <= VALUES)"
        )
        table = connection.table("t")
        for part in range(flushes + 1):
            table.insert(keys[part :: flushes + 1])
            if part < flushes:
                connection.store.flush()
        scan = table.scan(["j"], ordered=True, limit=limit, batch_rows=5)
        assert scan.to_arrow()["j"].to_pylist() == [j for _, j in sorted(keys)][:limit]
        assert scan.count() == len(sorted(keys)[:limit])


def test_projections_and_numbers_that_cannot_be(table):
    for wrong in (["k", "k"], []):
        with pytest.raises(nyala.InterfaceError, match="a scan of table t names"):
            table.scan(wrong)
    with pytest.raises(UnknownColumn, match="table t has j, k, n, v"):
        table["kk"]
    for wrong in ({"limit": -1}, {"batch_rows": 0}, {"limit": True}):
        with pytest.raises(nyala.InterfaceError, match="whole number"):
            table.scan(**wrong)


def test_a_handle_outlives_alterations_of_other_columns(connection, table):
    table.insert((1, "a", 1.0, 1))
    connection.execute("ALTER TABLE t ADD COLUMN x INT DEFAULT 3")
    connection.execute("ALTER TABLE t DROP COLUMN v")
    table.insert({"k": 2, "j": "b"})
    assert table.scan(["k", "n"], ordered=True).to_arrow().to_pydict() == {"k": [1, 2], "n": [1, 7]}
    assert connection.table("t").scan(["x"]).to_arrow()["x"].to_pylist() == [3, 3]
    with pytest.raises(UnknownColumn, match="v"):
        table.scan()
    connection.execute("DROP TABLE t")
    with pytest.raises(UnknownTable, match="dropped"):
        table.insert({"k": 3, "j": "b"})
