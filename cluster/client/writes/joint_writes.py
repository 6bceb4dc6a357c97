"""Batches for a directory that another process has open: its store writes each as a whole
(`embedded_server.joint_writes`).

A batch is all or nothing, over any number of tablets, as in an embedded store, even after a crash of the server. It is
executed once: a retried request has the same call id. Errors of a batch or a row that do not depend on the table's
content are detected here, as for a cluster (`routing`); the server reports all others, including partitions.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

import numpy as np

from ....errors import Error, StaleSchema
from ....model.altered_table import check_same_columns
from ....model.lazy_dataclass import dataclass
from ....model.schema import Table
from ....model.store import RowError, Timestamp, WriteBatch, WriteResult
from ....model.vectors.vector import Array
from ....storage.writing.incoming_rows import incoming, row_errors, rows_without
from ...wire.messages.joint_methods import DropStaged, StageRows, TableWritten, WriteTable
from ...wire.messages.methods import Call, Done, Reply, Request, Write, WrittenRow
from ...wire.rows.write_rows import write_to_request
from ..catalog.catalog_cache import CatalogCache, KnownTable
from ..catalog.masters import Masters
from ..client_context import ClientContext
from ..retry import Attempts, until_reply
from .routing import message_batches
from .row_errors import row_errors as refused_rows

R = TypeVar("R", bound=Reply)


@dataclass(frozen=True, slots=True, eq=False)
class OutgoingBatch:
    """A batch for sending: whole rows of the table's types, in pieces of a message each.

    Parameters
    ----------
    pieces : list of WriteBatch
        At least one.
    numbers : ndarray of intp, shape (n_rows,)
        The rows' numbers in the caller's batch.
    errors : list of RowError
        Of rows that are in no piece.
    """

    pieces: list[WriteBatch]
    numbers: Array
    errors: list[RowError]


class EmbeddedCalls:
    """Calls of an embedded server, whose address is that of the master. Thread-safe."""

    def __init__(self, shared: ClientContext, masters: Masters):
        self._shared = shared
        self._masters = masters

    def call(self, request: Request, reply: type[R], attempts: Attempts) -> R:
        """Returns the server's reply. Raises its permanent errors, including `StaleSchema`, or `DeadlineExceeded`."""
        return until_reply(lambda: self.call_once(request, attempts.timeout()), reply, lambda: attempts)

    def call_once(self, request: Request, timeout: float) -> object:
        """`call` with one attempt."""
        return self._shared.channels.get(self._masters.address).call(request, timeout=timeout)


class JointWriter:
    """Writes batches of rows through an embedded server. Thread-safe.

    Parameters
    ----------
    wrote : callable
        Called with the table and the number of changed rows, after each write.
    """

    def __init__(
        self, shared: ClientContext, catalog: CatalogCache, calls: EmbeddedCalls, wrote: Callable[[Table, int], None]
    ):
        self._shared = shared
        self._catalog = catalog
        self._calls = calls
        self._wrote = wrote

    def write(self, table: Table, batch: WriteBatch) -> WriteResult:
        """Implements `Store.write`."""
        known, sent = self._catalog.fitting(table, lambda known: (known, outgoing_batch(table, known, batch)))
        check_only = batch.all_or_none and bool(sent.errors)
        if not len(sent.numbers):
            return WriteResult(0, tuple(sent.errors), self._shared.clock.now())
        try:
            found = self._send(known, sent, check_only)
        except Error:
            if not check_only:
                self._wrote(known.table, len(sent.numbers))
            raise
        errors = sorted([*sent.errors, *found.errors], key=lambda error: error.row)
        if check_only:
            return WriteResult(0, tuple(errors), self._shared.clock.now())
        if found.applied:
            self._wrote(known.table, found.applied)
        self._shared.written(found.timestamp)
        return WriteResult(found.applied, tuple(errors), found.timestamp)

    def _send(self, known: KnownTable, sent: OutgoingBatch, check_only: bool) -> WriteResult:
        what = f"a write of {len(sent.numbers)} rows to table {known.table.name}"
        if len(sent.pieces) == 1:
            return self._write(known, sent, check_only, "", self._shared.attempts(what))
        batch_id = uuid.uuid4().hex
        try:
            for number, piece in enumerate(sent.pieces[:-1], 1):
                request = StageRows(batch_id=batch_id, number=number, piece=message_of(known, piece, check_only))
                self._calls.call(request, Done, self._shared.attempts(what))
            # The last request writes all of it, in the time that its pieces would have by themselves.
            seconds = self._shared.options.deadline * len(sent.pieces)
            return self._write(known, sent, check_only, batch_id, self._shared.attempts(what, seconds))
        except BaseException:
            with suppress(Exception):  # the server drops them by itself, later
                self._shared.farewells.submit(self._forget, batch_id)
            raise

    def _write(
        self, known: KnownTable, sent: OutgoingBatch, check_only: bool, batch_id: str, attempts: Attempts
    ) -> WriteResult:
        if check_only:
            return self._written(known, sent, None, batch_id, attempts)
        with self._shared.numbers.numbered() as call:
            return self._written(known, sent, call, batch_id, attempts)

    def _written(
        self, known: KnownTable, sent: OutgoingBatch, call: Call | None, batch_id: str, attempts: Attempts
    ) -> WriteResult:
        refused: list[WrittenRow] = []
        while True:
            request = WriteTable(
                table_id=known.table.id,
                piece=message_of(known, sent.pieces[-1], call is None),
                call=call,
                batch_id=batch_id,
                staged=len(sent.pieces) - 1,
                errors_from=len(refused),
            )
            try:
                reply = self._calls.call(request, TableWritten, attempts)
            except StaleSchema as error:
                attempts.failed(error)
                before, known = known, self._catalog.newer(known, attempts)
                check_same_columns(before.table, known.table, sent.pieces[-1].rows.schema.names)
                continue
            refused += reply.errors
            if len(refused) >= reply.refused or not reply.errors:
                errors = tuple(refused_rows(refused, sent.numbers))
                return WriteResult(reply.applied, errors, Timestamp(reply.timestamp))

    def _forget(self, batch_id: str) -> None:
        with suppress(Error):
            self._calls.call_once(DropStaged(batch_id=batch_id), 5.0)


def outgoing_batch(table: Table, known: KnownTable, batch: WriteBatch) -> OutgoingBatch:
    """Returns the batch, made for the caller's version of a table, for its latest version. Raises errors of the batch
    as a whole, as `writes.routing.route` does."""
    check_same_columns(table, known.table, batch.rows.schema.names)
    rows = incoming(known.table, batch)
    errors = row_errors(known.table, rows)
    numbers = rows_without(len(rows), errors)
    rows = rows.take(numbers)
    return OutgoingBatch(message_batches(rows, batch.all_or_none), np.asarray(numbers), errors)


def message_of(known: KnownTable, piece: WriteBatch, check_only: bool) -> Write:
    """Returns a piece for the table's latest version."""
    return write_to_request(piece, tablet_id="", schema_version=known.table.version, call=None, check_only=check_only)
