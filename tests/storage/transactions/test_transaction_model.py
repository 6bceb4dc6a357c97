"""A transaction against a mirror, a store of its own that receives the same writes: both must give the same results,
while others write to the store under the transaction."""

from __future__ import annotations

import random

from examples import examples
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from nyala.errors import Error, SerializationFailure
from nyala.model.predicates import AnyOf, InList, IsNull, Range
from nyala.model.store import ChangeRange, Op, ScanSpec, Timestamp
from nyala.model.transactions import TransactionOptions
from nyala.storage.database import Database
from nyala.storage.files.memory_filesystem import CrashableFileSystem
from row_path_support import few_rows
from transaction_support import POOLS, SHAPES, batch_of, contents, make_equal, outcome, scanned

OPS = st.sampled_from(list(Op))
LIMITS = st.sampled_from([1000, 1000, 5, -1])


class TransactionMachine(RuleBasedStateMachine):
    """`self.mirror` has what `self.transaction` must show."""

    @initialize(
        shape=st.sampled_from(list(SHAPES)), data=st.data(), spills=st.booleans(), by_rows=st.booleans(), limit=LIMITS
    )
    def begin(self, shape, data, spills, by_rows, limit):
        """`by_rows`: no batch is written, so that COMMIT gets rows; `limit`: up to which it writes them as such."""
        self.limited = few_rows(limit)
        self.limited.__enter__()
        self.shape, self.by_rows = SHAPES[shape], by_rows
        self.fs = CrashableFileSystem()
        self.db = Database("db", fs=self.fs, background=False)
        self.mirror = Database(":memory:", background=False)
        self.table = self.db.create_table(self.shape.definition())
        self.same_table = self.mirror.create_table(self.shape.definition())
        self.key = self.table.schema.names[: len(self.shape.key)]
        self.names = tuple(self.table.schema.names)
        self.saved = []
        for flushes in (True, True, False):
            rows = data.draw(st.lists(self.rows(), max_size=8))
            if rows:
                self.db.write(self.table, batch_of(self.table, rows, self.names, Op.UPSERT_IGNORE))
                gone = data.draw(st.lists(st.sampled_from(rows), max_size=3))
                if gone:
                    self.db.write(self.table, batch_of(self.table, gone, self.key, Op.DELETE))
            if flushes:
                self.db.flush()
        self.past = self.db.now()
        self.past_rows = contents(self.db, self.table)
        rows = data.draw(st.lists(self.rows(), max_size=4))
        if rows:
            self.db.write(self.table, batch_of(self.table, rows, self.names, Op.UPSERT_IGNORE))
        make_equal(self.mirror, self.same_table, contents(self.db, self.table))
        self.transaction = self.db.begin(TransactionOptions(memory_limit=1 if spills else None))
        self.written: set[tuple] = set()
        self.disturbed: set[tuple] = set()

    def key_of(self, row):
        return tuple(row[name] for name in self.key)

    def keys(self):
        pools = zip(self.key, self.shape.pools)
        return st.fixed_dictionaries({name: st.sampled_from(pool) for name, pool in pools})

    def cells(self):
        return {name: st.sampled_from(pool) for name, pool in POOLS.items()}

    def rows(self):
        return st.builds(lambda key, cells: {**key, **cells}, self.keys(), st.fixed_dictionaries(self.cells()))

    def some_rows(self):
        cells = st.fixed_dictionaries({}, optional=self.cells())
        return st.builds(lambda key, cells: {**key, **cells}, self.keys(), cells)

    # ---- writes --------------------------------------------------------------------------------------------------

    @rule(data=st.data(), op=OPS)
    def write_row(self, data, op):
        row = data.draw(self.rows() | self.some_rows())
        self.written.add(self.key_of(row))
        mine = self.transaction.write_row(self.table, op, row)
        assert outcome(mine) == outcome(self.mirror.write_row(self.same_table, op, row))

    @rule(data=st.data(), op=OPS)
    def write_rows(self, data, op):
        for row in data.draw(st.lists(self.rows() | self.some_rows(), min_size=2, max_size=10)):
            self.written.add(self.key_of(row))
            mine = self.transaction.write_row(self.table, op, row)
            assert outcome(mine) == outcome(self.mirror.write_row(self.same_table, op, row))

    @precondition(lambda self: not self.by_rows)
    @rule(data=st.data(), all_or_none=st.booleans(), mixed=st.booleans(), op=OPS, whole=st.booleans())
    def write_batch(self, data, all_or_none, mixed, op, whole):
        rows = data.draw(st.lists(self.rows() if whole else self.some_rows(), min_size=1, max_size=10))
        chosen = data.draw(st.lists(st.sampled_from(list(POOLS)), unique=True))
        names = self.names if whole else (*self.key, *chosen)
        self.written.update(map(self.key_of, rows))
        given = [{name: row[name] for name in names if name in row} for row in rows]
        ops = data.draw(st.lists(OPS, min_size=len(rows), max_size=len(rows))) if mixed else op
        mine = self.transaction.write(self.table, batch_of(self.table, given, names, ops, all_or_none=all_or_none))
        theirs = self.mirror.write(self.same_table, batch_of(self.table, given, names, ops, all_or_none=all_or_none))
        assert outcome(mine) == outcome(theirs)

    @precondition(lambda self: not self.by_rows)
    @rule(data=st.data())
    def load(self, data):
        rows = data.draw(st.lists(self.rows(), min_size=1, max_size=4))
        self.written.update(map(self.key_of, rows))
        results = []
        for store, table in ((self.transaction, self.table), (self.mirror, self.same_table)):
            try:
                with store.bulk_loader(table) as loader:
                    loader.append(batch_of(table, rows, self.names, Op.INSERT).rows)
                    results.append(loader.finish())
            except Error as error:
                results.append(type(error))
        assert results[0] == results[1]

    @rule(data=st.data())
    def write_outside(self, data):
        rows = data.draw(st.lists(self.rows(), min_size=1, max_size=5))
        op = data.draw(st.sampled_from([Op.UPSERT_IGNORE, Op.DELETE_IGNORE]))
        self.db.write(self.table, batch_of(self.table, rows, self.names if op is Op.UPSERT_IGNORE else self.key, op))
        self.disturbed.update(map(self.key_of, rows))

    @rule()
    def flush(self):
        self.db.flush()

    # ---- savepoints ----------------------------------------------------------------------------------------------

    @rule()
    def savepoint(self):
        self.saved.append((self.transaction.savepoint(), contents(self.mirror, self.same_table)))

    @precondition(lambda self: self.saved)
    @rule(data=st.data())
    def roll_back_to(self, data):
        number = data.draw(st.integers(0, len(self.saved) - 1))
        mark, rows = self.saved[number]
        self.transaction.rollback_to(mark)
        make_equal(self.mirror, self.same_table, rows)
        del self.saved[number + 1 :]

    @precondition(lambda self: self.saved)
    @rule(data=st.data())
    def release(self, data):
        number = data.draw(st.integers(0, len(self.saved) - 1))
        self.transaction.release(self.saved[number][0])
        del self.saved[number:]

    # ---- reads ---------------------------------------------------------------------------------------------------

    def predicates(self, data):
        found = []
        for name in data.draw(st.lists(st.sampled_from(self.names), max_size=2)):
            pool = POOLS[name] if name in POOLS else self.shape.pools[self.key.index(name)]
            type_ = self.table.schema.column(name).type
            values = sorted({type_.to_physical(value) for value in pool if value is not None})
            low, high = (data.draw(st.sampled_from(values)) for _ in range(2))
            kinds = [IsNull(name), IsNull(name, negated=True)]
            if name != "b":
                kinds += [Range(name, low, None), Range(name, None, high, upper_inclusive=False), Range(name, low, low)]
                kinds += [AnyOf(name, (Range(name, high, high), IsNull(name)))]
                if name != "d":
                    kinds += [InList(name, tuple(sorted({low, high})))]
            found.append(data.draw(st.sampled_from(kinds)))
        return tuple(found)

    def projection(self, data):
        return tuple(data.draw(st.lists(st.sampled_from(self.names), max_size=3, unique=True)))

    @rule(data=st.data(), together=st.booleans())
    def scan(self, data, together):
        spec = ScanSpec(self.projection(data), self.predicates(data), split_rows=data.draw(st.sampled_from([None, 1])))
        mine = [row for part in scanned(self.transaction, self.table, spec, together) for row in part]
        theirs = [row for part in scanned(self.mirror, self.same_table, spec) for row in part]
        assert sorted(map(repr, mine)) == sorted(map(repr, theirs))

    @rule(data=st.data(), descending=st.booleans(), limit=st.sampled_from([None, 1, 3, 100]))
    def scan_in_order(self, data, descending, limit):
        spec = ScanSpec(self.projection(data), self.predicates(data), ordered=True, descending=descending, limit=limit)
        found = []
        for store, table in ((self.transaction, self.table), (self.mirror, self.same_table)):
            tokens = store.scan_tokens(table, spec)
            assert len({token.partition for token in tokens}) == len(tokens)
            rows = {t.partition: [row for batch in store.scan(t) for row in batch.rows()] for t in tokens}
            found.append({partition: part for partition, part in rows.items() if part})
        assert found[0] == found[1]

    @rule(data=st.data(), limit=st.integers(1, 4))
    def scan_some(self, data, limit):
        spec = ScanSpec(self.names, self.predicates(data), limit=limit)
        whole = ScanSpec(self.names, spec.predicates)
        every = [row for part in scanned(self.mirror, self.same_table, whole) for row in part]
        mine = scanned(self.transaction, self.table, spec)
        assert all(len(part) <= limit for part in mine)
        rows = [row for part in mine for row in part]
        assert len(rows) >= min(limit, len(every))
        assert len(set(map(repr, rows)) & set(map(repr, every))) == len(rows)

    @rule(data=st.data())
    def read_row(self, data):
        drawn = data.draw(self.keys())
        key = tuple(drawn[name] for name in self.key)
        names = tuple(data.draw(st.lists(st.sampled_from(self.names), min_size=1, max_size=3, unique=True)))
        mine = self.transaction.read_row(self.table, key, names)
        assert mine == self.mirror.read_row(self.same_table, key, names)

    @rule()
    def read_the_past(self):
        spec = ScanSpec(self.names, snapshot=self.past)
        rows = [row for part in scanned(self.transaction, self.table, spec) for row in part]
        assert sorted(map(repr, rows)) == sorted(
            repr(tuple(row[name] for name in self.names)) for row in self.past_rows
        )

    @invariant()
    def shows_the_mirror(self):
        if hasattr(self, "transaction"):
            assert contents(self.transaction, self.table) == contents(self.mirror, self.same_table)

    def teardown(self):
        if not hasattr(self, "transaction"):
            return
        before = {self.key_of(row): row for row in contents(self.db, self.table)}
        mirrored = {self.key_of(row): row for row in contents(self.mirror, self.same_table)}
        since = self.db.now()
        try:
            timestamp = self.transaction.commit()
        except SerializationFailure:
            assert self.written & self.disturbed
            assert {self.key_of(row): row for row in contents(self.db, self.table)} == before
        else:
            after = {self.key_of(row): row for row in contents(self.db, self.table)}
            for key in (before.keys() | mirrored.keys() | after.keys()) - (self.written & self.disturbed):
                assert after.get(key) == (mirrored if key in self.written else before).get(key)
            self.check_history(before, after, since, timestamp)
        self.db.close()
        self.mirror.close()
        self.limited.__exit__(None, None, None)

    def check_history(self, before, after, since, timestamp):
        """All changes have the commit timestamp; they are there after a crash."""
        spec = ScanSpec((*self.names, "_change", "_changed_at"), changes=ChangeRange(since, True))
        changes = [row for part in scanned(self.db, self.table, spec) for row in part]
        changed = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
        found = {tuple(row[: len(self.key)]) for row in changes}
        assert changed <= found and len(found) == len(changes)
        assert all(row[-1] == timestamp for row in changes)
        if changes:
            for at, rows in ((timestamp, after), (Timestamp(timestamp - 1), before)):
                spec = ScanSpec(self.names, snapshot=at)
                seen = [row for part in scanned(self.db, self.table, spec) for row in part]
                assert sorted(map(repr, seen)) == sorted(repr(tuple(row.values())) for row in rows.values())
        with Database("db", fs=self.fs.crash(0.0, random.Random(1)), background=False) as db:
            db.check()
            assert {self.key_of(row): row for row in contents(db, db.table("t"))} == after


TestTransactionModel = TransactionMachine.TestCase
TestTransactionModel.settings = settings(max_examples=examples(30), stateful_step_count=25, deadline=None)
