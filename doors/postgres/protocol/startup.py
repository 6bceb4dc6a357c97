"""From the first byte of a connection to the end of authentication: messages in, events out.

    | state | event | next state |
    |---|---|---|
    | FIRST | the client starts, and needs no password | ENTERED |
    | FIRST | the client starts, and needs a password | MECHANISM |
    | FIRST | it is refused, or was a cancel request | ENDED |
    | MECHANISM | the client chooses SCRAM-SHA-256 and begins | PROOF |
    | MECHANISM | it is refused | ENDED |
    | PROOF | the client's proof is right | ENTERED |
    | PROOF | the client's proof is wrong | ENDED |

A client may request TLS, and encryption by GSSAPI, once each before it starts. What it sends behind a request of TLS
without waiting for the reply is refused: it was not encrypted, and an attacker could have put it there.
"""

from __future__ import annotations

import shlex
import struct
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any, Final, NamedTuple, Protocol

from ....errors import AuthenticationFailed, Error, ProtocolError
from ....model.state_table import StateTable
from . import frontend, replies

NEWEST_MINOR: Final = 2
SCRAM: Final = "SCRAM-SHA-256"


class State(Enum):
    """State of the start-up; the table is on the module's page."""

    FIRST = "first"
    MECHANISM = "mechanism"
    PROOF = "proof"
    ENTERED = "entered"
    ENDED = "ended"


_S = State
STATES = StateTable(
    _S.FIRST,
    {
        (_S.FIRST, "the client starts, and needs no password"): _S.ENTERED,
        (_S.FIRST, "the client starts, and needs a password"): _S.MECHANISM,
        (_S.FIRST, "it is refused, or was a cancel request"): _S.ENDED,
        (_S.MECHANISM, "the client chooses SCRAM-SHA-256 and begins"): _S.PROOF,
        (_S.MECHANISM, "it is refused"): _S.ENDED,
        (_S.PROOF, "the client's proof is right"): _S.ENTERED,
        (_S.PROOF, "the client's proof is wrong"): _S.ENDED,
    },
)


class Send(NamedTuple):
    """Bytes for the client."""

    data: bytes


class StartTls(NamedTuple):
    """The next bytes in both directions are TLS."""


class Cancel(NamedTuple):
    """Cancel the statement of another connection, then end this one."""

    process: int
    key: bytes


class Enter(NamedTuple):
    """The client is who it says it is: its parameters and the minor version of the protocol."""

    parameters: Mapping[str, str]
    minor: int


class End(NamedTuple):
    """Send these bytes and end the connection; `reason` and `sqlstate` are for the log."""

    data: bytes
    reason: str
    sqlstate: str = ""


Event = Send | StartTls | Cancel | Enter | End


class Exchange(Protocol):
    """One client's SCRAM exchange. Both methods raise `InvalidPassword`."""

    def first(self, message: str) -> str:
        """Returns the server's first message for the client's."""

    def final(self, message: str) -> str:
        """Checks the client's proof, and returns the server's."""


class Authenticator(Protocol):
    """Checks passwords."""

    def exchange(self, user: str) -> Exchange | None:
        """Begins with a client that names a user; None: it needs no password."""


class StartUp:
    """The start-up of one client.

    Parameters
    ----------
    has_tls : bool
        TLS is offered.
    needs_tls : bool
        Clients without TLS are refused.
    authenticator : Authenticator, optional
        None: no password is needed.
    """

    def __init__(self, has_tls: bool, needs_tls: bool, authenticator: Authenticator | None):
        self._has_tls = has_tls
        self._needs_tls = needs_tls
        self._authenticator = authenticator
        self._state = STATES.first
        self._is_encrypted = False
        self._requests: set[type] = set()
        self._started: frontend.Startup | None = None
        self._exchange: Exchange | None = None

    @property
    def is_authenticated(self) -> bool:
        """True if the client has proved a password."""
        return self._exchange is not None

    @property
    def user(self) -> str:
        """The user that the client has named; empty before."""
        return "" if self._started is None else self._started.parameters.get("user", "")

    @property
    def is_over(self) -> bool:
        """True once the client has entered or was refused."""
        return self._state in (State.ENTERED, State.ENDED)

    def note_tls(self) -> None:
        """The connection is encrypted, or has begun its handshake."""
        self._is_encrypted = True

    def take(self, message: Any, has_more: bool = False) -> Iterator[Event]:
        """Processes a message. `has_more`: bytes behind it have been received already."""
        try:
            if self._state is State.FIRST:
                yield from self._first(message, has_more)
            elif not isinstance(message, frontend.AuthenticationReply):
                raise ProtocolError("a password message is expected")
            elif self._state is State.MECHANISM:
                yield from self._begin(message.body)
            elif self._state is State.PROOF:
                yield from self._finish(message.body)
        except Error as error:
            yield self.refusal(error)

    def refusal(self, error: Error, sqlstate: str = "") -> End:
        """The end for an error."""
        self._to(State.ENDED)
        report = replies.Report("FATAL", sqlstate or error.sqlstate, str(error))
        return End(replies.error_response(report), str(error), report.sqlstate)

    def _to(self, state: State) -> None:
        self._state = STATES.checked(self._state, state)

    # ---- before the start ------------------------------------------------------------------------------------------

    def _first(self, message: Any, has_more: bool) -> Iterator[Event]:
        if isinstance(message, frontend.SslRequest | frontend.GssRequest):
            if type(message) in self._requests or self._is_encrypted:
                raise ProtocolError("encryption was requested before")
            self._requests.add(type(message))
            if isinstance(message, frontend.SslRequest) and self._has_tls:
                if has_more:
                    raise ProtocolError("data behind the request of TLS that is not encrypted")
                self._is_encrypted = True
                yield Send(replies.TLS_ACCEPTED)
                yield StartTls()
            else:
                yield Send(replies.REFUSED)
        elif isinstance(message, frontend.CancelRequest):
            self._to(State.ENDED)
            yield Cancel(message.process, message.key)
        elif isinstance(message, frontend.Startup):
            yield from self._start(message)
        else:
            raise ProtocolError("this is no start-up message of a PostgreSQL client")

    def _start(self, message: frontend.Startup) -> Iterator[Event]:
        if message.major != 3:
            raise ProtocolError(
                f"protocol {message.major}.{message.minor} is not supported: the server has 3.0 and 3.2"
            )
        if self._needs_tls and not self._is_encrypted:
            raise AuthenticationFailed("this server accepts only encrypted connections: set sslmode=require")
        if not message.parameters.get("user"):
            raise AuthenticationFailed("the start-up message names no user")
        if message.parameters.get("replication", "false").lower() not in ("false", "off", "no", "0"):
            raise ProtocolError("replication connections are not supported")
        unknown = [name for name in message.parameters if name.startswith("_pq_.")]
        minor = message.minor if message.minor in (0, NEWEST_MINOR) else min(message.minor - 1, NEWEST_MINOR)
        self._started = frontend.Startup(3, minor, message.parameters)
        if unknown or minor != message.minor:
            yield Send(replies.negotiate_version(minor, unknown))
        if self._authenticator is not None:
            self._exchange = self._authenticator.exchange(message.parameters["user"])
        if self._exchange is None:
            yield from self._enter()
            return
        self._to(State.MECHANISM)
        yield Send(replies.sasl_mechanisms([SCRAM]))

    # ---- passwords -------------------------------------------------------------------------------------------------

    def _begin(self, body: bytes) -> Iterator[Event]:
        mechanism, _, rest = body.partition(b"\0")
        if mechanism != SCRAM.encode() or len(rest) < 4:
            raise AuthenticationFailed(f"the client did not choose {SCRAM}")
        (size,) = struct.unpack_from("!i", rest)
        if size != len(rest) - 4:
            raise ProtocolError("a SASL message has an invalid length")
        assert self._exchange is not None
        reply = self._exchange.first(_utf8(rest[4:]))
        self._to(State.PROOF)
        yield Send(replies.sasl_continue(reply))

    def _finish(self, body: bytes) -> Iterator[Event]:
        assert self._exchange is not None
        yield Send(replies.sasl_final(self._exchange.final(_utf8(body))))
        yield from self._enter()

    def _enter(self) -> Iterator[Event]:
        assert self._started is not None
        self._to(State.ENTERED)
        yield Send(replies.AUTHENTICATED)
        yield Enter(self._started.parameters, self._started.minor)


def _utf8(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ProtocolError("a SASL message is not UTF-8") from None


def command_line_settings(options: str) -> dict[str, str]:
    """The settings of the start-up parameter `options`. Raises `ProtocolError` for anything else.

    >>> command_line_settings("-c statement_timeout=5s --application_name=report")
    {'statement_timeout': '5s', 'application_name': 'report'}
    """
    found: dict[str, str] = {}
    try:
        words = iter(shlex.split(options))
    except ValueError as error:
        raise ProtocolError(f"the start-up options cannot be read: {error}") from None
    for word in words:
        if word == "-c":
            word = "--" + next(words, "")
        elif word.startswith("-c"):
            word = "--" + word[2:]
        name, mark, value = word[2:].partition("=")
        if not word.startswith("--") or not mark:
            raise ProtocolError(f"the start-up option {word} is not supported: -c name=value is")
        found[name.replace("-", "_").lower()] = value
    return found
