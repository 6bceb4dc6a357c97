"""The running bound of a top-N: it drops rows, and never one of the first n, for all types, directions and NULLs."""

from __future__ import annotations

import datetime
import random
import re
from collections.abc import Callable
from decimal import Decimal
from itertools import product
from typing import Any

import duckdb
import numpy as np
import nyala
import pyarrow as pa
import pytest
from examples import cases, few
from nyala.executor.kernels.order_words import first_rows, ordered_words, sort_by_words, sort_texts
from nyala.executor.sorting import running_bound, sort_keys
from nyala.executor.sorting.running_bound import RunningBound
from nyala.executor.sorting.sort_keys import order_of, ordered_codes
from nyala.model.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INTERVAL,
    STRING,
    TIMESTAMP,
    TINYINT,
    DataType,
    Kind,
)
from nyala.model.vectors.vector import Batch, Const, Vector, vector_from_arrow
from nyala.sql.expressions import Column, OrderItem

WORDS = [
    "",
    "a",
    "a\0",
    "a\0\0",
    "é",
    "https://example.com/",
    "https://example.com/a",
    "zz" * 40,
    "zz" * 40 + "a",
    "\U0001f600",
]
FLOATS = [0.0, -0.0, 1.5, -1.5, float("nan"), float("inf"), float("-inf"), 5e-324, 1.7e308, -1.7e308]

VALUES: dict[DataType, Callable[[random.Random], Any]] = {
    BIGINT: lambda rng: rng.choice([-(2**63), 2**63 - 1, 0, rng.randint(-(2**63), 2**63 - 1), rng.randint(0, 9)]),
    DOUBLE: lambda rng: rng.choice([*FLOATS, rng.random()]),
    FLOAT: lambda rng: rng.choice([float("nan"), 0.0, -0.0, rng.randint(0, 5) / 4]),
    DataType(Kind.DECIMAL, 38, 0): lambda rng: rng.choice(
        [Decimal(10**38 - 1), Decimal(1 - 10**38), Decimal(2**64), Decimal(rng.randint(-5, 5)), Decimal(-(2**64))]
    ),
    DataType(Kind.DECIMAL, 9, 2): lambda rng: Decimal(rng.randint(-500, 500)) / 100,
    STRING: lambda rng: rng.choice([*WORDS, "".join(rng.choices("ab\0é", k=rng.randint(0, 50)))]),
    BINARY: lambda rng: bytes(rng.choices([0, 1, 255], k=rng.randint(0, 10))),
    TIMESTAMP: lambda rng: datetime.datetime(2024, 1, 1) + datetime.timedelta(microseconds=rng.randint(-9, 9)),
    DATE: lambda rng: datetime.date(2024, 1, 1) + datetime.timedelta(days=rng.randint(-9, 9)),
    BOOLEAN: lambda rng: rng.random() < 0.5,
    TINYINT: lambda rng: rng.randint(-128, 127),
}


def vector_of(type_: DataType, values: list[Any], form: int) -> Vector:
    """The values as one of the forms that a scan returns."""
    array = pa.array(values, type_.arrow)
    if type_.is_text and form == 1:
        return vector_from_arrow(type_, array.dictionary_encode())
    if form == 2 and len(set(map(repr, values))) == 1 and not type_.is_decimal and type_ is not INTERVAL:
        return Const(type_, None if values[0] is None else vector_from_arrow(type_, array).values()[0], len(values))
    return vector_from_arrow(type_, array)


def rank_of(type_: DataType, value: Any, item: OrderItem) -> tuple[Any, ...]:
    """A key by which Python sorts as SQL does."""
    if value is None:
        return (0 if item.nulls_first else 2,)
    if type_.is_float:
        value = (1, 0.0) if value != value else (0, np.float32(value).item() if type_ is FLOAT else value)
    elif isinstance(value, str):
        value = value.encode()
    return 1, _Reversed(value) if item.descending else value


class _Reversed:
    def __init__(self, value: Any):
        self.value = value

    def __lt__(self, other: _Reversed) -> bool:
        return bool(other.value < self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Reversed) and bool(other.value == self.value)

    def __hash__(self) -> int:
        return hash(self.value)


def few_values(draw: Callable[[random.Random], Any], rng: random.Random) -> Callable[[random.Random], Any]:
    values = [draw(rng) for _ in range(rng.randint(1, 2))]
    return lambda rng: rng.choice(values)


@pytest.mark.parametrize("seed", range(cases(60)))
def test_the_first_rows_of_all_types_and_orders_are_those_of_a_sort(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running_bound, "FEW_ROWS", 1)
    rng = random.Random(seed)
    types = [rng.choice(list(VALUES)) for _ in range(rng.choice([1, 1, 2, 3, 5]))]
    # Few values, too: keys that fit into one integer, and columns of one value.
    draws = [VALUES[t] if rng.random() < 0.6 else few_values(VALUES[t], rng) for t in types]
    items = [OrderItem(Column(i, "", t), rng.random() < 0.5, rng.random() < 0.5) for i, t in enumerate(types)]
    wanted, ties = rng.choice([1, 2, 7, 40]), rng.random() < 0.3
    bound = RunningBound(items, wanted, ties)
    keys = [lambda batch, i=i: batch.column(i) for i in range(len(types))]
    nulls = rng.choice([0, 0.2, 0.9])
    rows: list[tuple[Any, ...]] = []
    kept: list[tuple[Any, ...]] = []
    for _ in range(12):
        length, form = rng.randint(1, 60), rng.randrange(3)
        columns = [[None if rng.random() < nulls else draw(rng) for _ in range(length)] for draw in draws]
        if form == 2:
            columns[0] = columns[0][:1] * length
        part = list(zip(*columns, strict=True))
        rows += part
        batch = Batch([vector_of(t, c, form) for t, c in zip(types, columns, strict=True)], length)
        left = bound.cut(batch, keys)
        kept += list(zip(*[left.column(i).to_arrow().to_pylist() for i in range(len(types))], strict=True))

    def rank(row: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(rank_of(t, v, item) for t, v, item in zip(types, row, items, strict=True))

    expected, found = sorted(map(rank, rows)), sorted(map(rank, kept))
    count = wanted
    while ties and count < len(expected) and expected[count] == expected[wanted - 1]:
        count += 1
    assert found[:count] == expected[:count]
    assert bound.considered == len(rows) and bound.dropped == len(rows) - len(kept)

    # `order_of` sorts the same rows.
    vectors = [vector_of(t, [row[i] for row in rows], 0) for i, t in enumerate(types)]
    for first in (None, wanted):
        order = order_of(vectors, items, len(rows), first)
        assert [rank(rows[i]) for i in order] == expected[: len(order)]
    full = order_of(vectors, items, len(rows)).tolist()
    assert full == sorted(range(len(rows)), key=lambda i: rank(rows[i])), "equal rows keep their order"


def test_words_of_texts_at_the_end_of_their_buffer() -> None:
    texts = ["abcdefgh" * 5, "abcdefgh" * 5 + "x", "x", "", "ab", "ab\0"]
    for n in range(1, len(texts) + 1):
        array = pa.array(["prefix", *texts[:n], "suffix"]).slice(1, n)
        for same in (array, pa.array(texts[:n])):
            assert [texts[i] for i in sort_texts(same)] == sorted(texts[:n])
    words = ordered_words(vector_from_arrow(STRING, pa.array(texts)), True, False)
    rows, last = first_rows(words, len(texts), 2)
    assert [texts[i] for i in rows] == ["abcdefgh" * 5 + "x", "x"] and last == 1
    assert sort_by_words(words, len(texts))[0] == 2


def test_codes_of_many_texts_are_their_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows and groups rank texts by words if most differ; else by their distinct values."""
    rng = random.Random(5)
    for sampled in (4, 10_000):
        monkeypatch.setattr(sort_keys, "_SAMPLED", sampled)
        for distinct in (3, 500):
            texts = [rng.choice(WORDS) + str(rng.randrange(distinct)) for _ in range(200)]
            values = [None if rng.random() < 0.1 else text for text in texts]
            for descending in (False, True):
                item = OrderItem(Column(0, "", STRING), descending, rng.random() < 0.5)
                codes, size = ordered_codes(vector_of(STRING, values, 0), descending, item.nulls_first)
                ranks = sorted({rank_of(STRING, value, item) for value in values}, key=lambda rank: rank)
                assert int(codes.max()) < size
                by_code = sorted(set(zip(codes.tolist(), [rank_of(STRING, v, item) for v in values], strict=True)))
                assert [rank for _, rank in by_code] == ranks and len({code for code, _ in by_code}) == len(ranks)


# ---- whole statements ------------------------------------------------------------------------------------------------

ROWS = 40_000


@pytest.fixture(scope="module")
def stores() -> Any:
    """The same rows in nyala, in four tablets, some of them changed in memory, and in DuckDB."""
    rng = np.random.default_rng(7)
    null = rng.random(ROWS) < 0.01
    source = pa.table(
        {
            "k": np.arange(ROWS),
            "b": pa.array(rng.integers(-(2**63), 2**63 - 1, ROWS)),
            "x": pa.array(np.where(rng.random(ROWS) < 0.0002, np.nan, rng.normal(size=ROWS)), mask=null),
            "s": pa.array([f"{v:015x}" for v in rng.integers(0, 2**59, ROWS)], mask=null),
            "c": pa.array([f"word {v}" for v in rng.integers(0, 50, ROWS)]),
            "d": pa.array(
                [Decimal(int(v) * 10**15) for v in rng.integers(-(2**50), 2**50, ROWS)], pa.decimal128(38, 0)
            ),
            "t": pa.array(np.arange(ROWS) * 1_000_000, pa.timestamp("us")),
        }
    )
    store = nyala.connect(":memory:", threads=2)
    store.execute(
        "CREATE TABLE t (k BIGINT, b BIGINT, x DOUBLE, s STRING, c STRING, d DECIMAL(38, 0), t TIMESTAMP, "
        "PRIMARY KEY (k)) DISTRIBUTE BY HASH (k) INTO 4 BUCKETS"
    )
    store.load("t", source)
    peer = duckdb.connect()
    peer.execute("CREATE TABLE t AS SELECT * FROM source")
    for change in (
        "UPDATE t SET x = 100 + k WHERE k BETWEEN 10 AND 14",
        "DELETE FROM t WHERE k BETWEEN 39000 AND 39005",
        "INSERT INTO t (k, b, x, s, c, d) VALUES (50000, 0, -100, '0', 'word', 5), "
        "(50001, NULL, NULL, NULL, 'a', NULL)",
    ):
        store.execute(change)
        peer.execute(change)
    yield store, peer
    store.close()
    peer.close()


ORDERS = [
    "{} {} NULLS {}, k",
    "c DESC, {} {} NULLS {}, k",
    "{} {} NULLS {}, c, k DESC",
]


@pytest.mark.parametrize("column", few(["b", "x", "s", "d", "t", "c"], 3))
@pytest.mark.parametrize("direction", ["ASC", "DESC"])
def test_statements_return_what_duckdb_does(stores: Any, column: str, direction: str) -> None:
    store, peer = stores
    for nulls in ("FIRST", "LAST"):
        for order in ORDERS:
            by = order.format(column, direction, nulls)
            for limit, where in product(("LIMIT 1", "LIMIT 10", "LIMIT 30 OFFSET 400"), ("", "WHERE s LIKE '%7f%' ")):
                query = f"SELECT k, {column}, c FROM t {where}ORDER BY {by} {limit}"
                assert str(store.execute(query).fetchall()) == str(peer.execute(query).fetchall()), query
    query = (
        f"SELECT a.k, a.{column} FROM t a JOIN t b ON a.k = b.k + 1 WHERE b.k % 3 = 0 "
        f"ORDER BY a.{column} {direction} NULLS LAST, a.k LIMIT 5"
    )
    assert str(store.execute(query).fetchall()) == str(peer.execute(query).fetchall())


def test_rows_with_ties_are_all_returned(stores: Any) -> None:
    store, peer = stores
    found = store.execute("SELECT c, k FROM t ORDER BY c FETCH FIRST 3 ROWS WITH TIES").fetchall()
    first = peer.execute("SELECT c FROM t ORDER BY c LIMIT 1 OFFSET 2").fetchone()[0]
    expected = peer.execute("SELECT c, k FROM t WHERE c <= $1", [first]).fetchall()
    assert sorted(found) == sorted(expected)


@pytest.mark.embedded_only("servers begin to scan small tables before there is a bound")
def test_explain_analyze_shows_rows_and_pages_that_the_bound_excluded(stores: Any) -> None:
    store, _ = stores
    text = "\n".join(
        row[0]
        for row in store.execute("EXPLAIN ANALYZE SELECT k, s FROM t ORDER BY x DESC NULLS LAST LIMIT 10").fetchall()
    )
    assert "running bound on x" in text
    assert "running bound: " in text and "rows dropped" in text


@pytest.mark.embedded_only("servers evaluate the condition")
def test_a_rare_condition_is_evaluated_for_rows_within_the_bound_alone() -> None:
    """Each batch leaves a few rows; from the first on, those behind the bound are dropped before the condition."""
    rows = 400_000
    with nyala.connect(":memory:", threads=1) as store:
        store.execute("CREATE TABLE e (k BIGINT, x BIGINT, s STRING, PRIMARY KEY (k))")
        x = np.arange(rows) * 7919 % rows
        store.load("e", pa.table({"k": np.arange(rows), "x": x, "s": [f"text {n}" for n in x]}))
        query = "SELECT x, s FROM e WHERE s LIKE '%99%' ORDER BY x LIMIT 3"
        assert store.execute(query).fetchall() == [(99, "text 99"), (199, "text 199"), (299, "text 299")]
        text = "\n".join(row[0] for row in store.execute(f"EXPLAIN ANALYZE {query}").fetchall())
        found = re.search(r"running bound: ([\d,]+) of ([\d,]+) rows dropped", text)
        scanned = re.search(r"TableScan e  \(([\d,]+) rows", text)
        assert found and scanned, text
        dropped, passed = (int(number.replace(",", "")) for number in (found[1], scanned[1]))
        matching = sum("99" in f"{n}" for n in range(rows))
        assert passed < matching / 2 and dropped > rows / 2, text


@pytest.mark.embedded_only("servers begin to scan small tables before there is a bound")
def test_a_descending_sort_by_an_ascending_column_skips_the_row_groups_before() -> None:
    """The last tablet is read first, and what it gives excludes all pages of the others."""
    rows = 40_000
    with nyala.connect(":memory:", threads=1) as store:
        store.execute(
            "CREATE TABLE e (k BIGINT, t TIMESTAMP, v DOUBLE, PRIMARY KEY (k)) DISTRIBUTE BY RANGE (k) ("
            + ", ".join(f"PARTITION {low} <= VALUES < {low + 10_000}" for low in range(0, rows, 10_000))
            + ")"
        )
        times = pa.array(np.arange(rows), pa.timestamp("us"))
        store.load("e", pa.table({"k": np.arange(rows), "t": times, "v": np.ones(rows)}))
        query = "SELECT t, v FROM e ORDER BY t DESC LIMIT 3"
        found = store.execute(query).fetchall()
        assert [row[0].microsecond for row in found] == [39_999, 39_998, 39_997]
        text = "\n".join(row[0] for row in store.execute(f"EXPLAIN ANALYZE {query}").fetchall())
        assert "10,000 rows considered" in text and "3 row groups skipped" in text, text


def test_keys_of_booleans_that_are_all_false() -> None:
    """Their codes are three, with NULL, though only two occur."""
    rng = random.Random(2)
    for nulls_first in product((False, True), repeat=4):
        types = [BOOLEAN, TINYINT, BOOLEAN, DataType(Kind.DECIMAL, 9, 2)]
        items = [OrderItem(Column(i, "", t), False, first) for i, (t, first) in enumerate(zip(types, nulls_first))]
        draws = [[None, False], [-13, -1], [None, True], [None, Decimal("-1.25"), Decimal(10)]]
        rows = [tuple(rng.choice(values) for values in draws) for _ in range(300)]
        order = order_of([vector_of(t, [row[i] for row in rows], 0) for i, t in enumerate(types)], items, len(rows))
        found = [tuple(rank_of(t, v, item) for t, v, item in zip(types, rows[i], items, strict=True)) for i in order]
        assert found == sorted(found)
