"""Bulk loads into a directory that another process has open: its own loader does the work (`cluster.owner.loads`).

Rows are sent as they come. They are there all at once when the load has ended, or not at all, as in a store of one's
own process; what is wrong with them is said by the owner: at once or, of keys that are there already, at the end.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

import pyarrow as pa

from ...errors import Error, InterfaceError
from ...storage.schema import Table
from ...storage.tables.bulk_load import batches_of
from ..wire.load_methods import AbandonLoad, FinishLoad, LoadRows, StartLoad
from ..wire.methods import Done, Reply, Request, WriteReply
from ..wire.rows import rows_to_bytes
from .catalog_cache import KnownTable
from .retry import Attempts, Verdict, verdict
from .routing import cut
from .shared import Shared

MESSAGE_SECONDS = 6 * 3600.0
"""For an answer: what the owner has collected is written in between, and keys are looked for at the end."""

R = TypeVar("R", bound=Reply)


class OwnedLoader:
    """A bulk load; see the module's page and `storage.store.BulkLoader`. For one thread at a time.

    Parameters
    ----------
    address : str
        The owner's.
    wrote : callable
        Told the table and the number of rows, at the end.
    """

    def __init__(self, shared: Shared, known: KnownTable, address: str, wrote: Callable[[Table, int], None]):
        self._shared = shared
        self._table = known.table
        self._address = address
        self._wrote = wrote
        self._id = uuid.uuid4().hex
        self._messages = 0
        self._is_over = False
        self._call(StartLoad(load_id=self._id, table_id=self._table.id), Done)

    def __enter__(self) -> OwnedLoader:
        return self

    def __exit__(self, *exc: object) -> None:
        self._abandon()

    def append(self, rows: pa.RecordBatch | pa.Table) -> None:
        """Add rows, in any order; columns by name.

        Raises what is wrong with the batch or with the first bad row: `UnknownColumn`, `TypeMismatch`,
        `NotNullViolation`, `NoPartition`, `AlreadyPresent`. The load has failed then.
        """
        self._check_going_on()
        try:
            for batch in batches_of(rows):
                for start, stop in cut(batch, 0, batch.num_rows):
                    data = rows_to_bytes(batch.slice(start, stop - start))
                    self._call(LoadRows(load_id=self._id, number=self._messages + 1, rows=data), Done)
                    self._messages += 1
        except BaseException:
            self._abandon()
            raise

    def finish(self) -> int:
        """Make all rows durable and visible; how many there are. See `storage.store.BulkLoader`.

        Raises `ClusterError` where the owner was another process before it could say whether it has done so.
        """
        self._check_going_on()
        try:
            with self._shared.numbers.numbered() as call:
                reply = self._call(FinishLoad(load_id=self._id, messages=self._messages, call=call), WriteReply)
        except BaseException:
            self._abandon()
            raise
        self._is_over = True
        self._wrote(self._table, reply.applied)
        self._shared.written(reply.timestamp)
        return reply.applied

    def _check_going_on(self) -> None:
        if self._is_over:
            raise InterfaceError(f"this load of table {self._table.name} has ended; start another one")
        self._shared.check_open()

    def _abandon(self) -> None:
        if self._is_over:
            return
        self._is_over = True
        with suppress(Error):  # the owner gives it up by itself, later
            self._shared.channels.get(self._address).call(AbandonLoad(load_id=self._id), timeout=5.0)

    def _call(self, request: Request, reply: type[R]) -> R:
        """The owner's answer. It may take long; an owner that cannot be reached is waited for as by other requests."""
        attempts: Attempts | None = None
        while True:
            try:
                found = self._shared.channels.get(self._address).call(request, timeout=MESSAGE_SECONDS)
            except Error as error:
                if verdict(error) not in (Verdict.AGAIN, Verdict.ELSEWHERE):
                    raise
                attempts = attempts or self._shared.attempts(f"a bulk load into table {self._table.name}")
                attempts.failed(error)
                attempts.pause()
                continue
            assert isinstance(found, reply)
            return found
