"""Writes of clients to a whole table: one batch of the store, all or nothing over any number of tablets.

    WriteTable                                        a batch of one message
    StageRows 1, 2, 3, ... ─► WriteTable              a larger one: written once complete, as one batch
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
import pyarrow as pa

from ...errors import LimitExceeded, MemoryLimitExceeded, OperationalError, ProtocolError, StaleSchema
from ...model.schema import Table
from ...model.store import Op, WriteBatch
from ...model.vectors.vector import Array
from ...storage.database import Database
from ..tablets.layout import check_version
from ..tserver.replies import write_reply
from ..wire.messages.joint_methods import DropStaged, StageRows, TableWritten, WriteTable
from ..wire.messages.methods import Done, Reply, Request, WriteReply
from ..wire.rows.write_rows import write_from_request
from ..wire.server import CallContext
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
        return {StageRows: self.stage, WriteTable: self.write, DropStaged: self.drop}

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
            return _page(self._check(request), request.errors_from)
        reply = self._calls.once(request.call, context.deadline, WriteReply, lambda: self._write(request))
        return _page(reply, request.errors_from)

    def _check(self, request: WriteTable) -> WriteReply:
        table = self._table(request)
        store = self._store.open_table(table)
        return write_reply(store.write(self._batch(request), check_only=True, table=table))

    def _write(self, request: WriteTable) -> WriteReply:
        reply = write_reply(self._store.write(self._table(request), self._batch(request)))
        self._drop(request.batch_id)
        return reply

    def _table(self, request: WriteTable) -> Table:
        """Returns the table; raises `StaleSchema` if it was altered or dropped since the client read the catalog."""
        table = self._tablets.table(request.table_id)
        if table is None:
            raise StaleSchema(f"table {request.table_id} has been dropped")
        return check_version(table, request.piece.schema_version)

    def _batch(self, request: WriteTable) -> WriteBatch:
        last = write_from_request(request.piece)
        if not request.staged:
            return last
        with self._lock:
            staged = self._get(request.batch_id)
            if request.staged != len(staged.pieces):
                raise ProtocolError(
                    f"batch {request.batch_id} has {len(staged.pieces)} of {request.staged} staged pieces"
                )
            staged.used = time.monotonic()
            pieces = [*staged.pieces, last]
        return _joined(pieces)

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
    rows = pa.Table.from_batches([piece.rows for piece in pieces]).combine_chunks().to_batches()
    if len(rows) != 1:
        raise ProtocolError("the pieces of a batch do not fit into one")
    isset = {name: np.concatenate([piece.isset[name] for piece in pieces]) for name in last.isset}
    return WriteBatch(rows[0], _ops(pieces), last.all_or_none, isset, last.unchanged_since)


def _ops(pieces: Sequence[WriteBatch]) -> Op | Array:
    found = [piece.ops for piece in pieces]
    if isinstance(found[0], Op) and all(ops is found[0] for ops in found):
        return found[0]
    return np.concatenate(
        [np.full(p.rows.num_rows, p.ops, np.uint8) if isinstance(p.ops, Op) else p.ops for p in pieces]
    )
