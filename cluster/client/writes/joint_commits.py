"""COMMIT of a transaction in a directory that another process has open: its store applies all changes at one timestamp,
or none (`embedded_server.joint_writes`).

A retried request has the same call id, so it is executed once. Rows that do not fit into one message are staged before,
batch by batch. On a cluster, `transactions` commits.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress

from ....errors import Error, StaleSchema
from ....model.altered_table import check_same_columns
from ....model.schema import Table
from ....model.store import TableWrite, Timestamp, TransactionChanges
from ....model.transactions import TableRead
from ...wire.messages.joint_methods import CommittedBatch, CommitTransaction, DropStaged, StageRows, ValidatedRead
from ...wire.messages.methods import Call, Done, WriteReply
from ...wire.messages.plain import predicates_to_plain
from ...wire.rows.write_rows import rows_to_bytes
from ..catalog.catalog_cache import CatalogCache, KnownTable
from ..client_context import ClientContext
from ..retry import Attempts
from .joint_writes import EmbeddedCalls, OutgoingBatch, message_of, outgoing_batch
from .routing import PIECE_BYTES, PIECE_ROWS


class JointCommits:
    """Commits transactions through an embedded server. Thread-safe.

    Parameters
    ----------
    wrote : callable
        Called with the table and the number of changed rows, after each COMMIT.
    """

    def __init__(
        self,
        shared: ClientContext,
        catalog: CatalogCache,
        calls: EmbeddedCalls,
        wrote: Callable[[Table, int], None],
    ):
        self._shared = shared
        self._catalog = catalog
        self._calls = calls
        self._wrote = wrote

    def commit(self, changes: TransactionChanges) -> Timestamp:
        """Implements `Store.commit_transaction`."""
        if not changes.writes and not changes.reads:
            return changes.snapshot
        batches = [self._batch(write) for write in changes.writes]
        for _, batch in batches:
            if batch.errors:
                raise batch.errors[0].error
        batches = [(known, batch) for known, batch in batches if len(batch.numbers)]
        rows = sum(len(batch.numbers) for _, batch in batches)
        what = f"a COMMIT of {rows} rows"
        try:
            timestamp = self._send(changes, batches, what)
        finally:
            for known, batch in batches:
                self._wrote(known.table, len(batch.numbers))
        self._shared.written(timestamp)
        return timestamp

    def _batch(self, write: TableWrite) -> tuple[KnownTable, OutgoingBatch]:
        return self._catalog.fitting(
            write.table, lambda known: (known, outgoing_batch(write.table, known, write.batch))
        )

    def _send(
        self, changes: TransactionChanges, batches: Sequence[tuple[KnownTable, OutgoingBatch]], what: str
    ) -> Timestamp:
        pieces = [piece for _, batch in batches for piece in batch.pieces]
        is_small = len(pieces) == len(batches) and (
            sum(piece.rows.nbytes for piece in pieces) <= PIECE_BYTES
            and sum(piece.rows.num_rows for piece in pieces) <= PIECE_ROWS
        )
        if is_small:
            return self._commit(changes, batches, [], self._shared.attempts(what))
        ids = [uuid.uuid4().hex for _ in batches]
        try:
            for batch_id, (known, batch) in zip(ids, batches):
                for number, piece in enumerate(batch.pieces, 1):
                    request = StageRows(batch_id=batch_id, number=number, piece=message_of(known, piece, False))
                    self._calls.call(request, Done, self._shared.attempts(what))
            # The last request writes all of it, in the time that its pieces would have by themselves.
            attempts = self._shared.attempts(what, self._shared.options.deadline * len(pieces))
            return self._commit(changes, batches, ids, attempts)
        except BaseException:
            with suppress(Exception):  # the server drops them by itself, later
                self._shared.farewells.submit(self._forget, ids)
            raise

    def _commit(
        self,
        changes: TransactionChanges,
        batches: Sequence[tuple[KnownTable, OutgoingBatch]],
        ids: Sequence[str],
        attempts: Attempts,
    ) -> Timestamp:
        with self._shared.numbers.numbered() as call:
            while True:
                known = {table_id: self._catalog.known(table) for table_id, table in changes.tables.items()}
                request = _request(changes, batches, ids, known, call)
                try:
                    reply = self._calls.call(request, WriteReply, attempts)
                except StaleSchema as error:
                    attempts.failed(error)
                    for table in known.values():
                        self._catalog.newer(table, attempts)
                    for write in changes.writes:
                        latest = self._catalog.known(write.table).table
                        check_same_columns(write.table, latest, write.batch.rows.schema.names)
                    continue
                return Timestamp(reply.timestamp)

    def _forget(self, ids: Sequence[str]) -> None:
        for batch_id in ids:
            with suppress(Error):
                self._calls.call_once(DropStaged(batch_id=batch_id), 5.0)


def _request(
    changes: TransactionChanges,
    batches: Sequence[tuple[KnownTable, OutgoingBatch]],
    ids: Sequence[str],
    known: dict[str, KnownTable],
    call: Call,
) -> CommitTransaction:
    writes = []
    for number, (made_for, batch) in enumerate(batches):
        now = known[made_for.table.id]
        if ids:
            part = CommittedBatch(now.table.id, now.table.version, None, ids[number], len(batch.pieces))
        else:
            part = CommittedBatch(now.table.id, now.table.version, message_of(now, batch.pieces[0], False))
        writes.append(part)
    reads = tuple(_read(read, known[read.table.id].table) for read in changes.reads)
    return CommitTransaction(snapshot=changes.snapshot, writes=tuple(writes), reads=reads, call=call)


def _read(read: TableRead, table: Table) -> ValidatedRead:
    names = [predicate.column for predicate in read.predicates]
    check_same_columns(read.table, table, [*names, *(() if read.keys is None else read.keys.schema.names)])
    keys = None if read.keys is None else rows_to_bytes(read.keys)
    return ValidatedRead(table.id, table.version, predicates_to_plain(read.predicates), keys)
