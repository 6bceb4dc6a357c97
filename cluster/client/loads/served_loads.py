"""Bulk loads into a directory that another process has open: its own loader does the work
(`cluster.embedded_server.loads`).

Rows are sent as they arrive. They are visible all at once when the load has ended, or not at all, as in an embedded
store. The server reports their errors: at once or, for existing keys, at the end.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import TypeVar

import pyarrow as pa

from ....errors import Error
from ....model.schema import Table
from ....storage.loads.loading import Loading, batches_of
from ...wire.messages.load_methods import AbandonLoad, FinishLoad, LoadRows, StartLoad
from ...wire.messages.methods import Done, Reply, Request, WriteReply
from ...wire.rows.write_rows import rows_to_bytes
from ..catalog.catalog_cache import KnownTable
from ..client_context import ClientContext
from ..retry import until_reply
from ..writes.routing import cut

MESSAGE_SECONDS = 6 * 3600.0
"""Seconds for a reply: the server writes collected rows in between, and looks up keys at the end."""

R = TypeVar("R", bound=Reply)


class ServedLoader(Loading):
    """A bulk load into another process's store; see the module's page and `Loading`.

    Parameters
    ----------
    address : str
        The server's.
    wrote : callable
        Called with the table and the number of rows, at the end.
    """

    def __init__(self, shared: ClientContext, known: KnownTable, address: str, wrote: Callable[[Table, int], None]):
        super().__init__(known.table)
        self._shared = shared
        self._address = address
        self._wrote = wrote
        self._id = uuid.uuid4().hex
        self._messages = 0
        self._call(StartLoad(load_id=self._id, table_id=self._table.id), Done)

    def _check_open(self) -> None:
        self._shared.check_open()

    def _take(self, rows: pa.RecordBatch | pa.Table) -> None:
        for batch in batches_of(rows):
            for start, stop in cut(batch, 0, batch.num_rows):
                data = rows_to_bytes(batch.slice(start, stop - start))
                self._call(LoadRows(load_id=self._id, number=self._messages + 1, rows=data), Done)
                self._messages += 1

    def finish(self) -> int:
        """Makes all rows durable and visible; returns their number. See `model.store.BulkLoader`.

        Raises `ClusterError` if the server was replaced by another process before it could report the outcome.
        """
        with self._step(), self._shared.numbers.numbered() as call:
            reply = self._call(FinishLoad(load_id=self._id, messages=self._messages, call=call), WriteReply)
        self._is_over = True
        self._wrote(self._table, reply.applied)
        self._shared.written(reply.timestamp)
        return reply.applied

    def _forget(self) -> None:
        with suppress(Error):  # the server abandons it by itself, later
            self._shared.channels.get(self._address).call(AbandonLoad(load_id=self._id), timeout=5.0)

    def _call(self, request: Request, reply: type[R]) -> R:
        """Returns the server's reply. It may take long; an unreachable server is waited for as in other requests."""
        return until_reply(
            lambda: self._shared.channels.get(self._address).call(request, timeout=MESSAGE_SECONDS),
            reply,
            cache(lambda: self._shared.attempts(f"a bulk load into table {self._table.name}")),
        )
