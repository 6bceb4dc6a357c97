"""A store against a dictionary of versions: all ops, all background work, DDL, crashes, and reads at any time.

A failing run is printed as calls of the machine's rules: pasted into `storage/test_mvcc_regressions.py`, it stays.
Values are small numbers that stand for values of whatever type a column has (`value`).
"""

from __future__ import annotations

import itertools
import random
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from mvcc_transactions import PLACES, OpenTransaction, TransactionRules
from nyala.errors import AlreadyPresent, DiskError, HistoryGone
from nyala.model.alterations import AddColumn, DropColumn, RenameColumn, SetDefault
from nyala.model.predicates import AnyOf, InList, IsNull, Range
from nyala.model.schema import ColumnSchema, HashRule, PartitionSchema, Schema, TableDefinition
from nyala.model.store import CHANGE_COLUMN, CHANGED_AT_COLUMN, ChangeRange, Op, ScanSpec, Timestamp, WriteBatch
from nyala.model.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DECIMAL,
    DOUBLE,
    FLOAT,
    INT,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TINYINT,
)
from nyala.storage.database import Database
from nyala.storage.files.memory_filesystem import CrashableFileSystem, FaultyFileSystem
from store_model import TableModel

SMALL = Schema(
    (
        ColumnSchema("k", BIGINT, nullable=False),
        ColumnSchema("v", STRING),
        ColumnSchema("n", INT, nullable=False, default=7),
    ),
    1,
)
ALL_TYPES = Schema(
    (
        ColumnSchema("a", INT, nullable=False),
        ColumnSchema("b", STRING, nullable=False),
        ColumnSchema("c_bool", BOOLEAN),
        ColumnSchema("c_tiny", TINYINT),
        ColumnSchema("c_small", SMALLINT, nullable=False),
        ColumnSchema("c_real", FLOAT),
        ColumnSchema("c_double", DOUBLE),
        ColumnSchema("c_cents", DECIMAL(9, 2)),
        ColumnSchema("c_wide", DECIMAL(38, 6)),
        ColumnSchema("c_date", DATE),
        ColumnSchema("c_time", TIMESTAMP, immutable=True),
        ColumnSchema("c_text", STRING, default="none"),
        ColumnSchema("c_bytes", BINARY),
    ),
    2,
)
SCHEMAS = {"small": (SMALL, ("k",)), "all types": (ALL_TYPES, ("a", "b"))}
ADDED = {"BIGINT": BIGINT, "STRING": STRING, "DATE": DATE}
KEYS = 8
LOG_STEPS = [(step, place) for step in ("write", "sync", "create") for place in ("*/wal/*", "*/commits*")]
"""Steps of logs that may fail."""


def value(type_: Any, code: int | None) -> Any:
    """The value of a type that a number stands for, ascending with it."""
    if code is None:
        return None
    kind = type_.kind.value
    if kind == "BOOLEAN":
        return code > 3
    if kind == "DECIMAL":
        return Decimal(code * 1000 - 2500).scaleb(-type_.scale, None) * (10**19 if type_.precision > 18 else 1)
    if kind == "DATE":
        return date(1969, 12, 28) + timedelta(code)
    if kind == "TIMESTAMP":
        return datetime(1969, 12, 31) + timedelta(hours=7 * code)
    if kind in ("STRING", "VARCHAR", "CHAR"):
        return ("", "a", "ab", "ä", "b", "zebra", "zebras", "𝄞")[code % 8]
    if kind == "BINARY":
        return (b"", b"\0", b"\0\1", b"a", b"b", b"c", b"\xfe", b"\xff")[code % 8]
    if kind in ("FLOAT", "DOUBLE"):
        return code * 0.5 - 1
    return code * 17 - 50


def key_values(schema: Schema, code: int) -> tuple[Any, ...]:
    """The key that a number stands for."""
    if schema.key_columns == 1:
        return (code * 17 - 50,)
    return (code % 3 - 1, ("", "a", "ab")[code // 3])


CODES = st.integers(0, 7)
GIVEN = st.dictionaries(st.integers(0, 11), st.none() | CODES, max_size=4)
OPS = st.sampled_from([op.name for op in Op])
ROWS = st.lists(st.tuples(OPS, st.integers(0, KEYS - 1), GIVEN), min_size=1, max_size=10)


class MvccMachine(TransactionRules, RuleBasedStateMachine):
    """`self.model` knows every version since the beginning; the store must agree at any time."""

    @initialize(
        kind=st.sampled_from(list(SCHEMAS)),
        buckets=st.sampled_from([0, 3]),
        memrowset_bytes=st.sampled_from([1_500, 1 << 20]),
        history_seconds=st.sampled_from([604_800, 0]),
    )
    def open_store(self, kind, buckets, memrowset_bytes, history_seconds=604_800):
        schema, hashed = SCHEMAS[kind]
        partitions = PartitionSchema((HashRule(hashed, buckets),)) if buckets else PartitionSchema()
        self.options = {
            "memrowset_bytes": memrowset_bytes,
            "segment_bytes": 1500,
            "background": False,
            "history_seconds": history_seconds,
        }
        self.open(CrashableFileSystem())
        table = self.db.create_table(TableDefinition("t", schema, partitions))
        self.model = TableModel(table.schema)
        self.begun = int(self.db.now())
        self.added = 0

    def open(self, fs: CrashableFileSystem) -> None:
        """Open what is on a disk."""
        self.fs, self.disk = fs, FaultyFileSystem(fs)
        self.db = Database("db", fs=self.disk, **self.options)
        self.open_ones: list[OpenTransaction] = []

    def close(self) -> None:
        """Close the store, whose transactions end."""
        self.forget_transactions()
        self.db.close()

    @property
    def table(self):
        return self.db.table("t")

    @property
    def others(self) -> tuple[ColumnSchema, ...]:
        return self.model.schema.columns[self.model.schema.key_columns :]

    @property
    def log_steps(self) -> list[tuple[str, str]]:
        return LOG_STEPS

    def key_of(self, code: int) -> tuple[Any, ...]:
        return key_values(self.model.schema, code)

    def row(self, key: int, given: dict[int, int | None]) -> dict[str, Any]:
        schema = self.model.schema
        row = dict(zip((c.name for c in schema.key), key_values(schema, key)))
        for place, code in given.items():
            column = self.others[place % len(self.others)]
            row[column.name] = value(column.type, code)
        return row

    # ---- writing -------------------------------------------------------------------------------------------------

    @rule(rows=ROWS, all_or_none=st.booleans())
    def write(self, rows, all_or_none):
        given = [self.row(key, columns) for _, key, columns in rows]
        ops = [Op[name] for name, _, _ in rows]
        expected = self.model.resolve(ops, given)
        result = self.db.write(self.table, self.batch(ops, given, all_or_none))
        found = {error.row: type(error.error).__name__ for error in result.errors}
        if all_or_none and expected.errors:
            assert result.applied == 0
            assert found.keys() >= {min(expected.errors)}
            return
        assert found == expected.errors
        self.model.commit(expected, result.timestamp)

    @rule(rows=ROWS, operation=st.sampled_from(LOG_STEPS), nth=st.integers(1, 3))
    def failing_write(self, rows, operation, nth):
        """One step of one log fails: all of the write has happened, or nothing and the error says so."""
        given = [self.row(key, columns) for _, key, columns in rows]
        ops = [Op[name] for name, _, _ in rows]
        expected = self.model.resolve(ops, given)
        self.disk.fail(*operation, nth=nth, times=1)
        try:
            result = self.db.write(self.table, self.batch(ops, given, False))
        except DiskError as error:
            assert error.retryable
        else:
            self.model.commit(expected, result.timestamp)
        self.disk.heal()

    @rule(rows=ROWS, nth=st.integers(1, 8), keep=st.sampled_from([0.0, 0.5, 1.0]), seed=st.integers(0, 2**16))
    def torn_write(self, rows, nth, keep, seed):
        """The machine loses its power at some sync of a write: all of it is there afterwards, or nothing."""
        images: list[CrashableFileSystem] = []
        syncs, rng = itertools.count(1), random.Random(seed)
        fs = self.fs

        def record(what: str) -> None:
            if next(syncs) == nth:
                images.append(fs.crash(keep, rng))

        given = [self.row(key, columns) for _, key, columns in rows]
        ops = [Op[name] for name, _, _ in rows]
        expected = self.model.resolve(ops, given)
        fs.on_sync = record
        result = self.db.write(self.table, self.batch(ops, given, False))
        fs.on_sync = None
        self.close()
        self.open(images[0] if images else fs)
        names = self.model.schema.names
        if not images or self.by_key(self.scan(names)) != self.model.rows(names, int(self.db.now())):
            self.model.commit(expected, result.timestamp)

    def batch(self, ops, given, all_or_none) -> WriteBatch:
        names = [c.name for c in self.model.schema.columns if any(c.name in row for row in given)]
        arrays, isset = {}, {}
        for name in names:
            type_ = self.model.schema.column(name).type
            arrays[name] = pa.array([row.get(name) for row in given], type_.arrow)
            mask = np.array([name in row for row in given])
            if not mask.all():
                isset[name] = mask
        codes = ops[0] if len(set(ops)) == 1 else np.array(ops, np.uint8)
        return WriteBatch(pa.record_batch(arrays), codes, all_or_none, isset)

    @rule(op=OPS, key=st.integers(0, KEYS - 1), given=GIVEN)
    def write_row(self, op, key, given):
        row = self.row(key, given)
        expected = self.model.resolve([Op[op]], [row])
        result = self.db.write_row(self.table, Op[op], row)
        assert {e.row: type(e.error).__name__ for e in result.errors} == expected.errors
        self.model.commit(expected, result.timestamp)

    @rule(place=PLACES, rows=ROWS, all_or_none=st.booleans())
    def write_in(self, place, rows, all_or_none):
        super().write_in(place, rows, all_or_none)

    @rule(place=PLACES, op=OPS, key=st.integers(0, KEYS - 1), given=GIVEN)
    def write_row_in(self, place, op, key, given):
        super().write_row_in(place, op, key, given)

    @rule(
        parts=st.lists(ROWS, min_size=1, max_size=2),
        saves=st.booleans(),
        serializable=st.booleans(),
        ending=st.sampled_from(["commits", "commits", "fails", "torn"]),
        number=st.integers(1, 8),
    )
    def transact(self, parts, saves, serializable, ending, number):
        super().transact(parts, saves, serializable, ending, number)

    @rule(keys=st.sets(st.integers(0, KEYS - 1), min_size=1), given=GIVEN)
    def bulk_load(self, keys, given):
        rows = [{**{c.name: None for c in self.others if c.nullable}, **self.row(key, given)} for key in sorted(keys)]
        for row in rows:
            for column in self.others:
                if not column.nullable and row.get(column.name) is None:
                    row[column.name] = value(column.type, 3)
        expected = self.model.resolve([Op.INSERT] * len(rows), rows)
        try:
            with self.db.bulk_loader(self.table) as loader:
                loader.append(self.batch([Op.INSERT] * len(rows), rows, False).rows)
                loader.finish()
        except AlreadyPresent:
            assert expected.errors
            return
        assert not expected.errors
        self.model.commit(expected, loader.timestamp)

    # ---- background work -----------------------------------------------------------------------------------------

    @rule()
    def flush(self):
        self.db.flush()

    @rule()
    def compact_table(self):
        self.db.compact_table(self.table)

    @rule()
    def maintain(self):
        self.db.maintain()

    # ---- DDL -----------------------------------------------------------------------------------------------------

    @rule(kind=st.sampled_from(list(ADDED)), code=st.none() | CODES)
    def add_column(self, kind, code):
        self.added += 1
        type_ = ADDED[kind]
        default = None if code is None else type_.to_physical(value(type_, code))
        self.alter(AddColumn(ColumnSchema(f"x{self.added}", type_, nullable=code is None, default=default)))

    @rule(place=st.integers(0, 11))
    def drop_column(self, place):
        if len(self.others) > 1:
            self.alter(DropColumn(self.others[place % len(self.others)].name))

    @rule(place=st.integers(0, 11))
    def rename_column(self, place):
        self.added += 1
        columns = self.model.schema.columns
        self.alter(RenameColumn(columns[place % len(columns)].name, f"y{self.added}"))

    @rule(place=st.integers(0, 11), code=CODES)
    def set_default(self, place, code):
        column = self.others[place % len(self.others)]
        self.alter(SetDefault(column.name, column.type.to_physical(value(column.type, code))))

    def alter(self, step):
        self.forget_transactions()
        self.model.schema = self.db.alter_table("t", [step]).schema

    # ---- ends ----------------------------------------------------------------------------------------------------

    @rule()
    def reopen(self):
        self.close()
        self.open(self.fs)

    @rule(keep=st.sampled_from([0.0, 0.5, 1.0]), seed=st.integers(0, 2**16))
    def crash(self, keep, seed):
        crashed = self.fs.crash(keep, random.Random(seed))
        self.close()
        self.open(crashed)

    # ---- reading -------------------------------------------------------------------------------------------------

    def scan(self, columns, **spec) -> list[tuple[Any, ...]]:
        found = []
        for token in self.db.scan_tokens(self.table, ScanSpec(tuple(columns), **spec)):
            for batch in self.db.scan(token):
                found.extend(zip(*(column.to_arrow().to_pylist() for column in batch.columns())))
        return found

    def is_forgotten(self, time: int) -> bool:
        """True if some tablet has collected its history as of `time`; reads must be refused then, and only then."""
        tablets = self.db.open_table(self.table).tablets
        return any(tablet.metadata.ancient_history_mark > time for tablet in tablets)

    def by_key(self, rows, skipped=0):
        count = self.model.schema.key_columns
        return sorted(rows, key=lambda row: row[skipped : skipped + count])

    def time(self, share: float) -> int:
        """A moment of the past, often just at or just before a write."""
        times = [self.begun, *(t + d for t in self.model.timestamps for d in (-1, 0))]
        return max(self.begun, times[min(int(share * len(times)), len(times) - 1)])

    def remembered(self, share: float) -> int:
        """A moment of the past that can be read."""
        time = self.time(share)
        return int(self.db.now()) if self.is_forgotten(time) else time

    @rule(share=st.floats(0, 1))
    def read_the_past(self, share):
        time = self.time(share)
        names = self.model.schema.names
        if self.is_forgotten(time):
            with pytest.raises(HistoryGone):
                self.scan(names, snapshot=Timestamp(time))
            return
        assert self.by_key(self.scan(names, snapshot=Timestamp(time))) == self.model.rows(names, time)

    @rule(place=st.integers(0, 12), low=CODES, high=CODES, form=st.integers(0, 4), share=st.floats(0, 1))
    def read_some(self, place, low, high, form, share):
        schema = self.model.schema
        column = schema.columns[place % len(schema.columns)]
        time = self.remembered(share) if form % 2 else int(self.db.now())
        physical = [column.type.to_physical(value(column.type, code)) for code in sorted({low, high})]
        physical = sorted(set(physical))
        bounds = Range(column.name, physical[0], physical[-1])
        listed = InList(column.name, tuple(physical))
        predicate = (bounds, listed, IsNull(column.name), IsNull(column.name, True))[min(form, 3)]
        if form == 4:
            predicate = AnyOf(column.name, (listed, IsNull(column.name)))
        found = self.scan(schema.names, predicates=(predicate,), snapshot=Timestamp(time))
        place = schema.position(column.name)

        def holds(row) -> bool:
            shown = None if row[place] is None else column.type.to_physical(row[place])
            inside = shown is not None and (
                (physical[0] <= shown <= physical[-1])
                if form == 0
                else (shown in physical)
                if form in (1, 4)
                else False
            )
            return inside or (form in (2, 4) and shown is None) or (form == 3 and shown is not None)

        assert self.by_key(found) == [row for row in self.model.rows(schema.names, time) if holds(row)]

    @rule(limit=st.none() | st.integers(1, 4), share=st.floats(0, 1))
    def read_in_order(self, limit, share):
        time = self.remembered(share)
        names = self.model.schema.names
        expected = self.model.rows(names, time)
        tokens = self.db.scan_tokens(
            self.table, ScanSpec(tuple(names), snapshot=Timestamp(time), ordered=True, limit=limit)
        )
        together = []
        for token in tokens:
            rows = []
            for batch in self.db.scan(token):
                rows.extend(zip(*(column.to_arrow().to_pylist() for column in batch.columns())))
            assert rows == self.by_key(rows)
            assert limit is None or len(rows) <= limit
            together.extend(rows)
        assert set(map(repr, together)) <= set(map(repr, expected))
        assert len(together) == len(expected) if limit is None else len(together) >= min(limit, len(expected))

    @rule(one=st.floats(0, 1), other=st.floats(0, 1))
    def read_changes(self, one, other):
        since, until = sorted((self.remembered(one), self.remembered(other)))
        names = self.model.schema.names
        found = self.scan((CHANGE_COLUMN, *names), snapshot=Timestamp(until), changes=ChangeRange(Timestamp(since)))
        expected = self.model.net_changes(names, since, until)
        assert expected.allow(self.by_key(found, 1)), (self.by_key(found, 1), expected)
        found = self.scan(
            (CHANGE_COLUMN, CHANGED_AT_COLUMN, *names),
            snapshot=Timestamp(until),
            changes=ChangeRange(Timestamp(since), history=True),
        )
        expected = self.model.history(names, since, until)
        assert expected.allow(self.by_key(found, 2)), (self.by_key(found, 2), expected)

    @rule(key=st.integers(0, KEYS - 1), share=st.none() | st.floats(0, 1))
    def read_row(self, key, share):
        schema = self.model.schema
        time = None if share is None else self.remembered(share)
        found = self.db.read_row(self.table, key_values(schema, key), schema.names, time and Timestamp(time))
        now = int(self.db.now()) if time is None else time
        expected = [
            row for row in self.model.rows(schema.names, now) if row[: schema.key_columns] == key_values(schema, key)
        ]
        assert ([] if found is None else [found]) == expected

    @invariant()
    def rows_are_the_models(self):
        names = self.model.schema.names
        assert self.by_key(self.scan(names)) == self.model.rows(names, int(self.db.now()))

    def teardown(self):
        if hasattr(self, "db"):
            self.db.check()
            self.db.close()
