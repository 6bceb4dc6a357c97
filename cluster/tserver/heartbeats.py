"""Heartbeats: one thread per master, so that an unresponsive master does not delay the others.

    every second          Heartbeat, to all masters
    a tablet changed      Heartbeat to the leading master, at once, at most twenty per second

Only the leading master accepts reports. It gets a full report when it requests one, and when it was not the leader
before; otherwise the changes since the last report that it accepted. Reports are numbered; the changes in one count as
accepted when the response says that the master leads. The numbers begin with the time, so they increase over restarts
of the server.

The leading master's responses list all masters, which change at run time: reporters are added and removed accordingly.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from ...errors import Error
from ..raft.messages import Peer
from ..wire.calls.rpc import Channels
from ..wire.messages.methods import Heartbeat, HeartbeatReply, TabletReport
from .rights import KnownRights

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
    answered : callable
        Called with this reporter and each response.
    rights : KnownRights, optional
        Takes the users and grants that the leading master has; None: this server checks none.
    sizes : callable
        Returns the bytes of the tablets that lead here, by id, of tables with a quota.
    above_quota : callable
        Called with the bytes of tables above their quota, by id, after each response of the leading master.
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
        answered: Callable[[MasterReporter, HeartbeatReply], None] = lambda reporter, reply: None,
        rights: KnownRights | None = None,
        sizes: Callable[[], dict[str, int]] = dict,
        above_quota: Callable[[dict[str, int]], None] = lambda above: None,
    ):
        self.address = address
        self._channels = channels
        self._server = server
        self._reports = reports
        self._interval = interval
        self._is_quiescing = is_quiescing
        self._location = location
        self._answered = answered
        self._rights = rights
        self._sizes = sizes
        self._above_quota = above_quota
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
        self.has_response = False
        """True if the last heartbeat had a response."""
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

    @property
    def is_running(self) -> bool:
        """True while the thread runs."""
        return self._thread.is_alive()

    def join(self) -> None:
        """Waits until the thread has ended, at most about the timeout of a call."""
        if self.is_running:
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
        self.has_response = True
        was_leader, self.is_leader = self.is_leader, reply.is_leader
        self._answered(self, reply)
        if not reply.is_leader:
            self._sends_all = False
            return False
        self._above_quota(reply.above_quota)
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
            rights_version=-1 if self._rights is None else self._rights.durable_version,
            sizes=self._sizes(),
        )
        reply: HeartbeatReply = self._channels.get(self.address).call(request, TIMEOUT)
        if reply.rights is not None and reply.is_leader and self._rights is not None:
            self._take_rights(self._rights, reply.rights)
        return reply

    def _take_rights(self, known: KnownRights, rights: Mapping[str, Any]) -> None:
        try:
            known.take(rights)
        except Error as error:  # the disk is full, perhaps: the next heartbeat brings them again
            _log.warning("users and grants are not durable here", extra={"fields": {"error": str(error)}})

    def _failed(self, error: Exception, taken: set[str]) -> None:
        with self._lock:
            self._changed |= taken
        # The next response may come from another process, which needs a full report.
        self.is_leader = self._sends_all = self.has_response = False
        if not isinstance(error, Error):
            # A server without reports counts as dead: whatever the error, the next heartbeat is tried.
            _log.exception("a heartbeat failed", extra={"fields": {"master": self.address}})
        elif not self.error:
            _log.warning("master cannot be reached", extra={"fields": {"master": self.address, "error": str(error)}})
        self.error = str(error)


class Heartbeats:
    """The reporters to all masters. Thread-safe.

    Parameters
    ----------
    masters : sequence of str
        Addresses to begin with; at least one of them should be that of a present master.
    note_masters : callable
        Called with the addresses of all masters when the leading one has listed others than before.

    The others are those of `MasterReporter`.
    """

    def __init__(
        self,
        masters: Sequence[str],
        channels: Channels,
        server: Callable[[], Peer],
        reports: Callable[[Iterable[str] | None], Sequence[TabletReport]],
        interval: float,
        is_quiescing: Callable[[], bool] = lambda: False,
        location: str = "",
        note_masters: Callable[[tuple[str, ...]], None] = lambda masters: None,
        rights: KnownRights | None = None,
        sizes: Callable[[], dict[str, int]] = dict,
        above_quota: Callable[[dict[str, int]], None] = lambda above: None,
    ):
        self._make = partial(
            MasterReporter,
            channels=channels,
            server=server,
            reports=reports,
            interval=interval,
            is_quiescing=is_quiescing,
            location=location,
            answered=self._learn,
            rights=rights,
            sizes=sizes,
            above_quota=above_quota,
        )
        self._note_masters = note_masters
        self._lock = threading.Lock()
        """Guards changes of the reporters, and `_listed`."""
        self._listed: tuple[str, ...] = ()
        self._is_stopped = False
        self._dropped: list[MasterReporter] = []
        self.reporters: tuple[MasterReporter, ...] = tuple(self._make(address) for address in masters)
        """Replaced as a whole."""

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
        with self._lock:
            self._is_stopped = True
            reporters = (*self.reporters, *self._dropped)
        for reporter in reporters:
            reporter.stop()
        for reporter in reporters:
            reporter.join()

    # ---- changes of the masters --------------------------------------------------------------------------------------

    def _learn(self, reporter: MasterReporter, reply: HeartbeatReply) -> None:
        """Follows the list of the leading master; a follower is believed only about the leader's address, while none
        accepts reports."""
        with self._lock:
            if self._is_stopped or reporter not in self.reporters:
                return
            if reply.is_leader and reply.masters:
                self._follow(reporter, reply)
                is_news, self._listed = self._listed != reply.masters, reply.masters
            else:
                is_news = False
                if reply.leader and not self.are_accepted:
                    self._add([reply.leader])
        if is_news:
            self._note_masters(reply.masters)

    def _follow(self, reporter: MasterReporter, reply: HeartbeatReply) -> None:
        """Adds and drops reporters. This server may reach masters under other addresses than they list: a reporter
        that is not listed is dropped only if it is certain that the listed ones serve."""
        if reporter.address in reply.masters:
            self._add(reply.masters)
        else:
            self._add([address for address in reply.masters if address != reply.leader])
        listed = [one for one in self.reporters if one.address in reply.masters]
        if len(listed) == len(reply.masters) and all(one.has_response for one in listed):
            self._drop([one for one in self.reporters if one not in listed])
        elif any(one.address == reply.leader and one.is_leader for one in listed):
            self._drop([one for one in self.reporters if one not in listed and one.is_leader])

    def _add(self, addresses: Iterable[str]) -> None:
        known = {reporter.address for reporter in self.reporters}
        added = [self._make(address) for address in addresses if address not in known]
        if added:
            self.reporters += tuple(added)
            for reporter in added:
                reporter.start()

    def _drop(self, reporters: Sequence[MasterReporter]) -> None:
        if reporters:
            self.reporters = tuple(one for one in self.reporters if one not in reporters)
            self._dropped = [one for one in self._dropped if one.is_running] + list(reporters)
            for reporter in reporters:
                reporter.stop()
