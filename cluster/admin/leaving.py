"""Emptying a tablet server before it goes for good: the master moves its replicas elsewhere, and this watches."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ...errors import DeadlineExceeded, InterfaceError, listed
from ..wire.calls.rpc import Channels
from ..wire.messages.methods import GetCatalog, LeaveCluster, LocateTablets, NamedServer
from .masters import ask_master
from .names import Names

_POLL_SECONDS = 0.2
TELL_SECONDS = 5.0
"""Between two words about what is left."""


@dataclass(frozen=True, slots=True)
class Held:
    """A tablet with a replica at a server: its table's name, and how many replicas that wants."""

    tablet: str
    table: str
    replicas: int


class Leaving:
    """One server's leaving of a cluster with these masters.

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
        self._names = Names(channels, masters, local)
        self._server = self._names.server(server)
        self.name = self._names.of(self._server.address)
        """What people call it."""
        self.is_dead = self._server.state in ("DEAD", "REPLACED")

    @property
    def fate(self) -> str:
        """What becomes of it now."""
        if self._server.state == "REPLACED":
            return (
                f"({self._server.id}) has lost its directory, as another server runs at its address: it is forgotten "
                "as soon as its replicas are made anew; name the other one by its id"
            )
        if self.is_dead:
            return "is dead; what it held is made anew elsewhere, where there is room, and then it is forgotten"
        return "is being emptied"

    def begin(self, *, has_to_end: bool = False) -> None:
        """Have the master empty it. `InterfaceError` where that could never come to an end. A dead one is taken
        anyway, unless it `has_to_end`: so the cluster is told that it does not come back."""
        if not self.is_dead or has_to_end:
            check_room(self._server, self._names, self.held())
        ask_master(self._channels, self._masters, LeaveCluster(server=self._server.id, leaving=True))

    def undo(self) -> None:
        """Let it stay after all."""
        ask_master(self._channels, self._masters, LeaveCluster(server=self._server.id, leaving=False))

    def wait(self, say: Callable[[str], None], seconds: float | None = None) -> None:
        """Return when it holds no replica any more; `say` hears what is left, every now and then. `DeadlineExceeded`
        says what still is there after `seconds`: it goes on being emptied."""
        began = told = time.monotonic()
        while left := self._left():
            now = time.monotonic()
            if seconds is not None and now - began >= seconds:
                raise DeadlineExceeded(
                    f"{self.name} is not empty after {seconds:g} s, and goes on being emptied; still there: "
                    f"{_shown(self.held())}"
                )
            if told == began or now - told >= TELL_SECONDS:
                told = now
                say(f"waiting for {self.name}: {left} replica{'' if left == 1 else 's'} left")
            time.sleep(_POLL_SECONDS)

    def held(self) -> list[Held]:
        """The tablets with a replica there, by the master."""
        found: list[Held] = []
        for table in ask_master(self._channels, self._masters, GetCatalog()).tables or ():
            located = ask_master(self._channels, self._masters, LocateTablets(table_id=table["id"])).tablets
            for location in located:
                if any(peer.id == self._server.id for peer in location.replicas):
                    found.append(Held(location.tablet_id, table["name"], table["replicas"]))
        return found

    def _left(self) -> int:
        return next((s.replicas for s in self._names.servers() if s.id == self._server.id), 0)


def check_room(server: NamedServer, names: Names, held: Sequence[Held]) -> None:
    """`InterfaceError` where the servers that remain are fewer than some table needs that has replicas there."""
    others = [other for other in names.servers() if other.id != server.id]
    takers = [other for other in others if other.state == "ALIVE"]
    needy: dict[str, int] = {one.table: one.replicas for one in held if one.replicas > len(takers)}
    if not needy:
        return
    out = ", ".join(f"{names.of(o.address)} is {o.state}" for o in others if o.state != "ALIVE")
    tables = listed([f"{name} ({needy[name]} replicas)" for name in sorted(needy)])
    raise InterfaceError(
        f"{names.of(server.address)} cannot be emptied: without it, {len(takers)} tablet "
        f"server{' remains' if len(takers) == 1 else 's remain'}{f' ({out})' if out else ''}, too few for {tables}; "
        "start others first"
    )


def _shown(held: Sequence[Held]) -> str:
    return f"{len(held)} replicas: {listed([f'{one.tablet} of {one.table}' for one in held])}"
