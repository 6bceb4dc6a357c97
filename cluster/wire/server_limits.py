"""Limits on the concurrent work of a server."""

from __future__ import annotations

from typing import Final

from ...model.lazy_dataclass import dataclass
from ...net.listener import MOST_CONNECTIONS
from .messages.envelope import MAX_BODY_BYTES, MAX_MESSAGE_BYTES, MAX_TICKET_BYTES
from .messages.methods import Request, Write, WriteRow
from .messages.transaction_methods import Decide, PrepareWrite, Resolve, StageWrite
from .security.receive_guard import ALL_BYTES, CONNECTION_BYTES


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits on concurrent work of a server. `growing` are the methods that need memory which they do not release;
    `ending` those that other calls wait for: they have threads of their own, and when all other places are taken they
    are accepted beyond `calls`, again up to this number.
    `client_calls` are those of one connection. `streams` counts abandoned scans too, until their readers go away: each
    has a thread of gRPC. `incomplete_bytes` are what all connections may have sent of incomplete messages;
    `connection_bytes` and `all_bytes` the same for scans, whose messages gRPC receives (`security.receive_guard`)."""

    calls: int = 256
    client_calls: int = 192
    scans: int = 64
    streams: int = 256
    connections: int = MOST_CONNECTIONS
    body_bytes: int = MAX_BODY_BYTES
    message_bytes: int = MAX_MESSAGE_BYTES
    incomplete_bytes: int = ALL_BYTES
    ticket_bytes: int = MAX_TICKET_BYTES
    connection_bytes: int = CONNECTION_BYTES
    all_bytes: int = ALL_BYTES
    idle_scan_seconds: float = 60.0
    growing: frozenset[type[Request]] = frozenset({Write, WriteRow, PrepareWrite, StageWrite})
    ending: frozenset[type[Request]] = frozenset({Decide, Resolve})


DEFAULT_LIMITS: Final = Limits()
