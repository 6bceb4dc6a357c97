"""Heartbeats: one thread per master, so that an unresponsive master does not delay the others.

    every second          Heartbeat, to all masters
    a tablet changed      Heartbeat to the leading master, at once, at most twenty per second

Only the leading master accepts reports. It gets a full report when it requests one, and when it was not the leader
before; otherwise the changes since the last report that it accepted. Reports are numbered; the changes in one count as
accepted when the response says that the master leads. The numbers begin with the time, so they increase over restarts
of the server.
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
"""Seconds between two heartbeats to one master."""
TIMEOUT = 5.0
"""Timeout of a heartbeat, in seconds; a slower master is retried."""
_log = logging.getLogger("nyala.cluster.tserver")


class MasterReporter:
    """Reports to one master, in a dedicated thread.

    Parameters
    ----------
    address : str
        The master's.
    reports : callable
        Returns reports of the existing replicas with these ids; None: all.
    server : callable
        Returns the server's status.
    interval : float
        Seconds between heartbeats.
    is_quiescing : callable
        True if the server leaves leaderships to others.
    location : str
        The server's.
    """

    def __init__(
        self,
        address: str,
        channels: Channels,
        server: Callable[[], Peer],
        reports: Callable[[Iterable[str] | None], Sequence[TabletReport]],
        interval: float,
        is_quiescing: Callable[[], bool] = lambda: False,
        location: str = "",
    ):
        self.address = address
        self._channels = channels
        self._server = server
        self._reports = reports
        self._interval = interval
        self._is_quiescing = is_quiescing
        self._location = location
        self._session = uuid.uuid4().hex
        self._sequence = int(time.time() * 1000)
        self._lock = threading.Lock()
        """Guards `_changed`."""
        self._changed: set[str] = set()
        self._wake = threading.Event()
        self._stopped = threading.Event()
        self._sends_all = False
        """The next heartbeat includes a full report."""
        self.is_leader = False
        """True if it led at its last response."""
        self.error = ""
        """The error of the last heartbeat; "" after a response."""
        self._thread = threading.Thread(target=self._run, name=f"nyala-heartbeat-{address}", daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def note(self, tablet_id: str) -> None:
        """Marks a replica as changed or removed."""
        with self._lock:
            self._changed.add(tablet_id)
        if self.is_leader:
            self._wake.set()

    def stop(self) -> None:
        """Requests the end; `join` waits for it."""
        self._stopped.set()
        self._wake.set()

    def join(self) -> None:
        """Waits until the thread has ended, at most about the timeout of a call."""
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
        """Sends one heartbeat; True if another one is due at once."""
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
            is_quiescing=self._is_quiescing(),
            location=self._location,
        )
        reply: HeartbeatReply = self._channels.get(self.address).call(request, TIMEOUT)
        return reply

    def _failed(self, error: Exception, taken: set[str]) -> None:
        with self._lock:
            self._changed |= taken
        # The next response may come from another process, which needs a full report.
        self.is_leader = self._sends_all = False
        if not isinstance(error, Error):
            # A server without reports counts as dead: whatever the error, the next heartbeat is tried.
            _log.exception("a heartbeat failed", extra={"fields": {"master": self.address}})
        elif not self.error:
            _log.warning("master cannot be reached", extra={"fields": {"master": self.address, "error": str(error)}})
        self.error = str(error)


class Heartbeats:
    """The reporters to all masters; parameters as for `MasterReporter`."""

    def __init__(
        self,
        masters: Sequence[str],
        channels: Channels,
        server: Callable[[], Peer],
        reports: Callable[[Iterable[str] | None], Sequence[TabletReport]],
        interval: float,
        is_quiescing: Callable[[], bool] = lambda: False,
        location: str = "",
    ):
        self.reporters = [
            MasterReporter(address, channels, server, reports, interval, is_quiescing, location) for address in masters
        ]

    @property
    def are_accepted(self) -> bool:
        """True if the leading master has replied to the last heartbeat, or there are no masters."""
        return not self.reporters or any(reporter.is_leader for reporter in self.reporters)

    def masters(self) -> list[str]:
        """Returns the addresses of all masters, the leading one first."""
        return [r.address for r in sorted(self.reporters, key=lambda reporter: not reporter.is_leader)]

    def start(self) -> None:
        """Starts the threads."""
        for reporter in self.reporters:
            reporter.start()

    def note(self, tablet_id: str) -> None:
        """Marks a replica as changed or removed; masters are notified soon."""
        for reporter in self.reporters:
            reporter.note(tablet_id)

    def stop(self) -> None:
        """Stops; returns when no heartbeat is in progress."""
        for reporter in self.reporters:
            reporter.stop()
        for reporter in self.reporters:
            reporter.join()
