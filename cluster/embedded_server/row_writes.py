"""Single rows of clients, for which no thread waits: entered in the reactor's thread, replied to together.

    WriteRow ─► log and memory, undecided ─► queue of a committer ─► one fsync for all rows that wait ─► their replies
                (the reactor's thread)       (a thread of a few, by tablet)

A row that would have to wait before it is in the log is left to a thread of the pool, as is one that changes nothing,
and every row with durability "os", since the log writes it at once.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Iterable
from typing import NamedTuple

from ...errors import Error
from ...model.codec.values import map_from_plain
from ...model.forks import stay_with_process
from ...model.store import WriteResult
from ...net.frame_server import gathering
from ...storage.database import Database
from ...storage.single_rows.row_write import StartedRow
from ..tablets.layout import check_version
from ..tserver.replies import op_of, write_reply
from ..wire.call_context import CallContext
from ..wire.calls.deferred_replies import Answer
from ..wire.messages.methods import Call, WriteRow
from .call_results import Calls
from .tablets import EmbeddedTablets

COMMITTERS = 4
"""Threads: the logs of several tablets are synced at the same time."""
MOST_TOGETHER = 256
"""Most rows whose replies wait for each other."""
_log = logging.getLogger("nyala.cluster.embedded_server")


class _Row(NamedTuple):
    """A row in the log, not known to be durable."""

    started: StartedRow
    call: Call | None
    answer: Answer


class RowWrites:
    """Rows of clients that no thread waits for. Thread-safe."""

    def __init__(self, store: Database, tablets: EmbeddedTablets, calls: Calls):
        self._store = store
        self._tablets = tablets
        self._calls = calls
        self._queues: list[queue.SimpleQueue[_Row | None]] = [queue.SimpleQueue() for _ in range(COMMITTERS)]
        self._threads = [
            threading.Thread(target=self._run, args=(rows,), name=f"nyala-committer-{number}", daemon=True)
            for number, rows in enumerate(self._queues)
        ]
        stay_with_process(self)

    def start(self) -> None:
        """Starts the committers."""
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Returns when all rows are decided and the threads have ended; after the last call."""
        for thread, rows in zip(self._threads, self._queues, strict=True):
            rows.put(None)
            if thread.is_alive():
                thread.join()

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
        self._queues[hash(request.tablet_id) % COMMITTERS].put(_Row(started, call, answer))
        return True

    # ---- committers ------------------------------------------------------------------------------------------------

    def _run(self, rows: queue.SimpleQueue[_Row | None]) -> None:
        while (first := rows.get()) is not None:
            taken = [first]
            while len(taken) < MOST_TOGETHER and not rows.empty():
                row = rows.get()
                if row is None:
                    rows.put(None)
                    break
                taken.append(row)
            with gathering():
                self._commit(taken)

    def _commit(self, rows: Iterable[_Row]) -> None:
        # From the last one on: the log syncs all entries before one together with it.
        for row in reversed(list(rows)):
            outcome: WriteResult | Exception
            try:
                outcome = self._store.finish_row(row.started)
            except Exception as error:
                if not isinstance(error, Error):
                    # The other rows are durable all the same; the client of this one gets the error.
                    _log.exception("a row could not be finished")
                outcome = error
            if row.call is not None:
                self._calls.end(row.call, outcome if isinstance(outcome, WriteResult) else None)
            row.answer(outcome if isinstance(outcome, Exception) else write_reply(outcome))
            del outcome  # an error refers to this frame, and in a cycle would keep what was read

    def _abandon(self) -> None:
        """In a forked child: there are no threads."""
