"""Calls to the masters: the leading one replies, and is called first next time.

Replies with a catalog list the masters, which change at run time. A client that is in use thus always has the present
ones, even if all of those that it was given have been replaced one after another. The given addresses stay as a last
resort: a client may reach the masters under others than they have themselves. A client that was idle meanwhile knows
only masters that have gone: tablet servers that it knows then name the present ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeVar

from ....errors import ClusterError, DeadlineExceeded, Error, NotTheLeader
from ...wire.messages.methods import CatalogReply, GetStatus, Reply, Request, ServerStatus
from ..client_context import ChannelsLike
from ..retry import FIRST_ATTEMPT, LEAST_SECONDS, Attempts, Verdict, verdict

R = TypeVar("R", bound=Reply)
_SERVERS_ASKED: Final = 3
"""Tablet servers that are called for the present masters in one round."""
_STATUS_SECONDS: Final = 2.0
"""For each of them."""


class Masters:
    """The masters of a cluster, by their addresses. Thread-safe.

    Parameters
    ----------
    channels : Channels
    addresses : sequence of str
        "host:port" of all masters, or of some.
    attempts : callable, optional
        Makes the `Attempts` at a request: `ClientContext.attempts` for a client, which has a default deadline.
    """

    def __init__(self, channels: ChannelsLike, addresses: Sequence[str], attempts: Callable[..., Attempts] = Attempts):
        self.addresses = tuple(addresses)
        """Replaced as a whole."""
        self._given = self.addresses
        self._channels = channels
        self._attempts = attempts
        self.known_servers: Callable[[], Iterable[str]] = tuple
        """Returns tablet servers that may know the present masters."""
        self._has_replied = False
        """True once a master has replied as the leader."""
        self._leader = ""
        """The master that last replied, or was named by a follower; a guess, so it needs no lock."""

    @property
    def address(self) -> str:
        """Address of the master that last replied, or of the first; of a served directory, the embedded server's."""
        return self._leader or self.addresses[0]

    def call(
        self,
        request: Request,
        reply: type[R],
        what: str,
        *,
        seconds: float | None = None,
        attempt: float | None = FIRST_ATTEMPT,
        patience: float | None = None,
    ) -> R:
        """Returns the leading master's reply. A request that changes something has its call id, so it may be sent
        again.

        Raises the master's error, or `DeadlineExceeded` if no master led in time, or none was reachable for `patience`
        seconds.
        """
        return self.answer(request, reply, self.attempts(what, seconds, attempt, patience))

    def attempts(
        self, what: str, seconds: float | None, attempt: float | None = FIRST_ATTEMPT, patience: float | None = None
    ) -> Attempts:
        """Returns the attempts at a request, for `answer`; the parameters are those of `call`."""
        return self._attempts(f"{what} (from {', '.join(self.addresses)})", seconds, attempt, patience=patience)

    def answer(self, request: Request, reply: type[R], attempts: Attempts) -> R:
        """As `call`, with attempts that were made before."""
        try:
            return self._answer(request, reply, attempts)
        except DeadlineExceeded as error:
            if self._has_replied and not isinstance(attempts.last, NotTheLeader):
                raise DeadlineExceeded(
                    f"{error}. If all masters that this client knows have been replaced while it was idle, connect "
                    "again, to those that `nyala cluster masters` lists"
                ) from error
            raise

    def _answer(self, request: Request, reply: type[R], attempts: Attempts) -> R:
        tried: set[str] = set()
        while True:
            address = self._next(tried)
            if not address:
                if self._has_replied and self._find_others(attempts):
                    continue
                attempts.pause()
                tried.clear()
                continue
            try:
                found = self._channels.get(address).call(request, timeout=attempts.timeout())
            except Error as error:
                self._failed(address, error, tried)
                attempts.failed(error)
                continue
            self._leader, self._has_replied = address, True
            assert isinstance(found, reply)
            if isinstance(found, CatalogReply):
                self._learn(found.masters)
            return found

    def _learn(self, masters: tuple[str, ...]) -> None:
        """Continues with these masters; none: those of an embedded server, or of a former version, stay."""
        if masters and self.addresses[: len(masters)] != masters:
            self.addresses = tuple(dict.fromkeys((*masters, *self._given)))

    def _find_others(self, attempts: Attempts) -> bool:
        """Calls tablet servers for the present masters: none of the known ones leads. True if there are others."""
        for address, _ in zip(self.known_servers(), range(_SERVERS_ASKED)):
            try:
                status = self._channels.get(address).call(
                    GetStatus(), timeout=max(LEAST_SECONDS, min(_STATUS_SECONDS, attempts.remaining))
                )
            except ClusterError:
                continue
            assert isinstance(status, ServerStatus)
            told = tuple(str(master["address"]) for master in status.details.get("masters", ()))
            if not set(told) <= set(self.addresses):
                self._learn(told)
                return True
        return False

    def _next(self, tried: set[str]) -> str:
        """Returns the master to call now; "" if all were called in this round."""
        order = (self._leader, *self.addresses) if self._leader else self.addresses
        return next((address for address in order if address not in tried), "")

    def _failed(self, address: str, error: Error, tried: set[str]) -> None:
        """Records a failed call; raises errors that a retry cannot mend."""
        if verdict(error) is Verdict.OUT:
            raise error
        tried.add(address)
        if self._leader == address:
            self._leader = ""
        if isinstance(error, NotTheLeader) and error.leader and error.leader not in tried:
            self._leader = error.leader
