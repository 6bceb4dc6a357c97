"""Writing batches: pieces in parallel, each exactly once.

A piece is atomic, durable and executed once: it keeps its call id until there is a reply, over timeouts of single
attempts, dead leaders and new ones. The pieces of a batch together are not atomic. If all or none was requested and
there are several pieces, all are checked first and then written; a concurrent change by another client may still refuse
a row of one piece when others are written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from dataclasses import replace

from ....errors import (
    DeadlineExceeded,
    Error,
    NoPartition,
    OutcomeUnknown,
    PartlyWritten,
    ServerUnavailable,
    StaleSchema,
    TabletGone,
)
from ....model.altered_table import check_same_columns
from ....model.lazy_dataclass import dataclass
from ....model.schema import Table
from ....model.store import RowError, Timestamp, WriteBatch, WriteResult
from ....model.waiting_time import carried
from ...wire.messages.methods import Call, Write, WriteReply
from ...wire.rows.write_rows import write_to_request
from ..catalog.catalog_cache import CatalogCache, KnownTable
from ..client_context import ClientContext
from ..retry import Attempts
from ..tablet_calls import TabletCalls
from .routing import Piece, Routed, route
from .row_errors import row_errors


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """The outcome of a piece; `errors` have the rows' numbers in the caller's batch."""

    applied: int
    timestamp: int
    errors: list[RowError]


class Writer:
    """Writes batches of rows. Thread-safe.

    If some pieces of a batch have failed and others were written, or may have been, `PartlyWritten` gives the numbers.

    Parameters
    ----------
    wrote : callable
        Called with the table and the number of changed rows, after each write.
    """

    def __init__(
        self, shared: ClientContext, catalog: CatalogCache, calls: TabletCalls, wrote: Callable[[Table, int], None]
    ):
        self._shared = shared
        self._catalog = catalog
        self._calls = calls
        self._wrote = wrote

    def write(self, table: Table, batch: WriteBatch) -> WriteResult:
        """Implements `Store.write`."""
        known, routed = self._catalog.fitting(table, lambda known: (known, _routed(table, known, batch)))
        if any(isinstance(error.error, NoPartition) for error in routed.errors):
            # The range may have been added since.
            self._catalog.refresh()
            if self._catalog.known(table) is not known:
                known, routed = self._catalog.fitting(table, lambda now: (now, _routed(table, now, batch)))
        if batch.all_or_none and (routed.errors or len(routed.pieces) > 1):
            refused = self._refusals(known, routed)
            if refused:
                return WriteResult(0, tuple(refused), self._shared.clock.now())
        answers = self.send(known, routed.pieces)
        errors = [*routed.errors, *(error for answer in answers for error in answer.errors)]
        errors.sort(key=lambda error: error.row)
        applied = sum(answer.applied for answer in answers)
        timestamp = max((answer.timestamp for answer in answers), default=0) or self._shared.clock.now()
        return WriteResult(applied, tuple(errors), Timestamp(timestamp))

    def _refusals(self, known: KnownTable, routed: Routed) -> list[RowError]:
        """Returns what would be refused, without any change."""
        errors = list(routed.errors)
        if routed.is_refusable:
            for answer in self._each(known, routed.pieces, check_only=True):
                errors += answer.errors
        return sorted(errors, key=lambda error: error.row)

    def check(self, known: KnownTable, pieces: Sequence[Piece]) -> list[RowError]:
        """Returns the rows of some pieces that would be refused now, in the order of pieces, without any change."""
        return [error for answer in self._each(known, pieces, check_only=True) for error in answer.errors]

    def send(self, known: KnownTable, pieces: Sequence[Piece]) -> list[Answer]:
        """Writes pieces; returns their outcomes. After all have ended, raises the error of a failed one or
        `PartlyWritten`."""
        try:
            answers = self._each(known, pieces, check_only=False)
        except Error:
            self._wrote(known.table, sum(len(piece.numbers) for piece in pieces))
            raise
        changed = sum(answer.applied for answer in answers)
        if changed:
            self._wrote(known.table, changed)
        if answers:
            self._shared.written(max(answer.timestamp for answer in answers))
        return answers

    def _each(self, known: KnownTable, pieces: Sequence[Piece], check_only: bool) -> list[Answer]:
        if len(pieces) <= 1:
            return [self._send(known, piece, check_only) for piece in pieces]
        send = carried(self._send)
        futures = [self._shared.pool.submit(send, known, piece, check_only) for piece in pieces]
        wait(futures)
        failed = [error for future in futures if (error := future.exception()) is not None]
        if not failed:
            return [future.result() for future in futures]
        raise failed[0] if check_only else _failure(known.table, pieces, futures, failed)

    def _send(self, known: KnownTable, piece: Piece, check_only: bool) -> Answer:
        attempts = self._shared.attempts(f"a write of {len(piece.numbers)} rows to table {known.table.name}")
        try:
            if check_only:
                reply = self._reply(known, piece, None, attempts)
            else:
                with self._shared.numbers.numbered() as call:
                    reply = self._reply(known, piece, call, attempts)
        except TabletGone:
            return self._rerouted(known, piece, check_only)
        return Answer(reply.applied, reply.timestamp, row_errors(reply.errors, piece.numbers))

    def _rerouted(self, known: KnownTable, piece: Piece, check_only: bool) -> Answer:
        """Returns the rows of a tablet whose range partition was dropped, by the present partitions."""
        routed = route(self._catalog.known(known.table), piece.batch)
        errors = [RowError(int(piece.numbers[error.row]), error.error) for error in routed.errors]
        if piece.batch.all_or_none and errors:
            return Answer(0, self._shared.clock.now(), errors)
        applied, timestamp = 0, int(self._shared.clock.now())
        for part in routed.pieces:
            if part.tablet_id == piece.tablet_id:
                raise TabletGone(f"tablet {piece.tablet_id} of table {known.table.name} has no replica")
            answer = self._send(known, replace(part, numbers=piece.numbers[part.numbers]), check_only)
            applied, timestamp = applied + answer.applied, max(timestamp, answer.timestamp)
            errors += answer.errors
        return Answer(applied, timestamp, errors)

    def _reply(self, known: KnownTable, piece: Piece, call: Call | None, attempts: Attempts) -> WriteReply:
        while True:
            request = _request(known, piece, call)
            try:
                return self._calls.leader(request, WriteReply, known, piece.tablet_id, attempts)
            except StaleSchema as error:
                attempts.failed(error)
            before, known = known, self._catalog.newer(known, attempts)
            check_same_columns(before.table, known.table, piece.batch.rows.schema.names)


def _routed(table: Table, known: KnownTable, batch: WriteBatch) -> Routed:
    """Returns the batch, made for the caller's version of a table, by the present tablets."""
    check_same_columns(table, known.table, batch.rows.schema.names)
    return route(known, batch)


def _request(known: KnownTable, piece: Piece, call: Call | None) -> Write:
    """Returns the piece as a message; a check has no call id."""
    return write_to_request(
        piece.batch,
        tablet_id=piece.tablet_id,
        schema_version=known.table.version,
        call=call,
        check_only=call is None,
    )


def _failure(
    table: Table, pieces: Sequence[Piece], futures: Sequence[Future[Answer]], failed: Sequence[BaseException]
) -> BaseException:
    """Returns the error of a batch of which some pieces have failed: the first piece's own, if certainly nothing was
    written."""
    written = sum(future.exception() is None for future in futures)
    rows = sum(future.result().applied for future in futures if future.exception() is None)
    doubtful = [
        piece for piece, future in zip(pieces, futures, strict=True) if isinstance(future.exception(), _IN_DOUBT)
    ]
    if not rows and not doubtful:
        return failed[0]
    text = f"of the {len(pieces)} tablets of table {table.name} that the rows go to, {written} have written theirs"
    text += f" ({rows} rows changed) and {len(failed)} failed"
    if doubtful:
        count = sum(len(piece.numbers) for piece in doubtful)
        text += f", of which {len(doubtful)} may have written theirs all the same (up to {count} rows)"
    error = PartlyWritten(f"{text}: {failed[0]}")
    error.__cause__ = failed[0]
    return error


_IN_DOUBT = (DeadlineExceeded, ServerUnavailable, OutcomeUnknown)
"""Errors after which a write may have been executed."""
