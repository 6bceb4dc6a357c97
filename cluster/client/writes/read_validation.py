"""Validation of what a transaction has read: nothing of it was changed between its snapshot and its commit timestamp.

The tablets are read as of the commit timestamp, so no leader will give a later write a timestamp at or below it (as for
every read at a snapshot): a change that comes after the validation is after the transaction. Prepared writes of other
transactions below the timestamp are waited for. The transaction's own prepared writes, which have the timestamp itself,
are not: their tablets are read just below it, and no other write there has the same timestamp. Leaders are read alone:
followers hold the timestamp of the PREPARE entry, and would keep a read at a later one waiting for the transaction
itself.

A changed row counts only if it satisfied the predicates, at the snapshot or at the commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Protocol

import pyarrow as pa

from ....errors import SerializationFailure
from ....model.keys.keys import Keys, decode_key
from ....model.schema import Table
from ....model.store import ChangeRange, ScanSpec, ScanToken, Timestamp, TransactionChanges
from ....model.transactions import TableRead
from ....model.vectors.vector import Batch
from ....storage.writing.incoming_rows import describe_key


class Scanning(Protocol):
    """The scans of a store."""

    def scan_tokens(self, table: Table, spec: ScanSpec) -> list[ScanToken]: ...

    def scan_at_leader(self, token: ScanToken) -> Iterator[Batch]: ...


def validate_reads(store: Scanning, changes: TransactionChanges, timestamp: Timestamp, held: frozenset[str]) -> None:
    """Check the reads of a transaction.

    Parameters
    ----------
    store : Scanning
    changes : TransactionChanges
    timestamp : Timestamp
        The commit timestamp.
    held : frozenset of str
        Ids of the tablets where the transaction has prepared writes.

    Raises `SerializationFailure` where something was changed, `HistoryGone` where that is not known any more.
    """
    for read in changes.reads:
        _validate(store, read, changes.snapshot, timestamp, held)


def _validate(
    store: Scanning, read: TableRead, snapshot: Timestamp, timestamp: Timestamp, held: frozenset[str]
) -> None:
    table = read.table
    names = tuple(column.name for column in table.schema.key)
    on_keys = tuple(predicate for predicate in read.predicates if predicate.column in names)
    diff = ScanSpec(names, on_keys, timestamp, changes=ChangeRange(snapshot, history=True))
    changed = set(_keys(store, table, diff, held))
    if read.keys is not None:
        changed.intersection_update(_encoded(table, read.keys))
    if not changed:
        return
    if len(on_keys) < len(read.predicates):
        before = ScanSpec(names, read.predicates, snapshot)
        after = ScanSpec(names, read.predicates, timestamp)
        seen = {*_keys(store, table, before, frozenset()), *_keys(store, table, after, held)}
        changed &= seen
    if changed:
        types = tuple(column.type for column in table.schema.key)
        raise SerializationFailure(
            f"row with key {describe_key(table, decode_key(types, min(changed)))} of table {table.name} was changed by "
            "another transaction after this one began; retry the transaction"
        )


def _keys(store: Scanning, table: Table, spec: ScanSpec, held: frozenset[str]) -> Iterable[bytes]:
    """The encoded keys of a scan's rows."""
    assert spec.snapshot is not None
    below = replace(spec, snapshot=Timestamp(spec.snapshot - 1))
    for token in store.scan_tokens(table, spec):
        if token.tablet_id in held:
            token = replace(token, spec=below)
        for batch in store.scan_at_leader(token):
            columns = {name: vector.to_arrow() for name, vector in zip(spec.columns, batch.columns())}
            yield from _encoded(table, pa.RecordBatch.from_pydict(columns))


def _encoded(table: Table, rows: pa.RecordBatch) -> list[bytes]:
    encoded: list[bytes] = Keys.from_rows(table.schema, rows).encoded().to_pylist()
    return encoded
