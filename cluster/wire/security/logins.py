"""Logins: a user proves its password, by SCRAM-SHA-256, and gets a token.

A name that is no user, or has no password, gets an exchange that looks like any other and fails at its end. The state
of an exchange is with the client, signed with a secret of the cluster: user, nonce and time of its begin.

A client that has logged in gets a further token for tasks: processes that work for it, and have no password.
"""

from __future__ import annotations

import hmac
import logging
import secrets
import time
from collections.abc import Callable
from typing import Final

import msgspec

from ....errors import AccessDenied, InvalidPassword, LoginNeeded
from ....model.access.passwords import Verifier, is_expired, login_failure, mock_verifier, read_verifier, signature
from ....model.access.roles import Role
from ....model.access.scram import ServerExchange, new_nonce
from ....model.access.tokens import TASK_SECONDS, TOKEN_SECONDS, TokenKey, TokenKind, make_token
from ....net.addresses import host_of, is_loopback
from ...decoders import msgpack_decoder
from ..call_context import CallContext
from ..messages.user_methods import (
    BeginLogin,
    FinishLogin,
    LoginChallenge,
    LoginReply,
    MakeTaskToken,
    TaskTokenReply,
)
from .users import Rights, Users

EXCHANGE_SECONDS: Final = 30.0
"""Seconds that a client has for its proof."""
_MAC_BYTES: Final = 32
_logger = logging.getLogger("nyala.cluster.audit")


class _State(msgspec.Struct, array_like=True, frozen=True):
    user: str
    nonce: str
    began: float


_decoder = msgpack_decoder(_State)


class Logins:
    """The methods for logins. Thread-safe.

    Parameters
    ----------
    rights : callable
        Returns the present rights; raises, at a master that does not lead.
    key : callable
        Returns the key for new tokens, by a deadline of `time.monotonic`.
    users : Users
        Finds the users of callers.
    seconds : float
        Life of a token.
    """

    def __init__(
        self,
        rights: Callable[[], Rights],
        key: Callable[[float], TokenKey],
        users: Users,
        seconds: float = TOKEN_SECONDS,
    ):
        self._seconds = seconds
        self._rights = rights
        self._key = key
        self._users = users
        self._secret = secrets.token_bytes(_MAC_BYTES)

    def begin(self, request: BeginLogin, context: CallContext) -> LoginChallenge:
        """Handles `BeginLogin`."""
        if not self._users.is_secure and not is_loopback(host_of(context.address)):
            raise AccessDenied("logins over a network need TLS: start the servers with --tls-ca, --tls-cert, --tls-key")
        rights = self._checked_rights()
        state = _State(request.user, new_nonce(), time.time())
        message = self._exchange(state, rights).first(request.message)
        content = msgspec.msgpack.encode(state)
        return LoginChallenge(message=message, state=content + self._sealed(content, request.message, context))

    def finish(self, request: FinishLogin, context: CallContext) -> LoginReply:
        """Handles `FinishLogin`. Raises `InvalidPassword`, whatever was wrong."""
        content, mac = request.state[:-_MAC_BYTES], request.state[-_MAC_BYTES:]
        try:
            if not hmac.compare_digest(mac, self._sealed(content, request.message, context)):
                raise InvalidPassword(login_failure(request.user))
            state: _State = _decoder.decode(content)
            if state.user != request.user or not 0 <= time.time() - state.began <= EXCHANGE_SECONDS:
                raise InvalidPassword(login_failure(request.user))
            rights = self._checked_rights()
            exchange = self._exchange(state, rights)
            exchange.first(request.message)
            message = exchange.final(request.proof)
            role = rights.access.role(state.user)
            if role is None or not role.can_login or is_expired(role):
                raise InvalidPassword(login_failure(request.user))
        except InvalidPassword:
            _logger.warning("login refused", extra={"fields": {"user": request.user, "from": context.address}})
            raise
        seconds = _remaining(role, self._seconds)
        token = make_token(role, time.time() + seconds, self._key(context.deadline))
        _logger.info("login", extra={"fields": {"user": request.user, "from": context.address}})
        return LoginReply(message=message, token=token, seconds=seconds)

    def make_task_token(self, request: MakeTaskToken, context: CallContext) -> TaskTokenReply:
        """Handles `MakeTaskToken`."""
        rights = self._checked_rights()
        holder = self._users.holder(context, rights, MakeTaskToken)
        role = None if holder is None else rights.access.role(holder.user)
        if role is None:
            raise LoginNeeded("the caller has all rights and no user, so there is no token for its tasks")
        if self._users.claims(context.token, rights).kind is not TokenKind.LOGIN:
            raise AccessDenied("a token for tasks makes no other: log in with the password")
        if not request.seconds > 0:
            raise AccessDenied(f"a token for tasks is valid for some seconds, and not for {request.seconds:g}")
        seconds = _remaining(role, min(request.seconds, TASK_SECONDS))
        token = make_token(role, time.time() + seconds, self._key(context.deadline), TokenKind.TASK)
        fields = {"user": role.name, "from": context.address, "seconds": seconds}
        _logger.info("token for tasks", extra={"fields": fields})
        return TaskTokenReply(token=token, seconds=seconds)

    def _checked_rights(self) -> Rights:
        rights = self._rights()
        if not rights.has_users:
            raise LoginNeeded("there are no users here: connect without a user, and create one")
        return rights

    def _exchange(self, state: _State, rights: Rights) -> ServerExchange:
        role = rights.access.role(state.user)
        verifier: Verifier | None = None if role is None else read_verifier(role.verifier)
        return ServerExchange(
            verifier or mock_verifier(state.user, self._hidden(rights)), state.nonce, login_failure(state.user)
        )

    def _hidden(self, rights: Rights) -> bytes:
        """Returns the secret of exchanges that fit no password: the same at each master of a cluster."""
        return signature(rights.keys[0].secret, b"mock") if rights.keys else self._secret

    def _sealed(self, content: bytes, message: str, context: CallContext) -> bytes:
        return signature(self._key(context.deadline).secret, b"exchange" + content + b"\0" + message.encode())


def _remaining(role: Role, seconds: float) -> float:
    """Seconds for which a new token is valid: not longer than the role's password."""
    return seconds if role.valid_until is None else min(seconds, role.valid_until / 1e6 - time.time())
