"""The login of a client: a password becomes a token, which is renewed before it expires.

    Login ─► BeginLogin, FinishLogin at the leading master ─► token ─► each request (`wire.calls.rpc`)
      ▲                                                         │
      └── half of its life is over, or a server refused it ◄────┘

The password is in memory only. A thread renews the token, so that a server's refusal delays requests, which are sent
again, and loses none.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import Final

from ...errors import AccessDenied, Error, InvalidPassword
from ...model.access.scram import ClientExchange
from ..wire.calls.rpc import TokenSource
from ..wire.messages.user_methods import BeginLogin, FinishLogin, LoginChallenge, LoginReply
from .catalog.masters import Masters

LEAST_SECONDS: Final = 0.5
"""Seconds between two logins, however often servers refuse the token."""
LONGEST_WAIT: Final = 60.0
"""Seconds after which the clock is looked at again: a machine may have been suspended."""
_log = logging.getLogger("nyala.client")


class Login(TokenSource):
    """A user who has logged in. Thread-safe.

    Parameters
    ----------
    masters : Masters
    user, password : str
    """

    def __init__(self, masters: Masters, user: str, password: str):
        self.user = user
        self.token = b""
        self._masters = masters
        self._password = password
        self._renew_at = 0.0
        """Seconds since 1970."""
        self._due = threading.Event()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def __repr__(self) -> str:
        return f"Login({self.user!r})"

    def log_in(self, seconds: float, patience: float | None = None) -> None:
        """Logs in. Raises `InvalidPassword` for a wrong name or password, `AccessDenied` where servers accept no logins
        without TLS, or `DeadlineExceeded` after these seconds."""
        what = f"the login of user {self.user}"
        exchange = ClientExchange(self._password)
        first = exchange.first()
        begin = BeginLogin(user=self.user, message=first)
        challenge = self._masters.call(begin, LoginChallenge, what, seconds=seconds, patience=patience)
        finish = FinishLogin(
            user=self.user, message=first, state=challenge.state, proof=exchange.final(challenge.message)
        )
        reply = self._masters.call(finish, LoginReply, what, seconds=seconds)
        exchange.check(reply.message)
        self.token, self.refusal = reply.token, None
        self._renew_at = time.time() + reply.seconds / 2

    def start(self) -> None:
        """Renews the token from now on."""
        self._thread = threading.Thread(target=self._run, name="nyala-client-login", daemon=True)
        self._thread.start()

    def note_refused(self) -> None:
        """See `TokenSource`."""
        self._renew_at = 0.0
        self._due.set()

    def stop(self) -> None:
        """Ends the thread."""
        self._stopped.set()
        self._due.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        pause = 0.0
        while not self._stopped.wait(pause):
            self._due.wait(min(LONGEST_WAIT, max(0.0, self._renew_at - time.time())))
            self._due.clear()
            pause = 0.0
            if self._stopped.is_set() or time.time() < self._renew_at:
                continue
            pause = LEAST_SECONDS
            try:
                self.log_in(LONGEST_WAIT)
            except Error as error:
                # Requests end with this as soon as the token has expired, in place of waiting for another one.
                self.refusal = error if isinstance(error, InvalidPassword | AccessDenied) else None
                if not self._stopped.is_set():
                    fields = {"user": self.user, "error": str(error)}
                    _log.warning("a login could not be renewed", extra={"fields": fields})
