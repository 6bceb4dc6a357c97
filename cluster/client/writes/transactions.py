"""COMMIT of a transaction on a cluster, by the client: one write, or two-phase commit over several tablets.

    one tablet        Write             one log entry, checked against the snapshot
    several           PrepareWrite      at every tablet at the same time; all at one timestamp
                      Decide            at the first of them: now the transaction is committed
                      Resolve           at the others, after `commit_transaction` has returned
    many rows         StageWrite        before, message by message, for each tablet with more than one, and also if
                                        there is only one tablet. They hold nothing

There is no coordinator: the outcome is in the log of the tablet that decides, and the tablets find it themselves if
this client ends (`tablets.transactions`). The commit timestamp is the greatest of the prepared parts. One is proposed,
a little ahead of the clocks, so that as a rule all parts have the same. (Kudu's design of multi-row transactions
records the outcome in a coordinator tablet; CockroachDB and Percolator record it, as here, with one of the
participants.)
"""

from __future__ import annotations

import threading
import uuid
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import wait
from contextlib import suppress
from dataclasses import replace
from itertools import groupby
from typing import TypeVar

from ....errors import (
    Error,
    SerializationFailure,
    StaleSchema,
)
from ....model.altered_table import check_same_columns
from ....model.clock import LOGICAL_BITS, make_timestamp
from ....model.lazy_dataclass import dataclass
from ....model.schema import Table
from ....model.store import Op, TableWrite, Timestamp, TransactionChanges, WriteBatch
from ....model.waiting_time import carried
from ....storage.writing.incoming_rows import as_conflict
from ....storage.writing.joined_batches import joined_writes
from ...wire.messages.methods import Done, Write, WriteReply
from ...wire.messages.transaction_methods import (
    Decide,
    DecideReply,
    PrepareReply,
    PrepareWrite,
    Resolve,
    StageWrite,
)
from ...wire.rows.write_rows import write_to_request
from ..catalog.catalog_cache import CatalogCache, KnownTable
from ..client_context import ClientContext
from ..retry import FIRST_ATTEMPT, Attempts
from ..tablet_calls import TabletCalls
from .read_validation import Scanning, validate_reads
from .routing import Piece, route
from .row_errors import row_errors

T = TypeVar("T")
LEAD = 2_000
"""Microseconds by which a proposed timestamp is ahead of this machine's clock: about the time to reach the leaders."""
LEADS = (LEAD, 16_000, 128_000, 512_000, 512_000, 512_000)
"""The same for each try of a transaction whose parts must have the same timestamp."""
ROUND_SECONDS = 5.0
ROWS_A_SECOND = 50_000
"""Rows of staged parts that a busy server certainly prepares in a second."""
FORGOTTEN = 1_000
"""Most transactions that one request reports as forgotten."""
_END_SECONDS = 5.0
_COMMIT = "the commit of a transaction"


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """The rows of a transaction for one tablet, in pieces of a message each. Several are staged before."""

    known: KnownTable
    pieces: list[Piece]

    @property
    def tablet_id(self) -> str:
        return self.pieces[0].tablet_id

    @property
    def staged(self) -> int:
        """Number of pieces that are staged."""
        return len(self.pieces) if len(self.pieces) > 1 else 0

    @property
    def seconds(self) -> float:
        """For which another part may have to wait until this one is prepared; 0.0: not longer than for any."""
        rows = sum(len(piece.numbers) for piece in self.pieces)
        return ROUND_SECONDS + rows / ROWS_A_SECOND if self.staged else 0.0


class TransactionWriter:
    """Commits transactions. Thread-safe.

    Parameters
    ----------
    wrote : callable
        Called with the table and the number of changed rows, after each write.
    """

    def __init__(
        self,
        shared: ClientContext,
        catalog: CatalogCache,
        calls: TabletCalls,
        wrote: Callable[[Table, int], None],
    ):
        self._shared = shared
        self._catalog = catalog
        self._calls = calls
        self._wrote = wrote
        self._ended: dict[str, list[str]] = defaultdict(list)
        """Transactions whose parts have all ended, by the tablet that decided them."""
        self._lock = threading.Lock()
        """Guards it."""

    def commit(self, changes: TransactionChanges, store: Scanning) -> Timestamp:
        """See `Store.commit_transaction`; `store` validates the reads."""
        attempts = self._shared.attempts(_COMMIT)
        writes = joined_writes(changes.writes)
        number, found = 0, None
        while found is None:
            try:
                parts = [part for write in writes for part in self._parts(write)]
                found = self._commit(changes, parts, attempts, store, number)
            except StaleSchema as error:
                attempts.failed(error)
                self._catalog.refresh()
                attempts.pause()
                continue
            number += 1
            if found is None and number == len(LEADS):
                raise SerializationFailure(
                    "the tablets that the transaction writes to could not agree on a commit timestamp; retry the "
                    "transaction"
                )
        for write in changes.writes:
            self._wrote(write.table, write.batch.rows.num_rows)
        self._shared.written(found)
        return found

    def _commit(
        self, changes: TransactionChanges, parts: Sequence[_Part], attempts: Attempts, store: Scanning, number: int
    ) -> Timestamp | None:
        if not parts:
            validate_reads(store, changes, self._shared.clock.now(), frozenset())
            return changes.snapshot
        staged = sum(part.staged for part in parts)
        if len(parts) == 1 and not changes.reads and not staged:
            return self._write(parts[0], changes.snapshot, attempts)
        if staged:  # in the time that its pieces would have by themselves
            attempts = self._shared.attempts(_COMMIT, self._shared.options.deadline * (staged + 1))
        return self._commit_parts(changes, parts, attempts, store, number)

    def _parts(self, write: TableWrite) -> list[_Part]:
        known = self._catalog.known(write.table)
        batch = write.batch
        check_same_columns(write.table, known.table, batch.rows.schema.names)
        routed = route(known, batch)
        for refused in routed.errors:
            raise refused.error
        return [_Part(known, list(some)) for _, some in groupby(routed.pieces, lambda piece: piece.tablet_id)]

    # ---- one tablet ----------------------------------------------------------------------------------------------

    def _write(self, part: _Part, snapshot: Timestamp, attempts: Attempts) -> Timestamp:
        (piece,) = part.pieces
        with self._shared.numbers.numbered() as call:
            request = write_to_request(
                replace(piece.batch, unchanged_since=snapshot),
                tablet_id=part.tablet_id,
                schema_version=part.known.table.version,
                call=call,
                is_transaction=True,
            )
            reply = self._calls.leader(request, WriteReply, part.known, part.tablet_id, attempts)
        for refused in row_errors(reply.errors, piece.numbers):
            raise as_conflict(refused.error)
        return Timestamp(reply.timestamp)

    # ---- several -------------------------------------------------------------------------------------------------

    def _commit_parts(
        self, changes: TransactionChanges, parts: Sequence[_Part], attempts: Attempts, store: Scanning, number: int
    ) -> Timestamp | None:
        """Returns the commit timestamp; None, with nothing written, if the reads cannot be validated at it."""
        transaction, decider = uuid.uuid4().hex, parts[0]
        try:
            self._stage(transaction, changes.snapshot, parts, attempts)
            prepared = self._prepare(transaction, changes.snapshot, parts, attempts, number)
            timestamp = max(prepared)
            self._shared.clock.update(timestamp)
            if changes.reads:
                # The tablets are read below the timestamp, which parts with an earlier one would keep waiting.
                early = [part for part, held in zip(parts, prepared, strict=True) if held < timestamp]
                moved = [
                    self._prepare_part(
                        transaction, changes.snapshot, part, decider, timestamp, attempts, _seconds(parts)
                    )
                    for part in early
                ]
                if any(held != timestamp for held in moved):
                    self._end(transaction, parts, 0)
                    return None
                validate_reads(store, changes, timestamp, frozenset(part.tablet_id for part in parts))
        except BaseException:
            self._end(transaction, parts, 0)
            raise
        request = Decide(tablet_id=decider.tablet_id, transaction=transaction, timestamp=timestamp)
        reply = self._calls.leader(request, DecideReply, decider.known, decider.tablet_id, attempts)
        if not reply.timestamp:
            self._end(transaction, parts, 0)
            raise SerializationFailure(
                "the transaction took too long to commit and was aborted by one of its tablets; retry the transaction"
            )
        with suppress(RuntimeError):  # the client is being closed: the tablets find the outcome
            self._shared.farewells.submit(self._end, transaction, parts, timestamp)
        return timestamp

    def _stage(self, transaction: str, snapshot: Timestamp, parts: Sequence[_Part], attempts: Attempts) -> None:
        """Sends the rows of the parts that are too large for one message: to several tablets at the same time, to each
        piece by piece."""

        def stage(part: _Part) -> None:
            for number, piece in enumerate(part.pieces):
                request = StageWrite(
                    transaction=transaction,
                    number=number,
                    part=_message(part, piece.batch, snapshot),
                    decider_table=parts[0].known.table.id,
                    decider_tablet=parts[0].tablet_id,
                )
                what = f"sending rows of a transaction to table {part.known.table.name}"
                own = self._shared.attempts(what, min(self._shared.options.deadline, attempts.remaining))
                self._calls.leader(request, Done, part.known, part.tablet_id, own)

        self._at_once(stage, [part for part in parts if part.staged])

    def _prepare(
        self,
        transaction: str,
        snapshot: Timestamp,
        parts: Sequence[_Part],
        attempts: Attempts,
        number: int = 0,
    ) -> list[Timestamp]:
        """Prepares all parts at the same time; returns their timestamps. `number`: of the try."""
        decider, clock = parts[0], self._shared.clock
        # A clock that is ahead already, as after such a timestamp, needs no further lead: it then counts calls, fewer
        # than 4,096 in a microsecond.
        ahead = Timestamp(clock.now() + (10 * number << LOGICAL_BITS))
        proposed = max(make_timestamp(clock.wall() + LEADS[number]), ahead)
        with self._lock:
            ended = self._ended[decider.tablet_id]
            forgotten = tuple(ended[:FORGOTTEN])
            del ended[:FORGOTTEN]
        seconds = _seconds(parts)

        def prepare(part: _Part) -> int:
            return self._prepare_part(transaction, snapshot, part, decider, proposed, attempts, seconds, forgotten)

        return [Timestamp(timestamp) for timestamp in self._at_once(prepare, parts)]

    def _at_once(self, do: Callable[[_Part], T], parts: Sequence[_Part]) -> list[T]:
        """Does the same for all parts at the same time, the first in this thread; returns the results in the order of
        the parts, or raises the error of the first part with one, when all have ended."""
        futures = [self._shared.pool.submit(carried(do), part) for part in parts[1:]]
        try:
            done = [do(part) for part in parts[:1]]
        finally:
            wait(futures)
        return done + [future.result() for future in futures]

    def _prepare_part(
        self,
        transaction: str,
        snapshot: Timestamp,
        part: _Part,
        decider: _Part,
        timestamp: int,
        attempts: Attempts,
        seconds: float,
        forgotten: tuple[str, ...] = (),
    ) -> int:
        batch = part.pieces[0].batch
        if part.staged:
            batch = WriteBatch(batch.rows.slice(0, 0), Op.UPSERT, all_or_none=True)
        request = PrepareWrite(
            transaction=transaction,
            timestamp=timestamp,
            part=_message(part, batch, snapshot),
            decider_table=decider.known.table.id,
            decider_tablet=decider.tablet_id,
            forgotten=forgotten if part is decider else (),
            staged=part.staged,
            seconds=seconds,
        )
        own = self._shared.attempts(
            f"preparing a transaction at table {part.known.table.name}",
            attempts.remaining,
            max(FIRST_ATTEMPT, part.seconds),
        )
        return self._calls.leader(request, PrepareReply, part.known, part.tablet_id, own).timestamp

    def _end(self, transaction: str, parts: Sequence[_Part], timestamp: int) -> None:
        """Ends the parts, except that of a tablet that has decided to commit. A part that does not learn the outcome
        here finds it itself."""
        others = parts[1:] if timestamp else parts
        ended = 0
        for part in others:
            request = Resolve(tablet_id=part.tablet_id, transaction=transaction, timestamp=timestamp)
            with suppress(Error):
                attempts = self._shared.attempts("ending a transaction", _END_SECONDS + part.seconds)
                self._calls.leader(request, Done, part.known, part.tablet_id, attempts)
                ended += 1
        if timestamp and ended == len(others):
            with self._lock:
                self._ended[parts[0].tablet_id].append(transaction)


def _message(part: _Part, batch: WriteBatch, snapshot: Timestamp) -> Write:
    return write_to_request(
        replace(batch, unchanged_since=snapshot),
        tablet_id=part.tablet_id,
        schema_version=part.known.table.version,
        call=None,
    )


def _seconds(parts: Sequence[_Part]) -> float:
    """For which a part may stay prepared; 0.0: as long as any."""
    return sum(part.seconds for part in parts)
