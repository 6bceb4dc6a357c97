"""A planned absence of one tablet server: maintenance mode at the masters, and quiescing at the server itself."""

from __future__ import annotations

from collections.abc import Callable

from ..wire.messages.maintenance_methods import MaintainServer, QuiesceServer, QuiesceStatus
from .one_server import OneServer
from .view import call


class PlannedAbsence(OneServer):
    """The planned absence of one server."""

    def maintain(self, in_maintenance: bool) -> None:
        """Begins or ends its maintenance: the masters store that."""
        self._ask_master(MaintainServer(server=self._server.id, in_maintenance=in_maintenance))

    def quiesce(self, action: str) -> QuiesceStatus:
        """Has it "begin" or "end" to quiesce, or returns the "status"; raises `ServerUnavailable` if it does not
        run."""
        reply: QuiesceStatus = call(self._channels, self._server.address, QuiesceServer(action=action))
        return reply

    def wait_idle(self, say: Callable[[str], None], seconds: float) -> QuiesceStatus:
        """Returns when it leads no tablet that another one could lead, and has no scans. `say` is called with what is
        left now and then. `DeadlineExceeded` has it after `seconds`: quiescing continues."""
        status = self.quiesce("status")

        def left() -> str:
            nonlocal status
            status = self.quiesce("status")
            return f"it {_left(status)}" if status.leaders or status.scans else ""

        self._wait_while(
            left,
            say,
            seconds,
            lambda _: f"after {seconds:g} s, {self.name} still {_left(status)}; it continues to quiesce",
        )
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
