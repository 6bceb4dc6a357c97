"""`nyala tablet unsafe-change-config`: continues with one replica of a tablet whose majority is permanently lost."""

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
    tablet, survivor : str
        As `Names` takes them.
    """

    def __init__(
        self, channels: Channels, masters: Sequence[str], local: Mapping[str, str], tablet: str, survivor: str
    ):
        self._channels = channels
        self._names = Names(channels, masters, local)
        self._location = self._names.tablet(tablet)
        self._server: NamedServer = self._names.server(survivor)
        if all(peer.id != self._server.id for peer in self._location.replicas):
            raise InterfaceError(
                f"{self._names.of(self._server.address)} has no replica of tablet {self._location.tablet_id}"
                f"{self._names.there_are(survivor, self._location.replicas)}"
            )

    def warning(self) -> Iterator[str]:
        """Returns a prominent warning of the consequences."""
        others = [self._names.of(p.address) for p in self._location.replicas if p.id != self._server.id]
        report = self._report()
        yield (
            f"DANGER: tablet {self._location.tablet_id} continues with only the replica at "
            f"{self._names.of(self._server.address)} ({report.rows} rows, {report.state}, log entry "
            f"{report.last_index} of term {report.term})."
        )
        yield (
            f"Writes that {', '.join(others) or 'others'} had acknowledged without it ARE PERMANENTLY LOST, and writes "
            "that were never acknowledged may appear."
        )
        yield "These servers must NEVER run again with the directories that they had: there would be two leaders."
        yield "If they can be recovered, start them instead."

    def force(self, seconds: float) -> str:
        """Forces the configuration; returns a description of the result when the tablet has a leader. Raises
        `ConfigurationRefused` while it has another leader."""
        end = time.monotonic() + seconds
        request = UnsafeChangeConfig(tablet_id=self._location.tablet_id, survivors=(self._server.id,))
        call(self._channels, self._server.address, request, max(1.0, min(_CALL_SECONDS, seconds)))
        while True:
            try:
                if self._report().is_serving:
                    return (
                        f"tablet {self._location.tablet_id} is led by {self._names.of(self._server.address)}, the only "
                        "replica; others are copied from it if there are servers"
                    )
            except ClusterError:
                pass
            if time.monotonic() > end:
                raise DeadlineExceeded(f"tablet {self._location.tablet_id} has no leader after {seconds:g} s")
            time.sleep(_POLL_SECONDS)

    def _report(self) -> TabletReport:
        request = ReportTablets(tablet_ids=(self._location.tablet_id,))
        for report in call(self._channels, self._server.address, request).tablets:
            found: TabletReport = report
            return found
        raise InterfaceError(
            f"{self._names.of(self._server.address)} has no replica of tablet {self._location.tablet_id}"
        )
