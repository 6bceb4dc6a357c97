"""The headers of each call: who calls, and which session the call belongs to.

    Handshake, authorization: Basic user:password ──► authorization: Bearer TOKEN      a token for one session
    any call, authorization: Bearer TOKEN                                              the session of that token
    any call, cookie: arrow_flight_session_id=ID                                       the session of that cookie

The password is compared with the SCRAM verifier of the user (`doors.authentication`). Clients that store cookies get
one with each reply that is the first of a session; they lose nothing when their connection is replaced.
"""

from __future__ import annotations

import base64
import contextlib
import logging
import secrets
import threading
from collections import OrderedDict
from http.cookies import CookieError, SimpleCookie
from typing import Any, Final

from pyarrow import flight

from ....errors import AuthenticationFailed, Error, InvalidPassword
from ....model.lazy_dataclass import dataclass
from ...audit import AuditLog
from ...audited import log_refused
from ...authentication import Authentication
from ..session.client_session import ID_BYTES
from ..session.reports import flight_error, sqlstate_of

_logger = logging.getLogger("nyala.doors.flight_sql")

DOOR: Final = "flight_sql"
"""Its name in the audit log."""
MIDDLEWARE: Final = "caller"
COOKIE: Final = "arrow_flight_session_id"
_AUTHORIZATION: Final = "authorization"
_TOKEN_BYTES: Final = 32
_MOST_TOKENS: Final = 10_000
"""Tokens that have not led to a session yet; the oldest are forgotten."""


@dataclass(slots=True)
class Caller:
    """The caller of one call, by its headers.

    Attributes
    ----------
    user : str
        "" if none was named.
    token : str
        "" without a bearer token.
    cookie : bytes
        Id of the session that the client named; empty without a cookie.
    new_id : bytes
        Id for the session if this call begins one. The client has it as its cookie then.
    traceparent : str
        Of the client's trace (W3C Trace Context); "" without one.
    """

    user: str
    token: str
    cookie: bytes
    new_id: bytes
    traceparent: str = ""


class CallerFactory(flight.ServerMiddlewareFactory):  # type: ignore[misc]  # pyarrow has no types
    """Makes the `Caller` of each call, and refuses strangers. Where no password is needed, none is looked at.

    With an audit log, refused calls are logged, without the client's address: Flight does not give it before the call.
    """

    def __init__(self, authenticator: Authentication, audit: AuditLog | None = None):
        super().__init__()
        self._authenticator = authenticator
        self._audit = audit
        self._lock = threading.Lock()
        self._tokens: OrderedDict[str, tuple[str, bool]] = OrderedDict()
        """By token: the user, and whether a password was proved for it."""

    def start_call(self, info: Any, headers: dict[str, list[Any]]) -> CallerMiddleware:
        """See `flight.ServerMiddlewareFactory`."""
        try:
            return self._started(info.method == flight.FlightMethod.HANDSHAKE, headers)
        except Error as error:
            raise flight_error(error) from None

    def _started(self, is_handshake: bool, headers: dict[str, list[Any]]) -> CallerMiddleware:
        given = {name.lower(): [_text(value) for value in values] for name, values in headers.items()}
        try:
            return self._middleware(is_handshake, given)
        except Error as error:
            if self._audit is not None:
                # The call is refused in any case.
                with contextlib.suppress(Error):
                    log_refused(self._audit, DOOR, _user_of(given), "", sqlstate_of(error), str(error))
            raise

    def _middleware(self, is_handshake: bool, given: dict[str, list[str]]) -> CallerMiddleware:
        scheme, _, credentials = next(iter(given.get(_AUTHORIZATION, ())), "").partition(" ")
        user, token, new_token = "", "", ""
        if scheme.lower() == "basic":
            user = self._checked(credentials)
            if is_handshake:
                new_token = self._new_token(user)
        elif scheme.lower() == "bearer" and (known := self._known(credentials)) is not None:
            user, token = known, credentials
        elif self._authenticator.is_needed:
            raise AuthenticationFailed(
                "the token is unknown, or its session has ended; authenticate again"
                if scheme.lower() == "bearer"
                else "this server needs a user and a password"
            )
        cookie = _cookie(given.get("cookie", ()))
        traceparent = next(iter(given.get("traceparent", ())), "")
        return CallerMiddleware(Caller(user, token, cookie, secrets.token_bytes(ID_BYTES), traceparent), new_token)

    def _known(self, token: str) -> str | None:
        """The user of a token; None if it is unknown, or from before a password was needed."""
        user, is_proved = self._tokens.get(token, (None, False))
        return user if is_proved or not self._authenticator.is_needed else None

    def _checked(self, credentials: str) -> str:
        """The user of Basic credentials."""
        try:
            user, password = _decoded(credentials)
        except ValueError:
            raise AuthenticationFailed("the credentials are not user:password in base64") from None
        if self._authenticator.is_needed:
            try:
                self._authenticator.check(user, password)
                self._authenticator.admits_as_user(user)
            except (AuthenticationFailed, InvalidPassword):
                _logger.warning("a client has given a wrong password", extra={"fields": {"user": user[:100]}})
                raise
        return user

    def _new_token(self, user: str) -> str:
        token = secrets.token_urlsafe(_TOKEN_BYTES)
        with self._lock:
            self._tokens[token] = user, self._authenticator.is_needed
            while len(self._tokens) > _MOST_TOKENS:
                self._tokens.popitem(last=False)
        return token

    def forget(self, token: str) -> None:
        """The session of a token has ended."""
        with self._lock:
            self._tokens.pop(token, None)


class CallerMiddleware(flight.ServerMiddleware):  # type: ignore[misc]
    """The caller of a call, and the headers of the reply."""

    def __init__(self, caller: Caller, new_token: str):
        super().__init__()
        self.caller = caller
        self._new_token = new_token

    def sending_headers(self) -> dict[str, str]:
        """See `flight.ServerMiddleware`."""
        headers = {}
        if not self.caller.cookie:
            headers["set-cookie"] = f"{COOKIE}={self.caller.new_id.hex()}; HttpOnly"
        if self._new_token:
            headers[_AUTHORIZATION] = f"Bearer {self._new_token}"
        return headers


class NoHandshake(flight.ServerAuthHandler):  # type: ignore[misc]
    """The middleware has authenticated the caller already: without a handler, Flight refuses the call Handshake."""

    def authenticate(self, outgoing: Any, incoming: Any) -> None:
        """See `flight.ServerAuthHandler`."""

    def is_valid(self, token: bytes) -> bytes:
        """See `flight.ServerAuthHandler`."""
        return b""


def _decoded(credentials: str) -> tuple[str, str]:
    """User and password. Raises `ValueError` if they are not in base64."""
    # Some clients leave the padding out.
    user, _, password = (
        base64.b64decode(credentials + "=" * (-len(credentials) % 4), validate=True).decode().partition(":")
    )
    return user, password


def _user_of(headers: dict[str, list[str]]) -> str:
    """The user that a refused call names; "" if there is none."""
    scheme, _, credentials = next(iter(headers.get(_AUTHORIZATION, ())), "").partition(" ")
    if scheme.lower() != "basic":
        return ""
    try:
        return _decoded(credentials)[0]
    except ValueError:
        return ""


def _text(value: Any) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def _cookie(headers: Any) -> bytes:
    """The session's id in the headers `cookie`; empty if there is none."""
    for header in headers:
        try:
            found = SimpleCookie(header).get(COOKIE)
            session_id = b"" if found is None else bytes.fromhex(found.value)
        except (CookieError, ValueError):
            continue
        if len(session_id) == ID_BYTES:
            return session_id
    return b""
