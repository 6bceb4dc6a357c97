"""Short scans in key order, against the rows that a dictionary has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from nyala.model.alterations import AddColumn
from nyala.model.predicates import ColumnPredicate, InList, Range
from nyala.model.schema import ColumnSchema, HashRule, PartitionSchema, Schema, Table, TableDefinition
from nyala.model.store import Op, ScanCounters, ScanSpec
from nyala.model.types import BIGINT, BINARY, INT, STRING, TINYINT
from nyala.storage.database import Database
from nyala.storage.reading.key_interval import SHORT_ROWS, short_interval
from nyala.storage.rowsets.key_order import KeyOrder

KEYS: dict[str, tuple[ColumnSchema, ...]] = {
    "packed": (ColumnSchema("a", TINYINT, nullable=False), ColumnSchema("b", INT, nullable=False)),
    "texts": (ColumnSchema("a", STRING, nullable=False), ColumnSchema("b", BINARY, nullable=False)),
    "wide": (ColumnSchema("a", BIGINT, nullable=False), ColumnSchema("b", BIGINT, nullable=False)),
}
VALUES: dict[str, tuple[list[Any], list[Any]]] = {
    "packed": ([-128, -1, 0, 127], list(range(-4, 4))),
    "texts": (["", "a", "a\0", "ab", "é"], [b"", b"\0", b"\0\1", b"x", b"\xff", b"\xff\xff"]),
    "wide": ([-(2**63), 0, 5, 2**63 - 1], list(range(-4, 4))),
}


STEPS = ["put", "put", "put", "set", "delete", "flush", "compact", "scan", "scan"]


def definition(kind: str) -> TableDefinition:
    columns = (*KEYS[kind], ColumnSchema("v", INT), ColumnSchema("t", STRING))
    return TableDefinition("t", Schema(columns, 2), PartitionSchema())


def scanned(db: Database, table: Table, predicates: tuple[ColumnPredicate, ...], limit: int, at: int) -> list[Any]:
    spec = ScanSpec(("t", "b", "v", "a"), predicates, at, ordered=True, limit=limit)
    found: list[Any] = []
    for batch in (batch for token in db.scan_tokens(table, spec) for batch in db.scan(token)):
        found += zip(*(column.to_arrow().to_pylist() for column in batch.columns()))
    return [(a, b, v, t) for t, b, v, a in found]


def chosen(draw: Callable[..., Any], kind: str) -> tuple[tuple[ColumnPredicate, ...], Callable[[Any, Any], bool]]:
    """Predicates that come to one interval of keys, and the same in Python."""
    first, second = (st.sampled_from(values) for values in VALUES[kind])
    form = draw(st.sampled_from(["all", "from", "between", "first", "first and from", "both"]))
    low, high = sorted((draw(first), draw(first)))
    inclusive, also = draw(st.booleans()), draw(st.booleans())
    if form == "all":
        return (), lambda a, b: True
    if form == "from":
        return (Range("a", low, lower_inclusive=inclusive),), lambda a, b: a >= low and (inclusive or a > low)
    if form == "between":
        ranges = (Range("a", low, lower_inclusive=inclusive), Range("a", upper=high, upper_inclusive=also))
        return ranges, lambda a, b: low <= a <= high and (inclusive or a > low) and (also or a < high)
    if form == "first":
        return (InList("a", (low,)),), lambda a, b: a == low
    value = draw(second)
    if form == "both":
        return (Range.equal("a", low), Range.equal("b", value)), lambda a, b: (a, b) == (low, value)
    ranges = (Range.equal("a", low), Range("b", value, lower_inclusive=inclusive))
    return ranges, lambda a, b: a == low and b >= value and (inclusive or b > value)


@pytest.mark.parametrize("kind", list(KEYS))
@settings(max_examples=examples(40), deadline=None)
@given(st.data())
def test_short_scans_give_what_a_dictionary_has(kind: str, data: st.DataObject) -> None:
    first, second = VALUES[kind]
    keys = [(a, b) for a in first for b in second]
    rows: dict[Any, tuple[Any, ...]] = {}
    past: list[tuple[int, dict[Any, tuple[Any, ...]]]] = []
    with Database(":memory:", background=False) as db:
        table = db.create_table(definition(kind))
        for step in range(data.draw(st.integers(1, 30))):
            what = data.draw(st.sampled_from(STEPS))
            a, b = data.draw(st.sampled_from(keys))
            key = {"a": a, "b": b}
            if what == "put" or (what == "set" and (a, b) in rows):
                db.write_row(table, Op.UPSERT, {**key, "v": step, **({} if what == "set" else {"t": f"t{step}"})})
                text = rows[a, b][3] if what == "set" else f"t{step}"
                rows[a, b] = (a, b, step, text)
            elif what == "delete":
                db.write_row(table, Op.DELETE_IGNORE, key)
                rows.pop((a, b), None)
            elif what == "flush":
                db.flush()
            elif what == "compact":
                db.compact_table(table)
            else:
                past.append((db.now(), dict(rows)))
                at, then = data.draw(st.sampled_from(past[-3:]))
                predicates, holds = chosen(data.draw, kind)
                limit = data.draw(st.sampled_from([0, 1, 3, SHORT_ROWS]))
                expected = [then[k] for k in sorted(then) if holds(*k)][:limit]
                assert scanned(db, table, predicates, limit, at) == expected


def rows_by_key(db: Database, table: Table, spec: ScanSpec) -> list[tuple[Any, ...]]:
    """The rows of all tablets in key order, as tuples and, which must be the same, made of the columns."""
    rows: list[tuple[Any, ...]] = []
    for token in db.scan_tokens(table, spec):
        mine = []
        for batch in db.scan(token):
            mine += batch.rows()
            assert batch.rows() == list(zip(*(column.to_arrow().to_pylist() for column in batch.columns())))
        keys = [row[:2] for row in mine]
        assert keys == sorted(set(keys))
        rows += mine
    return sorted(rows, key=lambda row: row[:2])


@pytest.mark.slow
@pytest.mark.parametrize("partitions", [PartitionSchema(), PartitionSchema((HashRule(("b",), 2),))])
@pytest.mark.parametrize("kind", list(KEYS))
@settings(max_examples=examples(15), deadline=None)
@given(st.data())
def test_short_scans_give_what_scans_by_batches_give(
    kind: str, partitions: PartitionSchema, data: st.DataObject
) -> None:
    first, second = VALUES[kind]
    keys = [{"a": a, "b": b} for a in first for b in second]
    text = st.one_of(st.none(), st.sampled_from(["", "é", "text"]))
    with Database(":memory:", background=False) as db:
        table = db.create_table(TableDefinition("t", definition(kind).schema, partitions))
        moments = [db.now()]
        for step in range(data.draw(st.integers(2, 12))):
            what = data.draw(st.sampled_from(["put", "put", "update", "delete", "flush", "maintain", "alter"]))
            chosen_keys = data.draw(st.lists(st.sampled_from(keys), max_size=12))
            for key in chosen_keys if what in ("put", "update", "delete") else ():
                if what == "put":
                    db.write_row(table, Op.UPSERT, {**key, "v": step, "t": data.draw(text)})
                elif what == "update":
                    db.write_row(table, Op.UPDATE_IGNORE, {**key, data.draw(st.sampled_from(["v", "t"])): None})
                else:
                    db.write_row(table, Op.DELETE_IGNORE, key)
            if what == "flush":
                db.flush()
            elif what == "maintain":
                db.maintain(until_idle=False)
            elif what == "alter":
                table = db.alter_table("t", [AddColumn(ColumnSchema(f"c{step}", INT, initial=step, default=step))])
            moments.append(db.now())
        for _ in range(4):
            predicates, _ = chosen(data.draw, kind)
            columns = ("a", "b", *(c.name for c in table.schema.columns[2:]))
            spec = ScanSpec(columns, predicates, data.draw(st.sampled_from(moments)), ordered=True)
            limit = data.draw(st.sampled_from([1, 2, 5, SHORT_ROWS]))
            expected = rows_by_key(db, table, spec)
            assert rows_by_key(db, table, replace(spec, limit=limit))[:limit] == expected[:limit]


def test_many_deleted_rows_are_passed_over() -> None:
    with Database(":memory:", background=False) as db:
        table = db.create_table(definition("wide"))
        for start in (0, 1):
            for number in range(start, 6000, 2):
                db.write_row(table, Op.INSERT, {"a": 0, "b": number, "v": number, "t": None})
            db.flush()
        for number in range(10, 5990):
            db.write_row(table, Op.DELETE, {"a": 0, "b": number})
        (token,) = db.scan_tokens(table, ScanSpec(("b",), (Range.equal("a", 0),), ordered=True, limit=15))
        (batch,) = db.scan(token)
        assert batch.rows() == [(number,) for number in (*range(10), *range(5990, 5995))]


def test_a_rowset_is_opened_when_its_first_key_is_due() -> None:
    with Database(":memory:", background=False) as db:
        table = db.create_table(definition("wide"))
        for part in range(5):
            for number in range(100):
                db.write_row(table, Op.INSERT, {"a": part, "b": number, "v": part, "t": None})
            db.flush()
        read = []
        for at, limit in [(0, 100), (0, 101), (3, 150)]:
            (token,) = db.scan_tokens(table, ScanSpec(("a", "b"), (Range("a", at),), ordered=True, limit=limit))
            counters = ScanCounters()
            (batch,) = db.scan(token, counters)
            assert batch.rows() == [(at + number // 100, number % 100) for number in range(limit)]
            assert counters.rows_considered == limit
            read.append(counters.pages_read)
        assert read[0] < read[1] <= read[2]


def test_other_scans_go_the_long_way() -> None:
    schema = definition("packed").schema
    for predicates, options in [
        ((), {"ordered": False}),
        ((), {"limit": SHORT_ROWS + 1}),
        ((), {"limit": None}),
        ((Range("v", 1),), {}),
        ((Range("b", 1),), {}),
        ((Range("a", 1), Range("b", 1)), {}),
        ((InList("a", (1, 2)),), {}),
        ((Range("a", 10**9),), {}),
    ]:
        spec = ScanSpec(("v",), predicates, **{"ordered": True, "limit": 5, **options})
        assert short_interval(schema, spec) is None


def test_a_short_scan_neither_joins_deltas_nor_takes_snapshots() -> None:
    with Database(":memory:", background=False) as db:
        table = db.create_table(definition("wide"))
        for number in range(5000):
            db.write_row(table, Op.INSERT, {"a": number % 100, "b": number, "v": number, "t": "x"})
            if number == 2500:
                db.flush()
        for number in range(2500):
            db.write_row(table, Op.UPDATE, {"a": number % 100, "b": number, "v": -number})
        state = db.open_table(table).tablets[0].state
        spec = ScanSpec(("b", "v"), (Range("a", 7),), ordered=True, limit=60)
        (token,) = db.scan_tokens(table, spec)
        counters = ScanCounters()
        (batch,) = db.scan(token, counters)
        assert batch.column(1).to_arrow().to_pylist()[:3] == [-7, -107, -207]
        assert counters.rows_considered == 60 and counters.pages_read < 10
        assert "memrowsets" not in token.part[0].__dict__
        assert state.rowsets[0].memstore._runs == ()


def test_keys_in_order_while_others_come(seed: int = 3) -> None:
    random = np.random.default_rng(seed)
    keys = random.permutation(30_000).tolist()
    start = dict.fromkeys(keys[:9_000])
    order, known = KeyOrder(start), set(keys[:9_000])
    for place in range(9_000, 30_000, 700):
        some = keys[place : place + 700]
        order.add_all(some[:600])
        for key in some[500:]:
            order.add(key)
        known.update(some)
        low = int(random.integers(0, 31_000))
        assert order.from_key(low, 50) == sorted(key for key in known if key >= low)[:50]
    assert order.from_key(-1, 10**6) == sorted(known)
    assert KeyOrder([]).from_key(0, 5) == []
