"""The sessions of all clients.

A call's session is the one of its cookie, else of its bearer token, else of its connection. What a handle belongs to is
found by the handle alone, since it begins with the session's id, which is random: a result may be read by another
connection than the one that has run the query, if it has the same user.

A session ends by CloseSession, by being idle, and some seconds after the last connection that has used it is closed.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

from ....errors import AccessDenied, Error
from ..session.client_session import ID_BYTES, ClientSession
from ..session.reports import Refused
from .authentication import Caller

_logger = logging.getLogger("nyala.doors.flight_sql")

GRACE_SECONDS: Final = 5.0
"""Seconds without any connection after which a session ends. A client with a cookie or a token may connect again."""


class Sessions:
    """The sessions, by all that leads to them. Thread-safe.

    Parameters
    ----------
    open_session : callable
        Makes a session for an id, a user, and the address of the client.
    most : int
        Limit of sessions.
    token_ended : callable
        Called with the token of a session that has ended.
    note_refused : callable
        Called with user, address and error of a client that gets no session.
    """

    def __init__(
        self,
        open_session: Callable[[bytes, str, str], ClientSession],
        most: int,
        token_ended: Callable[[str], None],
        note_refused: Callable[[str, str, Error], None],
    ):
        self._open_session = open_session
        self._most = most
        self._token_ended = token_ended
        self._note_refused = note_refused
        # Guards the three dictionaries.
        self._lock = threading.Lock()
        self._by_id: dict[bytes, ClientSession] = {}
        self._by_token: dict[str, ClientSession] = {}
        self._by_peer: dict[tuple[str, str], ClientSession] = {}
        """By address and user: for clients without cookie and token."""
        self.used = time.monotonic()
        """When a session last began or ended."""

    def __len__(self) -> int:
        return len(self._by_id)

    def of(self, caller: Caller, peer: str) -> ClientSession:
        """The session of a call from an address. Raises `Refused` if there are too many."""
        with self._lock:
            session = self._known(caller, peer)
            if session is None:
                try:
                    session = self._new(caller, peer)
                except Error as error:
                    self._note_refused(caller.user, peer, error)
                    raise
            session.peers.add(peer)
            return session

    def _known(self, caller: Caller, peer: str) -> ClientSession | None:
        found = self._by_id.get(caller.cookie)
        if found is not None and found.user == caller.user:
            return found
        if caller.token:
            return self._by_token.get(caller.token)
        return self._by_peer.get((peer, caller.user))

    def _new(self, caller: Caller, peer: str) -> ClientSession:
        if len(self._by_id) >= self._most:
            raise Refused("there are too many sessions already", "53300", retryable=True)
        # A cookie of a session that has ended goes on as the id of the new one: the client does not get another.
        session_id = caller.cookie if self._is_free(caller.cookie) else caller.new_id
        session = self._open_session(session_id, caller.user, peer)
        self.used = time.monotonic()
        self._by_id[session.id] = session
        if caller.token:
            self._by_token[caller.token] = session
        else:
            self._by_peer[peer, caller.user] = session
        return session

    def _is_free(self, cookie: bytes) -> bool:
        return bool(cookie) and cookie not in self._by_id

    def by_handle(self, handle: bytes, caller: Caller, peer: str) -> ClientSession:
        """The session that a handle belongs to; that of the call if there is none any more, which then refuses it.

        Raises `AccessDenied` if it is another user's.
        """
        session = self._by_id.get(handle[:ID_BYTES])
        if session is None:
            return self.of(caller, peer)
        if session.user != caller.user:
            raise AccessDenied("the handle belongs to another user")
        session.peers.add(peer)
        return session

    def end(self, session: ClientSession) -> None:
        """Ends a session."""
        with self._lock:
            self._by_id.pop(session.id, None)
            self._by_peer = {key: found for key, found in self._by_peer.items() if found is not session}
            tokens = [token for token, found in self._by_token.items() if found is session]
            for token in tokens:
                del self._by_token[token]
            self.used = time.monotonic()
        for token in tokens:
            self._token_ended(token)
        try:
            session.close()
        except Exception:
            _logger.exception("a session could not be closed")

    def all(self) -> list[ClientSession]:
        """The sessions that there are."""
        with self._lock:
            return list(self._by_id.values())

    def sweep(self, connected: frozenset[str] | None) -> None:
        """Ends idle sessions, and those whose connections are all closed. `connected`: addresses of open connections;
        None: unknown."""
        now = time.monotonic()
        for session in self.all():
            is_idle = session.end_idle(now)
            if connected is not None and not session.is_busy and not session.peers & connected:
                is_idle = is_idle or now - session.used > GRACE_SECONDS
            if is_idle:
                self.end(session)
            elif connected is not None:
                with self._lock:
                    # The one that has just been added may be missing among the connected ones still.
                    if now - session.used > GRACE_SECONDS:
                        session.peers &= connected

    def close(self) -> None:
        """Ends all sessions."""
        for session in self.all():
            self.end(session)
