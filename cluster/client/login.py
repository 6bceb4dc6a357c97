"""The login of a client: a password becomes a token, which is renewed before it expires.

    Login ─► BeginLogin, FinishLogin at the leading master ─► token ─► each request (`wire.calls.rpc`)
      ▲                                                         │
      └── half of its life is over, or a server refused it ◄────┘

The password is in memory only. A thread renews the token, so that a server's refusal delays requests, which are sent
again, and loses none.

Processes that work for a client, such as Spark's tasks, have no password, but a token of their own:

    Login ─► MakeTaskToken ─► token, valid for a day at most ─► TaskLogin in another process ─► each request
"""

from __future__ import annotations

import logging
import threading
import time
from typing import Final

from ...errors import AccessDenied, Error, InvalidPassword, LoginNeeded
from ...model.access.scram import ClientExchange
from ...model.access.tokens import token_expiry, token_user
from ..wire.calls.rpc import TokenSource
from ..wire.messages.user_methods import (
    BeginLogin,
    FinishLogin,
    LoginChallenge,
    LoginReply,
    MakeTaskToken,
    TaskTokenReply,
)
from .catalog.masters import Masters
from .options import ClientOptions

LEAST_SECONDS: Final = 0.5
"""Seconds between two logins, however often servers refuse the token."""
LONGEST_WAIT: Final = 60.0
"""Seconds after which the clock is looked at again: a machine may have been suspended."""
FRESH: Final = 0.1
"""Part of a task token's life during which it is given to further tasks."""
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
        self._task_token = b"", 0.0, 0.0
        """The last token for tasks, the seconds that were requested for it, and the time until which it is fresh."""
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
        self._task_token = b"", 0.0, 0.0  # that of another password is not accepted any more
        self._renew_at = time.time() + reply.seconds / 2

    def task_token(self, seconds: float, deadline: float) -> bytes:
        """Returns a token for tasks that is valid for about `seconds`, or what servers allow. Raises `LoginNeeded` or
        `LoginExpired` if the user's login has ended, or `DeadlineExceeded` after `deadline` seconds."""
        token, requested, until = self._task_token
        if token and requested == seconds and time.time() < until:
            return token
        what = f"a token for tasks of user {self.user}"
        reply = self._masters.call(MakeTaskToken(seconds=seconds), TaskTokenReply, what, seconds=deadline)
        self._task_token = reply.token, seconds, time.time() + reply.seconds * FRESH
        return reply.token

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


class TaskLogin(TokenSource):
    """The login of a process that has a token for tasks, and no password: the token is not renewed. Thread-safe.

    Parameters
    ----------
    token : bytes
        Of `Login.task_token`, in another process. Raises `LoginExpired` if it is malformed.
    """

    def __init__(self, token: bytes):
        self.user = token_user(token)
        self.token = token
        self._expiry = token_expiry(token)

    def __repr__(self) -> str:
        return f"TaskLogin({self.user!r})"

    def log_in(self, seconds: float, patience: float | None = None) -> None:
        """Raises `LoginNeeded` if the token has expired."""
        if self._expiry <= time.time():
            self.note_refused()
            assert self.refusal is not None
            raise self.refusal

    def task_token(self, seconds: float, deadline: float) -> bytes:
        """Returns the same token for further tasks."""
        return self.token

    def note_refused(self) -> None:
        """See `TokenSource`."""
        if self._expiry <= time.time():
            told = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(self._expiry))
            why = f"has expired at {told} UTC; start the work again, which gets a new one"
        else:
            why = "was refused: the user has another password since, or may not log in, or the servers have new keys"
        self.refusal = LoginNeeded(f"the token for tasks of user {self.user} {why}")

    def start(self) -> None:
        """Does nothing: there is nothing to renew."""

    def stop(self) -> None:
        """Does nothing."""


def login_with(masters: Masters, options: ClientOptions) -> Login | TaskLogin | None:
    """The login that a client's options name; None if they name none."""
    if options.token is not None:
        return TaskLogin(options.token)
    return None if options.user is None else Login(masters, options.user, options.password or "")
