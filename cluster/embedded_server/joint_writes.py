"""Writes of clients to whole tables: one batch of the store, all or nothing over any number of tablets; the COMMIT of a
transaction, with batches of several tables.

    WriteTable, CommitTransaction                     rows of one message
    StageRows 1, 2, 3, ... ─► WriteTable,             a larger one: written once complete, as one batch for each table
                          │   CommitTransaction
                          └─► DropStaged              nothing of it, nor after `IDLE_SECONDS` without a message

The store writes such a batch like one of its own process, with a COMMIT if it changes several tablets
(`storage.log.commit_log`). Staged pieces are in memory: a restarted server does not have them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from ...errors import LimitExceeded, MemoryLimitExceeded, OperationalError, ProtocolError, StaleSchema
from ...model.access.holders import Holder
from ...model.access.rights import TABLE_RIGHTS, secured
from ...model.schema import Table
from ...model.store import TableWrite, Timestamp, TransactionChanges, WriteBatch
from ...model.transactions import TableRead
from ...storage.database import Database
from ...storage.writing.joined_batches import joined_batch
from ..tablets.layout import check_version
from ..tserver.replies import write_reply
from ..wire.call_context import CallContext
from ..wire.messages.joint_methods import (
    CommittedBatch,
    CommitTransaction,
    DropStaged,
    StageRows,
    TableWritten,
    WriteTable,
)
from ..wire.messages.methods import Done, Reply, Request, WriteReply
from ..wire.messages.plain import predicates_from_plain
from ..wire.rows.write_rows import rows_from_bytes, write_from_request
from ..wire.security.table_rights import require_ops
from .call_results import Calls
from .tablets import EmbeddedTablets

Handler: TypeAlias = Callable[[Any, CallContext], Reply]
IDLE_SECONDS = 900.0
"""Seconds without a message of the client after which its staged pieces are dropped."""
ERROR_BYTES = 1 << 20
"""Most characters of the errors of refused rows in one reply; a character may take four bytes."""
ERROR_OVERHEAD = 40
"""Characters of one error: its class and its row's number."""
STAGED_SHARE = 0.5
"""Share of the store's memory limit for the staged pieces of all clients: the rows need it once more when they are
written."""


class _Staged:
    """The pieces of one batch, in their order."""

    def __init__(self) -> None:
        self.pieces: list[WriteBatch] = []
        self.size = 0
        """Bytes of Arrow data."""
        self.used = time.monotonic()


class OwnedWrites:
    """Batches of clients, in progress or staged. Thread-safe."""

    def __init__(self, store: Database, tablets: EmbeddedTablets, calls: Calls):
        self._store = store
        self._tablets = tablets
        self._calls = calls
        self._lock = threading.Lock()
        self._staged: dict[str, _Staged] = {}
        self._size = 0

    def handlers(self) -> dict[type[Request], Handler]:
        """Returns the handlers by class of request."""
        return {
            StageRows: self.stage,
            WriteTable: self.write,
            DropStaged: self.drop,
            CommitTransaction: self.commit,
        }

    @property
    def count(self) -> int:
        """Number of batches with staged pieces."""
        return len(self._staged)

    # ---- requests ------------------------------------------------------------------------------------------------

    def stage(self, request: StageRows, context: CallContext) -> Done:
        """Keeps a piece; a repeated one is kept once.

        Raises `LimitExceeded` if the batch is too large, `MemoryLimitExceeded` if there is no room for it now,
        `OperationalError` if earlier pieces were dropped.
        """
        piece = write_from_request(request.piece)
        size = piece.rows.nbytes
        with self._lock:
            if request.number == 1 and request.batch_id not in self._staged:
                self._staged[request.batch_id] = _Staged()
            staged = self._get(request.batch_id)
            if request.number > len(staged.pieces) + 1:
                raise ProtocolError(f"piece {len(staged.pieces) + 1} of batch {request.batch_id} is missing")
            if request.number == len(staged.pieces) + 1:
                self._check_room(staged, size)
                staged.pieces.append(piece)
                staged.size += size
                self._size += size
            staged.used = time.monotonic()
        return Done()

    def _check_room(self, staged: _Staged, size: int) -> None:
        """Checks the room for a piece. Needs the lock."""
        limit = int(STAGED_SHARE * self._store.memory_status().limit)
        if staged.size + size > limit:
            raise LimitExceeded(
                f"a batch of more than {staged.size:,} bytes is too large: the process that has opened the directory "
                f"keeps at most {limit:,} bytes of unfinished batches; write fewer rows at a time, use COPY "
                "or load, or raise its memory limit"
            )
        if self._size + size > limit:
            raise MemoryLimitExceeded(
                f"there is no room for a batch of more than {staged.size + size:,} bytes: {self._size:,} of {limit:,} "
                "bytes are taken by unfinished batches"
            )

    def write(self, request: WriteTable, context: CallContext) -> TableWritten:
        """Writes a batch, or reports what would be refused (`check_only`)."""
        if request.piece.check_only:
            return _page(self._check(request, context.holder), request.errors_from)
        holder = context.holder
        reply = self._calls.once(request.call, context.deadline, WriteReply, lambda: self._write(request, holder))
        return _page(reply, request.errors_from)

    def _check(self, request: WriteTable, holder: Holder | None) -> WriteReply:
        table = self._table(request.table_id, request.piece.schema_version)
        store = self._store.open_table(table)
        return write_reply(store.write(_allowed(self._batch(request), table, holder), check_only=True, table=table))

    def _write(self, request: WriteTable, holder: Holder | None) -> WriteReply:
        table = self._table(request.table_id, request.piece.schema_version)
        reply = write_reply(self._store.write(table, _allowed(self._batch(request), table, holder)))
        self._drop(request.batch_id)
        return reply

    def _table(self, table_id: str, version: int) -> Table:
        """Returns the table; raises `StaleSchema` if it was altered or dropped since the client read the catalog."""
        table = self._tablets.table(table_id)
        if table is None:
            raise StaleSchema(f"table {table_id} has been dropped")
        return check_version(table, version)

    # ---- transactions --------------------------------------------------------------------------------------------

    def commit(self, request: CommitTransaction, context: CallContext) -> WriteReply:
        """Applies the changes of a transaction."""
        if request.snapshot > self._store.now():
            raise ProtocolError("the snapshot of a transaction is in the future")
        holder = context.holder
        return self._calls.once(request.call, context.deadline, WriteReply, lambda: self._commit(request, holder))

    def _commit(self, request: CommitTransaction, holder: Holder | None) -> WriteReply:
        tables = [self._table(part.table_id, part.schema_version) for part in request.writes]
        writes = tuple(
            TableWrite(table, _allowed(self._part(part), table, holder)) for table, part in zip(tables, request.writes)
        )
        reads = tuple(
            TableRead(
                self._table(part.table_id, part.schema_version),
                predicates_from_plain(part.predicates),
                None if part.keys is None else rows_from_bytes(part.keys),
            )
            for part in request.reads
        )
        if holder is not None:
            for read in reads:
                holder.require_one_of(TABLE_RIGHTS, secured(read.table))
        changes = TransactionChanges(Timestamp(request.snapshot), writes, reads)
        timestamp = self._store.commit_transaction(changes)
        for part in request.writes:
            self._drop(part.batch_id)
        return WriteReply(applied=sum(write.batch.rows.num_rows for write in writes), timestamp=timestamp)

    def _part(self, part: CommittedBatch) -> WriteBatch:
        if part.piece is not None:
            return write_from_request(part.piece)
        return _joined(self._staged_pieces(part.batch_id, part.staged))

    # ---- staged pieces -------------------------------------------------------------------------------------------

    def _batch(self, request: WriteTable) -> WriteBatch:
        last = write_from_request(request.piece)
        return last if not request.staged else _joined([*self._staged_pieces(request.batch_id, request.staged), last])

    def _staged_pieces(self, batch_id: str, count: int) -> list[WriteBatch]:
        with self._lock:
            staged = self._get(batch_id)
            if count != len(staged.pieces):
                raise ProtocolError(f"batch {batch_id} has {len(staged.pieces)} of {count} staged pieces")
            staged.used = time.monotonic()
            return list(staged.pieces)

    def drop(self, request: DropStaged, context: CallContext) -> Done:
        """Drops the staged pieces of a batch."""
        self._drop(request.batch_id)
        return Done()

    # ---- the end -------------------------------------------------------------------------------------------------

    def expire(self) -> None:
        """Drops the pieces of absent clients."""
        limit = time.monotonic() - IDLE_SECONDS
        with self._lock:
            old = [id for id, staged in self._staged.items() if staged.used < limit]
        for id in old:
            self._drop(id)

    def _drop(self, id: str) -> None:
        with self._lock:
            staged = self._staged.pop(id, None)
            if staged is not None:
                self._size -= staged.size

    def _get(self, id: str) -> _Staged:
        """Returns the staged batch of an id. Needs the lock."""
        staged = self._staged.get(id)
        if staged is None:
            raise OperationalError(
                f"there are no staged rows of batch {id}: its client was silent for {IDLE_SECONDS:.0f} seconds, or "
                "another process has opened the store since; nothing of it was written, write it again"
            )
        return staged


def _allowed(batch: WriteBatch, table: Table, holder: Holder | None) -> WriteBatch:
    """Returns a batch that a user may write to a table; raises `PermissionDenied` otherwise."""
    if holder is not None:
        codes = (batch.ops,) if isinstance(batch.ops, int) else np.unique(batch.ops).tolist()
        require_ops(holder, table, codes)
    return batch


def _page(reply: WriteReply, start: int) -> TableWritten:
    """Returns a reply with as many errors, from number `start` on, as fit into one message."""
    stop, size = start, 0
    while stop < len(reply.errors) and size < ERROR_BYTES:
        size += ERROR_OVERHEAD + len(reply.errors[stop].message)
        stop += 1
    return TableWritten(
        applied=reply.applied,
        timestamp=reply.timestamp,
        errors=reply.errors[start:stop],
        refused=len(reply.errors),
    )


def _joined(pieces: Sequence[WriteBatch]) -> WriteBatch:
    """Returns the pieces as one batch, in their order; raises `ProtocolError` if their columns differ."""
    last = pieces[-1]
    if any(piece.rows.schema != last.rows.schema or piece.isset.keys() != last.isset.keys() for piece in pieces):
        raise ProtocolError("the pieces of a batch have different columns")
    return joined_batch(pieces)
