"""Servers for clients of other protocols, by name: what `Connection.serve` opens besides nyala's own.

    the package's `__init__` ── register("postgres", maker) ──► name: maker      nothing is imported
    Connection.serve(postgres="127.0.0.1:5433")  ──► opened_one(...) ──► a Door, which the connection closes

A maker is above the driver, so this module knows of none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

from ..errors import InterfaceError


class Door(Protocol):
    """A server that has been started."""

    @property
    def url(self) -> str:
        """URL for its clients."""

    def close(self) -> None:
        """Ends all clients. May be repeated."""


Maker: TypeAlias = Callable[..., Door]
"""Starts a server of a connection's store at an address, with options of its own."""

_makers: dict[str, Maker] = {}


def register(name: str, maker: Maker) -> None:
    """From now on there is a protocol of this name."""
    _makers[name] = maker


def opened_one(connection: Any, addresses: dict[str, str | None], options: dict[str, Any]) -> Door | None:
    """Starts the server of the one protocol that has an address; None if none has.

    Raises `InterfaceError` for several addresses, and for options that the protocol does not have.
    """
    named = [(name, address) for name, address in addresses.items() if address is not None]
    if len(named) > 1:
        raise InterfaceError(f"serve() opens one protocol at a time; call it for each of {', '.join(dict(named))}")
    for name, address in named:
        try:
            return _makers[name](connection, address, **options)
        except TypeError as error:
            raise InterfaceError(f"serve({name}=...): {error}") from None
    if options:
        protocols = " or ".join(f"{name}=..." for name in addresses)
        raise InterfaceError(f"{', '.join(options)}: options of a protocol, and none is named; give {protocols}")
    return None
