"""Reads of a replica: one row, or a view for a scan.

    at a snapshot, any replica       wait until every write at or below the timestamp is here, now and in future
                                     (`Consensus.wait_safe`), and decided; the leader needs its lease for that, a
                                     follower a safe time from the leader
    the latest, at the leader        take a timestamp, wait until all writes below are decided, then make sure that the
                                     lease is held: no other leader has acknowledged anything before that timestamp
    the latest row, at the leader    the same at the greatest acknowledged timestamp (`MvccManager.newest_clean`), so
                                     undecided writes do not delay it: no client knows of them

A timestamp from before the leader began to serve in its term is not valid: another may have led in between, with a
clock that was ahead. A new timestamp is taken then.

A look-up waits for a prepared transaction only if that has the key; a scan waits for every one at or below its
timestamp.

A read with the deadline `NO_WAIT` raises `DeadlineExceeded` instead of waiting, so a thread that must not block may try
it. The general form is used for that since it costs 0.5 of 10 us more than one made for the purpose (20,000 rows by
key, one replica).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Final, Protocol

from ...errors import DataError, DeadlineExceeded
from ...model.clock import HybridClock, format_timestamp
from ...model.store import Timestamp
from ...model.waiting_phases import phase
from ...storage.single_rows.row_read import find_row
from ...storage.tablet.prepared import PreparedWrite
from ...storage.tablet.tablet import Tablet, TabletView
from ..consensus.consensus import Consensus
from .layout import ReplicaLayout, check_version

NO_WAIT: Final = 0.0
"""Deadline of a read that must not wait."""


class Serving(Protocol):
    """The replica, as far as reads need it."""

    @property
    def layout(self) -> ReplicaLayout:
        """The current layout of the table."""

    @property
    def serving_since(self) -> int:
        """Hybrid time: a leader that serves assigned no timestamp of its term before it."""


class ReplicaReads:
    """Reads of one tablet. Thread-safe."""

    def __init__(self, tablet: Tablet, consensus: Consensus, clock: HybridClock, serving: Serving):
        self._tablet = tablet
        self._consensus = consensus
        self._clock = clock
        self._serving = serving

    def row(
        self,
        key: Sequence[Any],
        columns: Sequence[str],
        snapshot: Timestamp | None,
        deadline: float,
        version: int | None,
    ) -> tuple[tuple[Any, ...] | None, Timestamp]:
        """Returns a row by its key; see `Replica.read_row`."""
        prepared = self._tablet.prepared
        while True:
            if prepared:
                self._wait_for_key(key, snapshot, deadline)
            if snapshot is None:
                # At or above every transaction whose outcome is here, and perhaps below that of one whose outcome comes
                # now: it may be acknowledged already.
                timestamp = self._newest(deadline)
                if prepared and self._holder(key, timestamp) is not None:
                    continue
            else:
                timestamp = snapshot
                self._wait(snapshot, deadline)
            found = self._find(key, columns, timestamp, version, checks_history=snapshot is not None)
            if found is not None:
                return found
            if time.monotonic() >= deadline:
                raise DeadlineExceeded(f"table {self._serving.layout.table.name} was not altered in time")

    def _holder(self, key: Sequence[Any], timestamp: Timestamp | None) -> PreparedWrite | None:
        """Returns the prepared write that has a row with this key, if its timestamp is at or below another."""
        if not self._tablet.prepared:
            return None
        codec = self._serving.layout.codec
        return self._tablet.prepared.holding(codec.key.index_key(codec.physical_key(key)), timestamp)

    def _wait_for_key(self, key: Sequence[Any], timestamp: Timestamp | None, deadline: float) -> None:
        """Returns when no transaction has prepared a row with this key at or below a timestamp; None: at any."""
        while (prepared := self._holder(key, timestamp)) is not None:
            if not prepared.decision.wait(max(deadline - time.monotonic(), 0.0)):
                raise DeadlineExceeded(
                    f"a transaction has prepared the row in table {self._serving.layout.table.name}, and has not "
                    "ended in time"
                )

    def _find(
        self,
        key: Sequence[Any],
        columns: Sequence[str],
        timestamp: Timestamp,
        version: int | None,
        checks_history: bool,
    ) -> tuple[tuple[Any, ...] | None, Timestamp] | None:
        """Returns the row at a readable timestamp; None if the tablet is being altered."""
        layout = self._serving.layout
        layout.check_version(version)
        codec, names = layout.codec, tuple(columns)
        chosen = codec.projection(names)
        values = codec.physical_key(key)
        layout.check_key(values)
        pin = self._tablet.shared_pin()
        if pin.table is not layout.table:
            return None  # its layout has changed too, or is about to
        if checks_history:
            self._tablet.check_history(timestamp)
        row = find_row(pin.state, codec.key, values, chosen, timestamp)
        return None if row is None else codec.physical(names, row), timestamp

    def view(self, snapshot: Timestamp | None, deadline: float, version: int | None) -> TabletView:
        """Returns the tablet as of a timestamp; see `Replica.view`."""
        with phase("snapshot"):
            if snapshot is None:
                snapshot = self._latest(deadline)
            else:
                self._wait(snapshot, deadline)
        view = self._tablet.view(snapshot)
        check_version(view.table, version)
        return view

    def _newest(self, deadline: float) -> Timestamp:
        """Returns a readable timestamp at or above all that was acknowledged, but for prepared writes."""
        self._consensus.check_serving()
        timestamp = self._tablet.mvcc.newest_clean(deadline)
        if timestamp > self._serving.serving_since:
            self._consensus.check_can_serve(timestamp, deadline)
            return timestamp
        return self._latest(deadline, passes_held=True)

    def _latest(self, deadline: float, passes_held: bool = False) -> Timestamp:
        self._consensus.check_serving()
        while True:
            timestamp = self._tablet.mvcc.clean_now(deadline, passes_held=passes_held)
            self._consensus.check_can_serve(timestamp, deadline)
            if timestamp > self._serving.serving_since:
                return timestamp

    def _wait(self, snapshot: Timestamp, deadline: float) -> None:
        """Returns when all writes up to a timestamp are here and decided, with none to follow."""
        follow(self._clock, snapshot, self._serving.layout.table.name)
        self._consensus.wait_safe(snapshot, deadline)
        self._tablet.mvcc.wait_until_clean(snapshot, deadline)


def follow(clock: HybridClock, snapshot: Timestamp, table: str) -> None:
    """Moves the clock up to a read's timestamp, so that no later write is below it. Raises `DataError` for a timestamp
    in the future, further ahead than a reader's clock may be (`HybridClock.limit`)."""
    now = clock.now()
    if snapshot > now:
        if snapshot > clock.limit():
            raise DataError(
                f"cannot read table {table} as of {format_timestamp(snapshot)}: it is only {format_timestamp(now)}"
            )
        clock.update(snapshot)
