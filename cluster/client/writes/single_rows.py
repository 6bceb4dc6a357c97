"""The row path of the client: one row, one message, without Arrow.

The rules are those of `storage.single_rows.row_write`: a row with an error of its own, or possibly one, becomes a batch
of one row, whose path has the messages. The tablet's leader decides everything else.

row ─ RowCodec.take ─► physical values ─ Partitioner.route_one ─► tablet ─ WriteRow ─► leader

Both operations are generators of steps (`steps`), for threads and for event loops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from ....errors import DataError, StaleSchema, TabletGone, UnknownColumn
from ....model.altered_table import check_same_columns
from ....model.clock import format_timestamp
from ....model.codec.values import key_to_plain, row_from_plain
from ....model.schema import Table
from ....model.store import Op, Timestamp, WriteBatch, WriteResult
from ....model.waiting_time import WaitingTime
from ....storage.single_rows.row_write import as_batch
from ...wire.messages.methods import Call, ReadRow, RowReply, WriteReply
from ..catalog.catalog_cache import CatalogCache, KnownTable
from ..client_context import ClientContext
from ..retry import Attempts, FailedAttempt
from ..steps import Pause, Steps, Work
from ..tablet_calls import TabletCalls
from .row_requests import place_of, plain_values, write_request, write_result


class SingleRows:
    """Reads and writes single rows. Thread-safe.

    Parameters
    ----------
    write_batch : callable
        `Store.write`: the batch path, used as fallback.
    wrote : callable
        Called with the table and the number of changed rows.
    """

    def __init__(
        self,
        shared: ClientContext,
        catalog: CatalogCache,
        calls: TabletCalls,
        write_batch: Callable[[Table, WriteBatch], WriteResult],
        wrote: Callable[[Table, int], None],
    ):
        self._shared = shared
        self._catalog = catalog
        self._calls = calls
        self._write_batch = write_batch
        self._wrote = wrote

    # ---- writing -------------------------------------------------------------------------------------------------

    def writing(
        self,
        table: Table,
        op: Op,
        row: Mapping[str, Any],
        unchanged_since: Timestamp | None = None,
        waiting: WaitingTime | None = None,
    ) -> Steps[WriteResult]:
        """Implements `Store.write_row` in steps; with `unchanged_since` as a batch, since `WriteRow` has no such field.
        Their result is returned when the row is acknowledged."""
        known = yield from self._fitting(table, row)
        try:
            physical, stored = known.codec.take(row)
        except UnknownColumn:
            known = yield Work(partial(self._catalog.fitting, table, self._checking(table, row)))
            physical, stored = known.codec.take(row)
        place = place_of(known, op, physical)
        if place < 0 or unchanged_since is not None:
            batch = as_batch(known.codec, op, row, stored, unchanged_since)
            written: WriteResult = yield Work(partial(self._write_batch, table, batch))
            return written
        plain, call = plain_values(known, op, row, physical), self._shared.numbers.start()
        return (yield from self.sending(known, op, row, stored, known.tablet_ids[place], plain, call, waiting))

    def sending(
        self,
        known: KnownTable,
        op: Op,
        row: Mapping[str, Any],
        stored: list[Any],
        tablet_id: str,
        plain: dict[str, Any],
        call: Call,
        waiting: WaitingTime | None,
        failed: FailedAttempt | None = None,
    ) -> Steps[WriteResult]:
        """The part of `writing` from the first message on.

        Parameters
        ----------
        stored : list
            The row's values, of `RowCodec.take`.
        plain : dict
            Those that are sent, of `row_requests.plain_values`.
        call : Call
            Of every attempt; ended here.
        waiting : WaitingTime, optional
            Of the statement; None: this thread's.
        failed : FailedAttempt, optional
            The first attempt, if it was made before.
        """
        table = known.table
        try:
            reply = yield from self._writing(known, op, tablet_id, plain, call, waiting, failed)
        except TabletGone:
            batch = as_batch(known.codec, op, row, stored)
            written: WriteResult = yield Work(partial(self._write_batch, table, batch))
            return written
        finally:
            self._shared.numbers.finish(call)
        self.note_written(table, reply)
        while (seconds := self._shared.note_written(reply.timestamp)) > 0:
            yield Pause(seconds)
        return write_result(reply)

    def note_written(self, table: Table, reply: WriteReply) -> None:
        """Records the reply to a write."""
        if reply.applied:
            self._wrote(table, reply.applied)
        self._shared.note_written(reply.timestamp)

    def _writing(
        self,
        known: KnownTable,
        op: Op,
        tablet_id: str,
        plain: dict[str, Any],
        call: Call,
        waiting: WaitingTime | None,
        failed: FailedAttempt | None,
    ) -> Steps[WriteReply]:
        attempts = self._shared.attempts(f"a write of a row to table {known.table.name}", waiting=waiting)
        while True:
            request = write_request(known, tablet_id, op, plain, call)
            try:
                calling = self._calls.calling(request, WriteReply, known, tablet_id, attempts, failed=failed)
                return (yield from calling)
            except StaleSchema as error:
                attempts.failed(error)
                failed = None
            known = yield Work(partial(self._altered, known, list(plain), attempts))

    def _fitting(self, table: Table, names: Iterable[str]) -> Steps[KnownTable]:
        """Returns the known version of the table, if the names have the caller's meaning in it."""
        known = self._catalog.current.by_id.get(table.id)
        if known is None or known.table is not table:
            known = yield Work(partial(self._catalog.fitting, table, self._checking(table, names)))
            assert known is not None
        return known

    def _checking(self, table: Table, names: Iterable[str]) -> Callable[[KnownTable], KnownTable]:
        return lambda found: self._checked(table, found, list(names))

    def _checked(self, table: Table, known: KnownTable, names: Sequence[str]) -> KnownTable:
        """Returns the table, if it has the columns with the caller's meaning."""
        check_same_columns(table, known.table, names)  # a column that is gone is no misspelt one
        for name in names:
            known.codec.place(name)
        return known

    def _altered(self, known: KnownTable, names: Sequence[str], attempts: Attempts) -> KnownTable:
        """Returns the table's new version, in which the names have the same meaning."""
        latest = self._catalog.newer(known, attempts)
        check_same_columns(known.table, latest.table, names)
        return latest

    # ---- reading -------------------------------------------------------------------------------------------------

    def reading(
        self,
        table: Table,
        key: Sequence[Any],
        columns: Sequence[str],
        snapshot: Timestamp | None,
        waiting: WaitingTime | None = None,
        failed: FailedAttempt | None = None,
    ) -> Steps[tuple[Any, ...] | None]:
        """Implements `Store.read_row` in steps; their result is the row. `failed`: the first attempt, if it was made
        before."""
        names = tuple(columns)
        known = yield from self._fitting(table, names)
        if snapshot is not None and snapshot > (now := self._shared.clock.now()):
            raise DataError(
                f"cannot read table {table.name} as of {format_timestamp(snapshot)}: it is only {format_timestamp(now)}"
            )
        try:
            known.codec.projection(names)
        except UnknownColumn:
            known = yield Work(partial(self._catalog.fitting, table, self._checking(table, names)))
        values = known.codec.take_key(key)
        attempts = self._shared.attempts(f"a read of a row of table {table.name}", waiting=waiting)
        speculation = self._calls.speculation
        while True:
            place = known.partitioner.route_one(values)
            if place < 0:
                # No range has it; but one may have been added since.
                yield Work(self._catalog.refresh)
                newer = yield Work(partial(self._catalog.known, table))
                if newer is known or newer.partitioner.route_one(values) < 0:
                    return None
                known = self._checked(known.table, newer, names)
                continue
            tablet_id = known.tablet_ids[place]
            as_of, past = snapshot, None
            if speculation.is_on:
                past = speculation.past(tablet_id) if snapshot is None else snapshot
                if past is not None and speculation.is_leader_slow(tablet_id):
                    as_of = past
                    if speculation.may_have_moved(tablet_id):
                        yield Work(partial(self._calls.relocate, known, tablet_id))
            request = ReadRow(
                tablet_id=tablet_id,
                schema_version=known.table.version,
                key=key_to_plain(values),
                columns=names,
                snapshot=as_of,
            )
            stale = request if as_of == past or past is None else msgspec.structs.replace(request, snapshot=past)
            try:
                reply = yield from self._calls.calling(
                    request, RowReply, known, tablet_id, attempts, as_of, None if past is None else stale, failed
                )
            except (StaleSchema, TabletGone) as error:
                attempts.failed(error)
                failed = None
            else:
                if reply.row is None:
                    return None
                return known.codec.python(names, row_from_plain(reply.row))
            known = yield Work(partial(self._altered, known, names, attempts))
