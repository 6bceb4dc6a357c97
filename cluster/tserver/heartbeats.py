"""Telling the masters: a thread for each of them, so that one that does not answer holds up no other.

    every second          Heartbeat, to all masters
    a tablet changed      Heartbeat to the master that leads, at once, at most twenty per second

Only the leader among them takes reports. It gets a full one when it asks for it, and when it was not the leader before;
otherwise what has changed since the last report that it took. A report is numbered, and what it brought counts as taken
when the answer says that the master leads. Numbers go on over restarts of the server: they begin with the time.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Sequence

from ...errors import Error
from ..raft.messages import Peer
from ..wire.calls.rpc import Channels
from ..wire.messages.methods import Heartbeat, HeartbeatReply, TabletReport

LEAST_SECONDS = 0.05
"""Between two heartbeats to one master."""
TIMEOUT = 5.0
"""Of a heartbeat: a master that is slower is tried again."""
_log = logging.getLogger("nyala.cluster.tserver")


class MasterReporter:
    """Reports to one master, in a thread of its own.

    Parameters
    ----------
    address : str
        The master's.
    reports : callable
        Reports about the replicas with these ids, those of them that there are; None: all.
    server : callable
        This server.
    interval : float
        Seconds between heartbeats.
    """

    def __init__(
        self,
        address: str,
        channels: Channels,
        server: Callable[[], Peer],
        reports: Callable[[Iterable[str] | None], Sequence[TabletReport]],
        interval: float,
    ):
        self.address = address
        self._channels = channels
        self._server = server
        self._reports = reports
        self._interval = interval
        self._session = uuid.uuid4().hex
        self._sequence = int(time.time() * 1000)
        self._lock = threading.Lock()
        """Guards `_changed`."""
        self._changed: set[str] = set()
        self._wake = threading.Event()
        self._stopped = threading.Event()
        self._sends_all = False
        """The next heartbeat is to bring a full report."""
        self.is_leader = False
        """Was it when it answered last?"""
        self.error = ""
        """Why the last heartbeat was not answered."""
        self._thread = threading.Thread(target=self._run, name=f"nyala-heartbeat-{address}", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def note(self, tablet_id: str) -> None:
        """A replica has changed, or is gone."""
        with self._lock:
            self._changed.add(tablet_id)
        if self.is_leader:
            self._wake.set()

    def stop(self) -> None:
        """End soon; `join` waits for it."""
        self._stopped.set()
        self._wake.set()

    def join(self) -> None:
        """Wait until the thread has ended, at most about the time of a call."""
        if self._thread.is_alive():
            self._thread.join(TIMEOUT + 1)

    def _run(self) -> None:
        while not self._stopped.is_set():
            began = time.monotonic()
            again = self._beat()
            self._stopped.wait(max(0.0, LEAST_SECONDS - (time.monotonic() - began)))
            if not again:
                self._wake.wait(max(0.0, self._interval - (time.monotonic() - began)))
            self._wake.clear()

    def _beat(self) -> bool:
        """One heartbeat; is another one due at once?"""
        is_full = self._sends_all
        with self._lock:
            taken = self._changed if self.is_leader or is_full else set()
            if taken:
                self._changed = set()
        try:
            reply = self._send(is_full, taken)
        except Exception as error:
            self._failed(error, taken)
            return False
        if self.error:
            self.error = ""
            _log.info("master reached again", extra={"fields": {"master": self.address}})
        was_leader, self.is_leader = self.is_leader, reply.is_leader
        if not reply.is_leader:
            self._sends_all = False
            return False
        self._sends_all = reply.wants_full_report or not (was_leader or is_full)
        return self._sends_all

    def _send(self, is_full: bool, changed: set[str]) -> HeartbeatReply:
        self._sequence += 1
        reports = tuple(self._reports(None if is_full else changed)) if is_full or changed else ()
        removed = () if is_full else tuple(sorted(changed.difference(report.tablet_id for report in reports)))
        request = Heartbeat(
            server=self._server(),
            sequence=self._sequence,
            session=self._session,
            is_full=is_full,
            reports=reports,
            removed=removed,
        )
        reply: HeartbeatReply = self._channels.get(self.address).call(request, TIMEOUT)
        return reply

    def _failed(self, error: Exception, taken: set[str]) -> None:
        with self._lock:
            self._changed |= taken
        # Whoever answers next may be another process: it is told everything.
        self.is_leader = self._sends_all = False
        if not isinstance(error, Error):
            # A server that reports no more counts as dead: whatever it was, the next heartbeat is tried.
            _log.exception("a heartbeat failed", extra={"fields": {"master": self.address}})
        elif not self.error:
            _log.warning("master cannot be reached", extra={"fields": {"master": self.address, "error": str(error)}})
        self.error = str(error)


class Heartbeats:
    """The reporters to all masters; the parameters are those of `MasterReporter`."""

    def __init__(
        self,
        masters: Sequence[str],
        channels: Channels,
        server: Callable[[], Peer],
        reports: Callable[[Iterable[str] | None], Sequence[TabletReport]],
        interval: float,
    ):
        self.reporters = [MasterReporter(address, channels, server, reports, interval) for address in masters]

    @property
    def are_accepted(self) -> bool:
        """True if the leading master has replied to the last heartbeat, or there are no masters."""
        return not self.reporters or any(reporter.is_leader for reporter in self.reporters)

    def start(self) -> None:
        """Begin."""
        for reporter in self.reporters:
            reporter.start()

    def note(self, tablet_id: str) -> None:
        """A replica has changed, or is gone: masters hear of it soon."""
        for reporter in self.reporters:
            reporter.note(tablet_id)

    def stop(self) -> None:
        """End; returns when no heartbeat is on its way."""
        for reporter in self.reporters:
            reporter.stop()
        for reporter in self.reporters:
            reporter.join()
