"""A connection as its cursors, tables and write sessions use it.

`driver.connection` makes these objects, so they do not import it: they take whatever has these members.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ..model.store import Store
    from .session.session import Session


class OpenConnection(Protocol):
    """A connection that runs statements until it is closed; all of its members then raise `InterfaceError`."""

    @property
    def session(self) -> Session:
        """The session that runs its statements."""

    @property
    def store(self) -> Store:
        """Its store: catalog, statistics, scans."""

    def check_open(self) -> None:
        """Raise `InterfaceError` after `close`."""
