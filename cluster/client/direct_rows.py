"""Single rows in the usual case, without the steps of `writes.single_rows`: the table, its tablet's leader and the way
to it are known, and the leader replies.

    DirectRows.read, write ─┬─► the result        one message and its reply
                            └─► Rest              the steps that remain: all, or those after an attempt that has failed

An attempt that failed is the first one of the steps, with its time, its server and its call id. The steps decide what
it means, so retries, deadlines and new locations have one implementation. Without them the client's part of a look-up
costs less than half (docs/benchmarks.md, "Real Kudu").
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ...errors import Error, UnknownColumn
from ...model.codec.values import key_to_plain, row_from_plain
from ...model.schema import Table
from ...model.store import Op, Timestamp, WriteResult
from ...model.waiting_time import current_waiting
from ..wire.messages.methods import ReadRow
from .catalog.catalog_cache import CatalogCache, KnownTable
from .catalog.locations import Locations
from .client_context import ClientContext
from .retry import FIRST_ATTEMPT, LEAST_SECONDS, FailedAttempt
from .steps import Steps
from .writes.row_requests import place_of, plain_values, write_request, write_result
from .writes.single_rows import SingleRows


class Rest(NamedTuple):
    """The steps that remain of a look-up or write (`steps.perform`)."""

    steps: Steps[Any]


class DirectRows:
    """Look-ups of the latest row, and writes. Thread-safe."""

    def __init__(self, shared: ClientContext, catalog: CatalogCache, locations: Locations, rows: SingleRows):
        self._shared = shared
        self._catalog = catalog
        self._locations = locations
        self._rows = rows
        options = shared.options
        self._reads = options.speculative_reads == "off"
        self._writes = not options.commit_wait
        self._seconds = max(LEAST_SECONDS, min(FIRST_ATTEMPT, options.deadline))

    def read(
        self, table: Table, key: Sequence[Any], columns: Sequence[str], snapshot: Timestamp | None
    ) -> tuple[Any, ...] | Rest | None:
        """Returns the row, None if there is none, or the steps that remain. Raises as `Store.read_row` for an invalid
        key."""
        known = self._known(table)
        if known is None or snapshot is not None or not self._reads:
            return Rest(self._rows.reading(table, key, columns, snapshot))
        names, codec = tuple(columns), known.codec
        try:
            codec.projection(names)
        except UnknownColumn:
            return Rest(self._rows.reading(table, key, names, None))
        values = codec.take_key(key)
        place = known.partitioner.route_one(values)
        address = self._leader(known, place)
        if not address:
            return Rest(self._rows.reading(table, key, names, None))
        request = ReadRow(
            tablet_id=known.tablet_ids[place], schema_version=table.version, key=key_to_plain(values), columns=names
        )
        began = time.monotonic()
        try:
            row = self._shared.channels.get(address).call(request, self._seconds).row  # type: ignore[attr-defined]
        except Error as error:
            return Rest(self._rows.reading(table, key, names, None, failed=FailedAttempt(address, error, began)))
        return None if row is None else codec.python(names, row_from_plain(row))

    def write(
        self, table: Table, op: Op, row: Mapping[str, Any], unchanged_since: Timestamp | None
    ) -> WriteResult | Rest:
        """Returns the result when the row is acknowledged, or the steps that remain. Raises as `Store.write_row` for
        an invalid row."""
        known = self._known(table)
        if known is None or unchanged_since is not None or not self._writes:
            return Rest(self._rows.writing(table, op, row, unchanged_since))
        try:
            taken = known.codec.take(row)
        except UnknownColumn:
            return Rest(self._rows.writing(table, op, row))
        physical = taken[0]
        place = place_of(known, op, physical)
        address = self._leader(known, place)
        if not address:
            return Rest(self._rows.writing(table, op, row))
        tablet_id, plain = known.tablet_ids[place], plain_values(known, op, row, physical)
        call = self._shared.numbers.start()
        began = time.monotonic()
        try:
            request = write_request(known, tablet_id, op, plain, call)
            reply: Any = self._shared.channels.get(address).call(request, self._seconds)
        except Error as error:
            failed = FailedAttempt(address, error, began)
            return Rest(self._rows.sending(known, op, row, taken[1], tablet_id, plain, call, None, failed))
        except BaseException:
            self._shared.numbers.finish(call)
            raise
        self._shared.numbers.finish(call)
        self._rows.note_written(table, reply)
        return write_result(reply)

    def _known(self, table: Table) -> KnownTable | None:
        """Returns the latest version of a table; None if the caller has another one."""
        known = self._catalog.current.by_id.get(table.id)
        return known if known is not None and known.table is table else None

    def _leader(self, known: KnownTable, place: int) -> str:
        """Returns the address of the leader of a tablet; "" if the steps have to find it, or there is no such tablet,
        or the statement has lost time already and its next attempt has less."""
        waiting = current_waiting()
        if place < 0 or (waiting is not None and waiting.seconds):
            return ""
        return self._locations.leader(known.tablet_ids[place])
