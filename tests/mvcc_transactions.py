"""Transactions for the machine that holds a store against a dictionary of versions (`mvcc_machine`).

Several are open at a time. Each has a model of its own: the versions of its snapshot, and its own changes above them.
A COMMIT is refused if, and only if, the store's model has a later version of one of its keys; at SERIALIZABLE, whose
transactions here have read the whole table, if there is a later version at all.
"""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import rule
from nyala.errors import DiskError, HistoryGone, InvalidSavepoint, SerializationFailure
from nyala.model.predicates import Range
from nyala.model.store import Op, ScanSpec, Timestamp
from nyala.model.transactions import Isolation, TransactionOptions
from nyala.storage.files.memory_filesystem import CrashableFileSystem
from store_model import Outcome, TableModel, Version

OPEN = 3
"""Transactions that are open at the same time, at most."""
PLACES = st.integers(0, OPEN - 1)
Key = tuple[Any, ...]


@dataclass
class OpenTransaction:
    """A transaction, and what it must see."""

    store: Any
    model: TableModel
    is_serializable: bool
    writes: int = 0
    saved: list[tuple[int, dict[Key, list[Version]]]] = field(default_factory=list)
    keys: set[Key] = field(default_factory=set)
    """All keys that it has changed, though a savepoint may have undone it."""

    def apply(self, outcome: Outcome) -> None:
        """Add changes of its own; their timestamps only order them."""
        self.writes += 1
        self.model.commit(outcome, self.writes)

    def changes(self) -> dict[Key, list[Version]]:
        """Its own versions of each key that it has changed, in order."""
        own = {key: [v for v in versions if v.timestamp] for key, versions in self.model.versions.items()}
        return {key: versions for key, versions in own.items() if versions}

    def net_keys(self) -> set[Key]:
        """The keys that a COMMIT writes: a row that came and went is nothing."""
        return {
            key
            for key, own in self.changes().items()
            if own[-1].row is not None or self.model.versions[key][0].timestamp == 0
        }


def as_of(model: TableModel, time: int) -> TableModel:
    """The model's rows at a time, as versions with timestamp 0."""
    copied = TableModel(model.schema)
    for key in model.versions:
        row = model.state(key, time)
        if row is not None:
            copied.versions[key] = [Version(0, row)]
    return copied


class TransactionRules:
    """Rules about transactions, for a machine that has a store, its model and writes."""

    open_ones: list[OpenTransaction]

    @rule(serializable=st.booleans(), spills=st.booleans())
    def begin(self, serializable, spills):
        if len(self.open_ones) < OPEN:
            isolation = Isolation.SERIALIZABLE if serializable else Isolation.SNAPSHOT
            store = self.db.begin(TransactionOptions(isolation, memory_limit=1 if spills else None))
            self.open_ones.append(OpenTransaction(store, as_of(self.model, store.snapshot), serializable))
            if serializable:
                self.check_transaction(self.open_ones[-1])

    def transaction(self, place: int) -> OpenTransaction | None:
        """An open transaction whose snapshot can be read; one that is too old says so, and is rolled back."""
        if not self.open_ones:
            return None
        found = self.open_ones[place % len(self.open_ones)]
        if not self.is_forgotten(found.store.snapshot):
            return found
        with pytest.raises(HistoryGone):
            self.scan_in(found)
        self.end(found)
        found.store.rollback()
        return None

    def end(self, found: OpenTransaction) -> None:
        self.open_ones = [other for other in self.open_ones if other is not found]

    def forget_transactions(self) -> None:
        """The store closes, or its table is altered."""
        for found in self.open_ones:
            found.store.rollback()
        self.open_ones = []

    # ---- writing -------------------------------------------------------------------------------------------------

    def write_in(self, place, rows, all_or_none):
        found = self.transaction(place)
        if found is None:
            return
        given = [self.row(key, columns) for _, key, columns in rows]
        ops = [Op[name] for name, _, _ in rows]
        expected = found.model.resolve(ops, given)
        result = found.store.write(self.table, self.batch(ops, given, all_or_none))
        errors = {error.row: type(error.error).__name__ for error in result.errors}
        if all_or_none and expected.errors:
            assert result.applied == 0
            assert errors.keys() >= {min(expected.errors)}
            return
        assert (errors, result.applied) == (expected.errors, expected.applied)
        found.apply(expected)

    def write_row_in(self, place, op, key, given):
        found = self.transaction(place)
        if found is None:
            return
        row = self.row(key, given)
        expected = found.model.resolve([Op[op]], [row])
        result = found.store.write_row(self.table, Op[op], row)
        assert {e.row: type(e.error).__name__ for e in result.errors} == expected.errors
        found.apply(expected)

    def transact(self, parts, saves, serializable, ending, number):
        """A short transaction, which others seldom disturb: a batch, a savepoint, a second one, which may be undone."""
        before = list(self.open_ones)
        self.open_ones = []
        self.begin(serializable, False)
        for place, rows in enumerate(parts):
            if saves and place == 1:
                self.save(0)
            self.write_in(0, rows, False)
        if saves and number % 2:
            self.go_back(0, 0, False)
        if not self.open_ones:
            pass
        elif ending == "fails":
            self.failing_commit(0, number, 1 + number % 2)
        elif ending == "torn":
            self.open_ones += before
            self.torn_commit(0, number, (0.0, 0.5, 1.0)[number % 3], number)
            return
        else:
            self.check_transaction(self.open_ones[0])
            self.commit(0)
        self.open_ones = before

    # ---- savepoints ----------------------------------------------------------------------------------------------

    @rule(place=PLACES)
    def save(self, place):
        found = self.transaction(place)
        if found is not None:
            versions = {key: list(versions) for key, versions in found.model.versions.items()}
            found.saved.append((found.store.savepoint(), versions))

    @rule(place=PLACES, number=st.integers(0, 2), releases=st.booleans())
    def go_back(self, place, number, releases):
        """Back to a savepoint, which remains; or it is released with those behind it."""
        found = self.transaction(place)
        if found is None or not found.saved:
            return
        number %= len(found.saved)
        mark, versions = found.saved[number]
        later = [other for other, _ in found.saved[number + 1 :]]
        if releases:
            found.store.release(mark)
            del found.saved[number:]
        else:
            found.store.rollback_to(mark)
            found.model.versions = {key: list(some) for key, some in versions.items()}
            del found.saved[number + 1 :]
        for other in later:
            with pytest.raises(InvalidSavepoint):
                found.store.release(other)
        self.check_transaction(found)

    # ---- ends ----------------------------------------------------------------------------------------------------

    @rule(place=PLACES)
    def roll_back(self, place):
        found = self.transaction(place)
        if found is not None:
            found.store.rollback()
            self.end(found)

    @rule(place=PLACES)
    def commit(self, place):
        """Also of a transaction that is too old: it must not pass where it has a conflict."""
        if not self.open_ones:
            return
        found = self.open_ones[place % len(self.open_ones)]
        is_old = self.is_forgotten(found.store.snapshot)
        self.end(found)
        try:
            timestamp = found.store.commit()
        except SerializationFailure:
            assert self.is_conflict(found)
        except HistoryGone:
            assert is_old
        else:
            assert not self.is_conflict(found)
            self.make_versions(found, timestamp)

    def is_conflict(self, found: OpenTransaction) -> bool:
        """True if the store's model has a later version of something that the transaction relies on."""
        keys, snapshot = found.net_keys(), found.store.snapshot
        changed = {key for key, versions in self.model.versions.items() if versions[-1].timestamp > snapshot}
        return bool(keys and changed) if found.is_serializable else not keys.isdisjoint(changed)

    def make_versions(self, found: OpenTransaction, timestamp: int) -> None:
        """The transaction's changes are one version of each key, at one timestamp."""
        net = Outcome()
        own = found.changes()
        for key in found.net_keys():
            net.changes[key] = own[key][-1].row
            is_whole = any(version.columns is None for version in own[key])
            every = {column.id for column in found.model.schema.columns}
            net.columns[key] = every if is_whole else set().union(*(version.columns for version in own[key]))
        self.model.commit(net, timestamp)
        assert timestamp > found.store.snapshot or not net.changes

    @rule(place=PLACES, operation=st.integers(0, 5), nth=st.integers(1, 3))
    def failing_commit(self, place, operation, nth):
        """One step of one log fails: all of the transaction has happened, or nothing and the error says so."""
        found = self.transaction(place)
        if found is None or self.is_conflict(found):
            return
        self.end(found)
        self.disk.fail(*self.log_steps[operation % len(self.log_steps)], nth=nth, times=1)
        try:
            timestamp = found.store.commit()
        except DiskError as error:
            assert error.retryable
        else:
            self.make_versions(found, timestamp)
        self.disk.heal()

    @rule(place=PLACES, nth=st.integers(1, 8), keep=st.sampled_from([0.0, 0.5, 1.0]), seed=st.integers(0, 2**16))
    def torn_commit(self, place, nth, keep, seed):
        """The machine loses its power at some sync of a COMMIT: all of it is there afterwards, or nothing."""
        found = self.transaction(place)
        if found is None or self.is_conflict(found):
            return
        images: list[CrashableFileSystem] = []
        syncs, rng = itertools.count(1), random.Random(seed)
        fs = self.fs

        def record(what: str) -> None:
            if next(syncs) == nth:
                images.append(fs.crash(keep, rng))

        self.end(found)
        fs.on_sync = record
        timestamp = found.store.commit()
        fs.on_sync = None
        self.close()
        self.open(images[0] if images else fs)
        names = self.model.schema.names
        if not images or self.by_key(self.scan(names)) != self.model.rows(names, int(self.db.now())):
            self.make_versions(found, timestamp)

    # ---- reading -------------------------------------------------------------------------------------------------

    def scan_in(self, found: OpenTransaction, **spec: Any) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = []
        for token in found.store.scan_tokens(self.table, ScanSpec(tuple(self.model.schema.names), **spec)):
            for batch in found.store.scan(token):
                rows.extend(zip(*(column.to_arrow().to_pylist() for column in batch.columns())))
        return rows

    def check_transaction(self, found: OpenTransaction) -> None:
        """The snapshot with its own rows, and the snapshot without them at its timestamp."""
        names = self.model.schema.names
        assert self.by_key(self.scan_in(found)) == found.model.rows(names, found.writes)

    @rule(place=PLACES, ordered=st.booleans(), key=st.integers(0, 7))
    def read_in(self, place, ordered, key):
        found = self.transaction(place)
        if found is None:
            return
        schema = self.model.schema
        expected = found.model.rows(schema.names, found.writes)
        rows = self.scan_in(found, ordered=ordered)
        assert self.by_key(rows) == expected
        values = self.key_of(key)
        mine = [row for row in expected if row[: schema.key_columns] == values]
        row = found.store.read_row(self.table, values, schema.names)
        assert ([] if row is None else [row]) == mine
        first = schema.columns[0]
        bounds = Range(first.name, first.type.to_physical(values[0]), None)
        few = self.scan_in(found, predicates=(bounds,))
        assert self.by_key(few) == [row for row in expected if row[0] >= values[0]]
        self.check_transaction(found)

    @rule(place=PLACES, share=st.floats(0, 1))
    def read_the_past_in(self, place, share):
        """A transaction sees the past before its snapshot as all others do."""
        found = self.transaction(place)
        if found is not None and (time := self.remembered(share)) < found.store.snapshot:
            names = self.model.schema.names
            assert self.by_key(self.scan_in(found, snapshot=Timestamp(time))) == self.model.rows(names, time)
