"""Transactions with changes of tables and rows, savepoints, rollbacks, COMMITs, other transactions, crashes at any sync
and reopening, against a model: a dictionary of tables."""

from __future__ import annotations

import copy
import random
from dataclasses import dataclass, field

import pyarrow as pa
from examples import examples
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from nyala.errors import DuplicateTable, InvalidTableDefinition, SerializationFailure, UnknownTable
from nyala.model.alterations import (
    AddColumn,
    AddRangePartition,
    DropColumn,
    DropRangePartition,
    RenameColumn,
    RenameTable,
)
from nyala.model.schema import ColumnSchema, RangePartition, Schema, TableDefinition, View
from nyala.model.store import Op, ScanSpec, WriteBatch
from nyala.model.types import BIGINT
from nyala.storage.database import Database
from nyala.storage.files.memory_filesystem import CrashableFileSystem
from nyala.storage.inspect.check.check_store import check_store
from tablet_support import HASHED, ONE_TABLET, RANGED

NAMES = ("a", "b", "c")
COLUMNS = ("v", "w", "x")
KEYS = (1, 50, 99, 100, 150, 199)
LOW, HIGH = RangePartition(None, (100,)), RangePartition((100,), (200,))


@dataclass
class ModelTable:
    """Rows by key: each a dictionary of columns. `ranges` None: not partitioned by range."""

    columns: list[str]
    rows: dict[int, dict[str, int | None]] = field(default_factory=dict)
    ranges: set[str] | None = None

    def covers(self, key: int) -> bool:
        return self.ranges is None or ("low" if key < 100 else "high") in self.ranges


@dataclass
class Model:
    tables: dict[str, ModelTable] = field(default_factory=dict)
    views: set[str] = field(default_factory=set)

    def state(self):
        tables = {
            name: (t.columns, {k: tuple(row[c] for c in t.columns) for k, row in t.rows.items()})
            for name, t in self.tables.items()
        }
        return tables, self.views


def state(store):
    found = {}
    for table in store.tables():
        names = list(table.schema.names)
        rows = {}
        for token in store.scan_tokens(table, ScanSpec(tuple(names))):
            for part in store.scan(token):
                for row in part.rows():
                    assert row[0] not in rows
                    rows[row[0]] = row[1:]
        for key, row in rows.items():
            assert store.read_row(table, (key,), names[1:]) == row
        found[table.name] = (names[1:], rows)
    return found, {view.name for view in store.views()}


class CatalogMachine(RuleBasedStateMachine):
    """`self.inside` is the open transaction, `self.model` what it must show, `self.outside` what others see."""

    @initialize(data=st.data())
    def begin_all(self, data):
        self.fs = CrashableFileSystem()
        self.db = Database("db", fs=self.fs, background=False)
        self.outside = Model()
        self.inside = None
        self.model = self.outside
        self.saved = []
        for _ in range(data.draw(st.integers(1, 3))):
            self.create(data)
            self.write(data)
        if data.draw(st.booleans()):
            self.db.flush()

    def teardown(self):
        if hasattr(self, "db"):
            self.db.close()

    @property
    def store(self):
        return self.inside or self.db

    def drawn(self, data) -> str:
        return data.draw(st.sampled_from(sorted(self.model.tables) or ["a"]))

    # ---- changes, in the transaction or outside ----------------------------------------------------------------------

    @rule(data=st.data())
    def create(self, data):
        name = data.draw(st.sampled_from(NAMES))
        partitions = data.draw(st.sampled_from([ONE_TABLET, HASHED, RANGED]))
        columns = data.draw(st.lists(st.sampled_from(COLUMNS), min_size=1, max_size=2, unique=True))
        schema = Schema((ColumnSchema("k", BIGINT, nullable=False), *(ColumnSchema(c, BIGINT) for c in columns)), 1)
        try:
            self.store.create_table(TableDefinition(name, schema, partitions))
        except DuplicateTable:
            assert name in self.model.tables or name in self.model.views
            return
        assert name not in self.model.tables and name not in self.model.views
        self.model.tables[name] = ModelTable(columns, {}, {"low", "high"} if partitions is RANGED else None)

    @precondition(lambda self: self.model.tables)
    @rule(data=st.data())
    def drop(self, data):
        name = self.drawn(data)
        self.store.drop_table(name)
        del self.model.tables[name]

    @rule(data=st.data())
    def change_view(self, data):
        name = data.draw(st.sampled_from(NAMES))
        if name in self.model.views:
            self.store.drop_views([name])
            self.model.views.remove(name)
        elif name not in self.model.tables:
            self.store.create_view(View(name, "SELECT 1", ("one",)))
            self.model.views.add(name)

    @precondition(lambda self: self.model.tables)
    @rule(data=st.data(), kind=st.sampled_from(["add", "drop", "rename", "name", "range"]))
    def alter(self, data, kind):
        name = self.drawn(data)
        table = self.model.tables[name]
        free = [c for c in COLUMNS if c not in table.columns]
        if kind == "add" and free:
            column, default = data.draw(st.sampled_from(free)), data.draw(st.sampled_from([None, 7]))
            self.store.alter_table(name, [AddColumn(ColumnSchema(column, BIGINT, default=default))])
            table.columns = [*table.columns, column]
            for row in table.rows.values():
                row[column] = default
            return
        column = data.draw(st.sampled_from(table.columns))
        if kind == "drop" and len(table.columns) > 1:
            self.store.alter_table(name, [DropColumn(column)])
            table.columns = [c for c in table.columns if c != column]
            for row in table.rows.values():
                del row[column]
        elif kind == "rename" and free:
            new = data.draw(st.sampled_from(free))
            self.store.alter_table(name, [RenameColumn(column, new)])
            table.columns = [new if c == column else c for c in table.columns]
            for row in table.rows.values():
                row[new] = row.pop(column)
        elif kind == "name":
            new = data.draw(st.sampled_from(NAMES))
            try:
                self.store.alter_table(name, [RenameTable(new)])
            except DuplicateTable:
                assert new in self.model.tables or new in self.model.views
                return
            self.model.tables[new] = self.model.tables.pop(name)
        elif kind == "range":
            part = data.draw(st.sampled_from(["low", "high"]))
            bounds = LOW if part == "low" else HIGH
            is_there = table.ranges is not None and part in table.ranges
            step = DropRangePartition(bounds) if is_there else AddRangePartition(bounds)
            try:
                self.store.alter_table(name, [step])
            except InvalidTableDefinition:
                assert table.ranges is None
                return
            table.ranges.symmetric_difference_update({part})
            table.rows = {k: row for k, row in table.rows.items() if table.covers(k)}

    @precondition(lambda self: self.model.tables)
    @rule(data=st.data())
    def write(self, data):
        name = self.drawn(data)
        model, table = self.model.tables[name], self.store.table(name)
        op = data.draw(st.sampled_from([Op.UPSERT, Op.UPDATE_IGNORE, Op.DELETE_IGNORE, Op.INSERT_IGNORE]))
        keys = data.draw(
            st.lists(st.sampled_from([k for k in KEYS if model.covers(k)] or [-1]), unique=True, max_size=4)
        )
        if -1 in keys or not keys:
            return
        chosen = data.draw(st.lists(st.sampled_from(model.columns), unique=True))
        if op is Op.DELETE_IGNORE:
            chosen = []
        value = data.draw(st.sampled_from([None, 1, 2, 3]))
        if len(keys) == 1 and data.draw(st.booleans()):
            self.store.write_row(table, op, {"k": keys[0], **dict.fromkeys(chosen, value)})
        else:
            arrays = {"k": pa.array(keys, pa.int64())}
            arrays |= {c: pa.array([value] * len(keys), pa.int64()) for c in chosen}
            assert not self.store.write(table, WriteBatch(pa.record_batch(arrays), op)).errors
        for key in keys:
            known = key in model.rows
            if op is Op.DELETE_IGNORE:
                model.rows.pop(key, None)
            elif known and op is not Op.INSERT_IGNORE:
                model.rows[key].update(dict.fromkeys(chosen, value))
            elif not known and op is not Op.UPDATE_IGNORE:
                columns = {column.name: column.default for column in table.schema.columns[1:]}
                model.rows[key] = {**columns, **dict.fromkeys(chosen, value)}

    # ---- transactions ------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.inside is None)
    @rule()
    def begin(self):
        self.inside = self.db.begin()
        self.model = copy.deepcopy(self.outside)
        self.saved = []

    @precondition(lambda self: self.inside is not None)
    @rule()
    def savepoint(self):
        self.saved.append((self.inside.savepoint(), copy.deepcopy(self.model)))

    @precondition(lambda self: self.inside is not None and self.saved)
    @rule(data=st.data())
    def roll_back_to(self, data):
        number = data.draw(st.integers(0, len(self.saved) - 1))
        mark, model = self.saved[number]
        self.inside.rollback_to(mark)
        self.model = copy.deepcopy(model)
        del self.saved[number + 1 :]

    @precondition(lambda self: self.inside is not None)
    @rule()
    def roll_back(self):
        self.inside.rollback()
        self.inside, self.model = None, self.outside

    @precondition(lambda self: self.inside is not None)
    @rule(keep=st.sampled_from([0.0, 0.5, 1.0]))
    def commit(self, keep):
        """Each sync of it is a place for a crash: all or nothing."""
        images = []
        self.fs.on_sync = lambda what: images.append(self.fs.crash(keep, random.Random(1)))
        before, after = self.outside.state(), self.model.state()
        try:
            self.inside.commit()
        finally:
            self.fs.on_sync = None
        self.outside, self.inside = self.model, None
        for image in images[-3:]:
            assert not check_store(image, "db").errors
            with Database("db", fs=image, background=False) as db:
                assert state(db) in (before, after)
        self.agree()

    @precondition(lambda self: self.inside is not None)
    @rule(data=st.data())
    def lose_to_another(self, data):
        """Another transaction changes a table that this one has altered or dropped, and commits first."""
        changed = [
            name
            for name, model in self.outside.tables.items()
            if name not in self.model.tables or self.model.tables[name].columns != model.columns
        ]
        if not changed:
            return
        name = data.draw(st.sampled_from(sorted(changed)))
        other = self.db.begin()
        other.alter_table(name, [RenameColumn("k", "key")])
        other.alter_table(name, [RenameColumn("key", "k")])
        other.commit()
        try:
            self.inside.commit()
        except SerializationFailure:
            pass
        else:
            raise AssertionError(f"table {name} was altered by both")
        self.inside, self.model = None, self.outside
        self.agree()

    # ---- all ---------------------------------------------------------------------------------------------------------

    @rule()
    def agree(self):
        assert state(self.store) == self.model.state()
        assert self.inside is None or state(self.db) == self.outside.state()
        for name in NAMES:
            if name not in self.model.tables:
                try:
                    self.store.table(name)
                except UnknownTable:
                    continue
                raise AssertionError(name)

    @rule()
    def flush(self):
        self.db.flush()

    @precondition(lambda self: self.inside is None)
    @rule(keep=st.sampled_from([0.0, 0.5, 1.0]), closes=st.booleans())
    def reopen(self, keep, closes):
        if closes:
            self.db.close()
        else:
            self.fs = self.fs.crash(keep, random.Random(3))
        self.db = Database("db", fs=self.fs, background=False)
        self.db.check()
        self.agree()


TestCatalogMachine = CatalogMachine.TestCase
TestCatalogMachine.settings = settings(max_examples=examples(30), stateful_step_count=30, deadline=None)
