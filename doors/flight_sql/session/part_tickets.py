"""Tickets of parts: the tablets of one scan to read, as of which time, for which user, and until when.

    bytes    16   "nyala part 1\\0\\0\\0\\0"; the number is the version of the format
             32   HMAC-SHA256 of the rest, by the server's key
              n   msgpack: a map with the fields of `PartTicket`

A ticket is complete: any server with the same key can answer it, any number of times until it expires, and nothing is
kept for a client that never comes. The signature keeps the times and the user in it as they were issued. It gives no
rights: the reader's are checked as for the query itself, since a part is that query, run again on some tablets.
"""

from __future__ import annotations

import hmac
import time
from dataclasses import asdict, fields
from typing import Final

from ....errors import AccessDenied, InterfaceError
from ....model.codec.packing import pack, unpack
from ....model.lazy_dataclass import dataclass
from ....model.store import Timestamp
from .reports import Refused

MAGIC: Final = b"nyala part 1".ljust(16, b"\0")
LEAST_KEY_BYTES: Final = 16
_MAC_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class PartTicket:
    """One part of a query.

    Attributes
    ----------
    text : str
        The query: one SELECT, whose plan is a scan of one table.
    user : str
        User of the session that has planned it.
    role : str, optional
        The role that the session had set.
    search_path : str, optional
        The session's setting; None: the default.
    snapshot : Timestamp
        The same in all parts of a query.
    table : str
        The table's permanent id.
    tablets : tuple of str
        Ids of the tablets to read.
    expires : float
        Seconds since 1970.
    """

    text: str
    user: str
    role: str | None
    search_path: str | None
    snapshot: Timestamp
    table: str
    tablets: tuple[str, ...]
    expires: float


class TicketKey:
    """Signs tickets and checks them.

    Parameters
    ----------
    key : bytes
        Shared by all servers that answer each other's tickets. Raises `InterfaceError` if it is too short.
    """

    def __init__(self, key: bytes):
        if len(key) < LEAST_KEY_BYTES:
            raise InterfaceError(f"a key for tickets has at least {LEAST_KEY_BYTES} bytes, and this one has {len(key)}")
        self._key = key

    def __repr__(self) -> str:
        return "TicketKey()"

    def signed(self, ticket: PartTicket) -> bytes:
        """The ticket as bytes.

        >>> key = TicketKey(b"a key for doctests")
        >>> ticket = PartTicket("SELECT * FROM t", "ann", None, None, Timestamp(1), "id", ("tablet",), time.time() + 9)
        >>> key.read(key.signed(ticket), "ann") == ticket
        True
        """
        content = pack(asdict(ticket))
        return MAGIC + self._mac(content) + content

    def read(self, data: bytes, user: str) -> PartTicket:
        """The ticket of a reader.

        Raises
        ------
        Refused
            It has expired, is damaged, or was signed with another key.
        AccessDenied
            It was issued to another user.
        """
        mac, content = data[len(MAGIC) : len(MAGIC) + _MAC_BYTES], data[len(MAGIC) + _MAC_BYTES :]
        if not data.startswith(MAGIC) or not hmac.compare_digest(mac, self._mac(content)):
            raise Refused(
                "the ticket was not issued by this server: either it is damaged, or another server has issued it, or "
                "this one before a restart; gateways that answer each other's tickets need one key "
                "(--flight-sql-ticket-key-file)",
                "24000",
            )
        plain = unpack(content)
        ticket = PartTicket(**{field.name: plain[field.name] for field in fields(PartTicket)})
        if ticket.user != user:
            raise AccessDenied("the ticket was issued to another user")
        if time.time() > ticket.expires:
            raise Refused("the ticket has expired: run the query again for new ones", "24000", True)
        return PartTicket(**{**asdict(ticket), "tablets": tuple(ticket.tablets)})

    def _mac(self, content: bytes) -> bytes:
        return hmac.digest(self._key, content, "sha256")
