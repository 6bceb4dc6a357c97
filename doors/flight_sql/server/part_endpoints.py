"""Endpoints of queries that several readers share: tickets as bytes, and the servers that can answer them.

Without further servers an endpoint has no location: the connection that has run GetFlightInfo, or another one to the
same address. Gateways that share a key name each other; each endpoint begins with another one of them, and has the
rest for readers that cannot connect to the first.
"""

from __future__ import annotations

import secrets
from typing import Final

import pyarrow as pa
from pyarrow import flight

from ....driver.session.session import Session
from ..session.part_tickets import LEAST_KEY_BYTES, PartTicket, TicketKey
from .options import FlightSqlOptions

_NANOSECONDS: Final = 1_000_000_000


class PartEndpoints:
    """Makes the endpoints of a server, and reads their tickets.

    Parameters
    ----------
    options : FlightSqlOptions
        Of which it uses `ticket_key` and `locations`. Raises `InterfaceError` if the key is too short.
    """

    def __init__(self, options: FlightSqlOptions):
        self._key = TicketKey(
            secrets.token_bytes(LEAST_KEY_BYTES) if options.ticket_key is None else options.ticket_key
        )
        self._locations = options.locations

    def endpoint(self, number: int, ticket: PartTicket) -> flight.FlightEndpoint:
        """The endpoint of the part of this number of its query."""
        first = number % len(self._locations) if self._locations else 0
        expires = pa.scalar(int(ticket.expires * _NANOSECONDS), pa.timestamp("ns", "UTC"))
        return flight.FlightEndpoint(
            self._key.signed(ticket), [*self._locations[first:], *self._locations[:first]], expires
        )

    def read(self, data: bytes, reader: Session) -> PartTicket:
        """The ticket that a session is to read; errors as of `TicketKey.read`."""
        identity = reader.identity
        return self._key.read(data, "" if identity is None else identity.user)
