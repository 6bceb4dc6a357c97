"""The prepared statements and portals of one client, by name."""

from __future__ import annotations

from .portals import MOST_STATEMENTS, Portal, PreparedStatement
from .reports import Refused


class NamedObjects:
    """The part of `backend.Backend` that keeps them."""

    def __init__(self) -> None:
        self._statements: dict[bytes, PreparedStatement] = {}
        self._portals: dict[bytes, Portal] = {}

    def _close_portal(self, name: bytes) -> bool:
        portal = self._portals.pop(name, None)
        if portal is not None:
            portal.close()
        return portal is not None

    def _close_portals(self) -> None:
        for name in list(self._portals):
            self._close_portal(name)

    def close_cursor(self, name: str) -> bool:
        """CLOSE name; False if there is no such portal."""
        return self._close_portal(name.encode())

    def deallocate(self, name: str | None) -> bool:
        """DEALLOCATE name, or of all; False if there is no such statement."""
        if name is None:
            self._statements.clear()
            return True
        return self._statements.pop(name.encode(), None) is not None

    def discard(self, portals: bool) -> None:
        """DISCARD: prepared statements, and portals too."""
        self._statements.clear()
        if portals:
            self._close_portals()


def refuse_many(count: int) -> None:
    """Raises `Refused` if there is no room for another statement or portal."""
    if count >= MOST_STATEMENTS:
        raise Refused(f"a connection has at most {MOST_STATEMENTS} prepared statements or portals", "54000")
