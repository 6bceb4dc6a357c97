"""`nyala tablet unsafe-change-config`: continues with the surviving replicas of a tablet whose majority is
permanently lost."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence

from ...errors import ClusterError, DeadlineExceeded, InterfaceError
from ..wire.calls.rpc import Channels
from ..wire.messages.methods import NamedServer, ReportTablets, TabletReport
from ..wire.messages.repair_methods import UnsafeChangeConfig
from .names import Names
from .view import call

_CALL_SECONDS = 60.0
_POLL_SECONDS = 0.2


class Forcing:
    """A forced configuration of one tablet: its warning, and its execution.

    Parameters
    ----------
    local : mapping of str to str
        As for `Names`.
    tablet : str
        As `Names` takes it.
    survivors : sequence of str
        Servers, as `Names` takes them: the first one's replica keeps its data, and the others follow it.
    """

    def __init__(
        self,
        channels: Channels,
        masters: Sequence[str],
        local: Mapping[str, str],
        tablet: str,
        survivors: Sequence[str],
    ):
        self._channels = channels
        self._names = Names(channels, masters, local)
        self._location = self._names.tablet(tablet)
        self._servers: list[NamedServer] = []
        for survivor in survivors:
            server = self._names.server(survivor)
            if all(peer.id != server.id for peer in self._location.replicas):
                raise InterfaceError(
                    f"{self._names.of(server.address)} has no replica of tablet {self._location.tablet_id}"
                    f"{self._names.there_are(survivor, self._location.replicas)}"
                )
            if server not in self._servers:
                self._servers.append(server)

    def warning(self) -> Iterator[str]:
        """Returns a prominent warning of the consequences."""
        kept = [server.id for server in self._servers]
        others = [self._names.of(peer.address) for peer in self._location.replicas if peer.id not in kept]
        first, *further = [(server, self._report(server)) for server in self._servers]
        yield (
            f"DANGER: tablet {self._location.tablet_id} continues with only the replica at {self._described(*first)}."
        )
        for server, report in further:
            yield f"The replica at {self._described(server, report)} FOLLOWS it, and LOSES entries that it lacks."
            if (report.term, report.last_index) > (first[1].term, first[1].last_index):
                yield f"It has MORE than the first one: name {self._names.of(server.address)} first."
        yield (
            f"Writes that {', '.join(others) or 'others'} had acknowledged without it ARE PERMANENTLY LOST, and writes "
            "that were never acknowledged may appear."
        )
        yield "These servers must NEVER run again with the directories that they had: there would be two leaders."
        yield "If they can be recovered, start them instead."

    def _described(self, server: NamedServer, report: TabletReport) -> str:
        return (
            f"{self._names.of(server.address)} ({report.rows} rows, {report.state}, log entry {report.last_index} of "
            f"term {report.term})"
        )

    def force(self, seconds: float) -> str:
        """Forces the configuration; returns a description of the result when the tablet has a leader. Raises
        `ConfigurationRefused` while it has another leader."""
        end = time.monotonic() + seconds
        survivors = tuple(server.id for server in self._servers)
        first = self._servers[0]
        request = UnsafeChangeConfig(tablet_id=self._location.tablet_id, survivors=survivors)
        call(self._channels, first.address, request, max(1.0, min(_CALL_SECONDS, seconds)))
        while True:
            try:
                if self._report(first).is_serving:
                    count = len(survivors)
                    return (
                        f"tablet {self._location.tablet_id} is led by {self._names.of(first.address)}, "
                        f"{'the only replica' if count == 1 else f'one of {count} replicas'}; others are copied from "
                        "it if there are servers"
                    )
            except ClusterError:
                pass
            if time.monotonic() > end:
                raise DeadlineExceeded(f"tablet {self._location.tablet_id} has no leader after {seconds:g} s")
            time.sleep(_POLL_SECONDS)

    def _report(self, server: NamedServer) -> TabletReport:
        request = ReportTablets(tablet_ids=(self._location.tablet_id,))
        for report in call(self._channels, server.address, request).tablets:
            found: TabletReport = report
            return found
        raise InterfaceError(f"{self._names.of(server.address)} has no replica of tablet {self._location.tablet_id}")
