"""Single rows of clients, for which no thread waits: entered in the reactor's thread, replied to together.

    WriteRow ─► log and memory, undecided ─► `Committers`: one fsync for all rows that wait ─► their replies
                (the reactor's thread)

A row that would have to wait before it is in the log is left to a thread of the pool, as is one that changes nothing,
and every row with durability "os", since the log writes it at once.
"""

from __future__ import annotations

from functools import partial

from ...model.codec.values import map_from_plain
from ...model.store import WriteResult
from ...net.frame_server import gathering
from ...storage.database import Database
from ...storage.single_rows.committers import Committers
from ...storage.single_rows.row_write import StartedRow
from ..tablets.layout import check_version
from ..tserver.replies import op_of, write_reply
from ..wire.call_context import CallContext
from ..wire.calls.deferred_replies import Answer
from ..wire.messages.methods import Call, WriteRow
from .call_results import Calls
from .tablets import EmbeddedTablets


class RowWrites:
    """Rows of clients that no thread waits for. Thread-safe."""

    def __init__(self, store: Database, tablets: EmbeddedTablets, calls: Calls):
        self._store = store
        self._tablets = tablets
        self._calls = calls
        self._committers = Committers(store.finish_row, gathering)

    def close(self) -> None:
        """Returns when all rows are decided and the threads have ended; after the last call."""
        self._committers.close()

    def write_row_later(self, request: WriteRow, context: CallContext, answer: Answer) -> bool:
        """Writes a row, with the reply sent when it is durable. False, with nothing done, if it would have to wait
        before that."""
        served = self._tablets.get(request.tablet_id)
        op = op_of(request)
        table = check_version(served.table, request.schema_version)
        call = request.call
        if call is not None and not self._calls.begin_at_once(call):
            return False
        started: StartedRow | None = None
        try:
            started = self._store.start_row(table, served.tablet, op, map_from_plain(request.row))
        finally:
            if started is None and call is not None:
                self._calls.end(call, None)
        if started is None:
            return False
        self._committers.put(started, partial(self._reply, call, answer))
        return True

    def _reply(self, call: Call | None, answer: Answer, outcome: WriteResult | Exception) -> None:
        if call is not None:
            self._calls.end(call, outcome if isinstance(outcome, WriteResult) else None)
        answer(outcome if isinstance(outcome, Exception) else write_reply(outcome))
