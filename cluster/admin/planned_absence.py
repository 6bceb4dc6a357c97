"""A planned absence of one tablet server: maintenance mode at the masters, and quiescing at the server itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from ...errors import DeadlineExceeded
from ..wire.calls.rpc import Channels
from ..wire.messages.maintenance_methods import MaintainServer, QuiesceServer, QuiesceStatus
from .masters import ask_master
from .names import Names
from .view import call

_POLL_SECONDS = 0.1
TELL_SECONDS = 5.0
"""Seconds between two reports of what is left."""


class PlannedAbsence:
    """The planned absence of one server of a cluster with these masters.

    Parameters
    ----------
    server : str
        As `Names` takes it.
    local : mapping of str to str
        As for `Names`.
    """

    def __init__(self, channels: Channels, masters: Sequence[str], server: str, local: Mapping[str, str] | None = None):
        self._channels = channels
        self._masters = masters
        names = Names(channels, masters, local)
        self._server = names.server(server)
        self.name = names.of(self._server.address)
        """Its name for people."""

    def maintain(self, in_maintenance: bool) -> None:
        """Begins or ends its maintenance: the masters store that."""
        ask_master(self._channels, self._masters, MaintainServer(server=self._server.id, in_maintenance=in_maintenance))

    def quiesce(self, action: str) -> QuiesceStatus:
        """Has it "begin" or "end" to quiesce, or returns the "status"; raises `ServerUnavailable` if it does not
        run."""
        reply: QuiesceStatus = call(self._channels, self._server.address, QuiesceServer(action=action))
        return reply

    def wait_idle(self, say: Callable[[str], None], seconds: float) -> QuiesceStatus:
        """Returns when it leads no tablet that another one could lead, and has no scans. `say` is called with what is
        left now and then. `DeadlineExceeded` has it after `seconds`: quiescing continues."""
        began = reported = time.monotonic()
        while (status := self.quiesce("status")).leaders or status.scans:
            now = time.monotonic()
            if now - began >= seconds:
                raise DeadlineExceeded(
                    f"after {seconds:g} s, {self.name} still {_left(status)}; it continues to quiesce"
                )
            if reported == began or now - reported >= TELL_SECONDS:
                reported = now
                say(f"waiting for {self.name}: it {_left(status)}")
            time.sleep(_POLL_SECONDS)
        return status

    def describe(self, status: QuiesceStatus) -> str:
        """Returns a status for people."""
        state = "is quiescing" if status.is_quiescing else "is not quiescing"
        alone = f", and serves {_count(status.alone, 'tablet')} that no other server has" if status.alone else ""
        return f"{self.name} {state}: it {_left(status)}{alone}"


def _left(status: QuiesceStatus) -> str:
    return f"leads {_count(status.leaders, 'tablet')} and has {_count(status.scans, 'scan')}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
