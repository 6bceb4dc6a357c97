"""Bulk loads into a cluster: many rows as INSERTs, each of which the tablets' logs replicate.

1. `ClusterLoader.append` converts rows to the table's types, routes them to their tablets, and keeps them
   (`loads.load_runs`).
2. `ClusterLoader.finish` checks for duplicate keys in the load, then calls the tablets that have rows for existing
   keys. Until here nothing has been written.
3. The pieces are written in parallel, each all or none and exactly once. A piece may be refused, if another client has
   inserted its keys meanwhile, or fail. Then the pieces that were written are deleted again. The outcome of a piece
   without any reply is unknown; its keys may belong to another client by now, so it stays.

So a load that raises has left nothing, unless a server could not be reached, which the error reports. It is not atomic
otherwise: readers see its rows appear piece by piece, and a client that dies in the middle of step 3 leaves the rows
written by then. Rows of a table without a unique key cannot be distinguished from others, and stay.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress

import pyarrow as pa

from ....errors import Error, IntegrityError
from ....model.schema import Table
from ....model.store import Op, WriteBatch
from ....model.waiting_time import WaitingTime, carried, within
from ....storage.loads.loading import SMALL_ROWS, Loading, loadable, routed
from ..catalog.catalog_cache import KnownTable
from ..client_context import ClientContext
from ..writes.batch_writes import Writer
from ..writes.routing import Piece
from .load_runs import LoadRuns, StoredPiece, numbered

BUFFER_BYTES = 256 << 20
"""Most bytes of Arrow data that a load keeps in memory."""
IN_FLIGHT = 16
"""Pieces that are read and sent concurrently."""


class ClusterLoader(Loading):
    """A bulk load into a cluster; see the module's page and `Loading`.

    Parameters
    ----------
    rows_of : callable
        Returns the present number of rows of a table's tablets, by their ids; missing ones are unknown.
    flush : callable
        Flushes the tablets, so that a finished load lies on their disks, in as few files as in an embedded store; not
        called after a load of at most `SMALL_ROWS` rows, which would make tiny rowsets.
    """

    def __init__(
        self,
        shared: ClientContext,
        writer: Writer,
        known: KnownTable,
        rows_of: Callable[[KnownTable], Mapping[str, int]],
        flush: Callable[[Sequence[Table]], object],
        buffer_bytes: int = BUFFER_BYTES,
    ):
        super().__init__(known.table)
        self._shared = shared
        self._writer = writer
        self._known = known
        self._rows_of = rows_of
        self._flush = flush
        self._buffer_bytes = buffer_bytes
        self._buffers: dict[str, list[pa.RecordBatch]] = {}
        self._buffered = 0
        self._rows = 0
        self._runs = LoadRuns(known.table)

    def _check_open(self) -> None:
        self._shared.check_open()

    # ---- collecting ----------------------------------------------------------------------------------------------

    def _take(self, rows: pa.RecordBatch | pa.Table) -> None:
        numbered = self._table.schema.auto_increment
        for batch in loadable(self._table, rows):
            self._rows += batch.num_rows
            self._buffered += batch.nbytes
            for place, mine in routed(self._table, self._known.partitioner, batch):
                sent = mine if numbered is None else mine.drop_columns([numbered.name])
                self._buffers.setdefault(self._known.tablet_ids[place], []).append(sent)
            if self._buffered >= self._buffer_bytes:
                self._end_run(spill=True)

    def _end_run(self, spill: bool) -> None:
        buffers, self._buffers, self._buffered = self._buffers, {}, 0
        for tablet_id in list(buffers):
            self._runs.add(tablet_id, buffers.pop(tablet_id), spill)

    def _forget(self) -> None:
        self._buffers.clear()
        self._runs.close()

    # ---- the end -------------------------------------------------------------------------------------------------

    def finish(self) -> int:
        """Writes all rows; returns their number. See `model.store.BulkLoader` and the module's page."""
        with self._step():
            self._end_run(spill=False)
            self._runs.check_unique()
            self._check_tablets()
            self._write()
        self._end()
        if self._rows > SMALL_ROWS:
            with suppress(Error):  # maintenance does so later
                self._flush([self._table])
        return self._rows

    def _check_tablets(self) -> None:
        """Raises `AlreadyPresent` if a key is in the table; empty tablets are not called."""
        if self._table.schema.auto_increment is not None:
            return
        rows = self._rows_of(self._known)
        pieces = [piece for piece in self._runs.in_turn() if rows.get(piece.tablet_id, 1)]
        for _, failed in self._each(pieces, self._check_piece):
            if failed is not None:
                raise failed

    def _check_piece(self, stored: StoredPiece) -> None:
        errors = self._writer.check(self._known, [self._piece(stored, Op.INSERT)])
        if errors:
            raise errors[0].error

    def _write(self) -> None:
        written: list[StoredPiece] = []
        unknown: list[StoredPiece] = []
        failure: Error | None = None
        for stored, failed in self._each(self._runs.in_turn(), self._write_piece):
            if failed is None:
                written.append(stored)
            elif not isinstance(failed, IntegrityError):
                unknown.append(stored)
            failure = failure or failed
        if failure is not None:
            self._take_back(written, unknown, failure)
            raise failure

    def _write_piece(self, stored: StoredPiece) -> None:
        (answer,) = self._writer.send(self._known, [self._piece(stored, Op.INSERT)])
        if answer.errors:
            raise answer.errors[0].error

    def _take_back(self, written: Iterable[StoredPiece], unknown: list[StoredPiece], failure: Error) -> None:
        """Deletes the inserted rows. A piece with unknown outcome stays: other clients may have acknowledged rows with
        its keys by now."""
        if self._table.schema.auto_increment is not None:
            failure.add_note("rows of the load that were written stay, as their table has no unique key")
            return
        with within(WaitingTime()):  # the load's own waiting time is no reason to leave rows behind
            deleted = list(self._each(written, self._delete_piece, stop=False))
        left = [stored for stored, failed in deleted if failed is not None]
        for stayed, why in ((left, "they could not be deleted again"), (unknown, "their outcome is unknown")):
            if stayed:
                count = sum(self._runs.read(stored).num_rows for stored in stayed)
                failure.add_note(f"up to {count} rows of the load may have stayed: {why}")

    def _delete_piece(self, stored: StoredPiece) -> None:
        self._writer.send(self._known, [self._piece(stored, Op.DELETE_IGNORE)])

    def _piece(self, stored: StoredPiece, op: Op) -> Piece:
        rows = self._runs.read(stored)
        if op is Op.DELETE_IGNORE:
            rows = rows.select([column.name for column in self._table.schema.key])
        return Piece(stored.tablet_id, WriteBatch(rows, op, all_or_none=True), numbered(rows.num_rows))

    def _each(
        self, pieces: Iterable[StoredPiece], work: Callable[[StoredPiece], None], stop: bool = True
    ) -> Iterable[tuple[StoredPiece, Error | None]]:
        """Does the work for all pieces, some concurrently: each with its error. After the first error no others are
        begun, unless `stop` is False."""
        work = carried(work)
        running: deque[tuple[StoredPiece, Future[None]]] = deque()
        has_failed = False
        waiting = iter(pieces)
        try:
            while True:
                while len(running) < IN_FLIGHT and not (stop and has_failed):
                    stored = next(waiting, None)
                    if stored is None:
                        break
                    running.append((stored, self._shared.pool.submit(work, stored)))
                if not running:
                    return
                stored, future = running.popleft()
                error = _error(future)
                has_failed = has_failed or error is not None
                yield stored, error
        finally:
            wait([future for _, future in running])


def _error(future: Future[None]) -> Error | None:
    try:
        future.result()
    except Error as error:
        return error
    return None
