"""The user behind a call, where the store has users.

| caller | acts as |
|---|---|
| any, of a store without users | all rights |
| has a token of a login (`logins`) | the token's user, also with a server's certificate |
| TLS: certificate of a server or an administrator | all rights |
| TLS: certificate of a client | refused: it needs a user, too |
| no TLS: process of the server's own account, on its machine (`local_owner`) | all rights |
| no TLS: any other | refused |

Without TLS, users are for servers of one machine: a token that is sent in clear over a network could be read there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import field
from typing import Any, Final

from ....errors import AccessDenied, LoginExpired, LoginNeeded
from ....model.access.holders import Holder
from ....model.access.roles import Access
from ....model.access.tokens import Claims, TokenKey, read_token
from ....model.codec.values import reads
from ....model.lazy_dataclass import dataclass
from ..call_context import CallContext
from ..messages import methods, user_methods
from ..messages.access_plain import access_from_plain, access_to_plain, keys_from_plain, keys_to_plain
from .access import NEEDED, Role, role_of
from .local_owner import is_local_owner

OPEN: Final = (methods.GetStatus, user_methods.BeginLogin, user_methods.FinishLogin)
"""Methods that need no user."""
_MOST_TOKENS: Final = 4096
"""Of which the signature is remembered."""


@dataclass(frozen=True, slots=True)
class Rights:
    """Users, grants and the keys of tokens, by which a server checks callers. `version` increases with each change; 0:
    nothing is known, as at a new server."""

    version: int = 0
    access: Access = field(default_factory=Access)
    keys: tuple[TokenKey, ...] = ()

    @property
    def has_users(self) -> bool:
        """True if callers need a user."""
        return self.access.has_users


NO_USERS: Final = Rights()


def rights_to_plain(rights: Rights) -> dict[str, Any]:
    """Returns rights as plain data, for tablet servers: without verifiers."""
    return {
        "version": rights.version,
        "access": access_to_plain(rights.access, with_verifiers=False),
        "keys": keys_to_plain(rights.keys),
    }


@reads("list of rights")
def rights_from_plain(data: Mapping[str, Any]) -> Rights:
    """Returns the rights of `rights_to_plain`."""
    return Rights(data["version"], access_from_plain(data["access"]), keys_from_plain(data["keys"]))


class Users:
    """Finds the users of callers. Thread-safe.

    Parameters
    ----------
    is_secure : bool
        The server accepts only TLS.
    ports : callable
        Returns the ports at which the server accepts connections.
    """

    def __init__(self, is_secure: bool, ports: Callable[[], Collection[int]]):
        self.is_secure = is_secure
        self._ports = ports
        self._verified: dict[tuple[bytes, tuple[TokenKey, ...]], tuple[Claims, float]] = {}
        """Content of a token and the time at which its signature is checked again."""

    def holder(self, context: CallContext, rights: Rights, method: type[Any]) -> Holder | None:
        """Returns the user who calls a method, with its rights; None: all rights.

        Raises
        ------
        LoginNeeded
            The caller has not logged in, and must.
        LoginExpired
            Its token is not valid, or not any more: it has expired, or the user has got another password since.
        AccessDenied
            The method is not for clients, and without TLS nothing else identifies a server.
        """
        if not rights.access.has_users or method in OPEN:
            return None
        if not context.token:
            self._check_without_user(context)
            return None
        claims = self.claims(context.token, rights)
        user = claims.user
        role = rights.access.role(user)
        if role is None or not role.can_login:
            raise LoginNeeded(f"user {user} has been dropped, or is not permitted to log in any more")
        if not claims.is_of(role):
            raise LoginExpired(f"the login of user {user} has been ended: its password was changed, or it was replaced")
        holder = Holder(rights.access, user)
        needed = Role.CLIENT if method is methods.ScanTablet else NEEDED.get(method, Role.SERVER)
        if needed is Role.ADMIN:
            holder.require_superuser(f"the method {method.__name__}")
        elif needed is Role.SERVER and not self.is_secure:
            raise AccessDenied(f"the method {method.__name__} is for servers, and not for user {user}")
        return holder

    def admission(
        self, rights: Callable[[], Rights], check: Callable[[Holder, Any], None]
    ) -> Callable[[Any, CallContext], None]:
        """Returns the check of a server that is made before each handler: `check` is called with the user, if there is
        one, and the request, and raises what forbids it. The handlers find the user at `CallContext.holder`."""

        def admit(method: Any, context: CallContext) -> None:
            now = rights()
            if now.access.has_users:
                context.holder = self.holder(context, now, type(method))
                if context.holder is not None:
                    check(context.holder, method)

        return admit

    def _check_without_user(self, context: CallContext) -> None:
        if self.is_secure:
            role = role_of(context.identity)
            if role is not None and role > Role.CLIENT:
                return
            raise LoginNeeded(
                f"there are users, and the client ({context.identity}) named none: its certificate alone is not enough"
            )
        if not context.is_of_account(self._is_own):
            raise LoginNeeded("there are users, and this client, which runs under another account, named none")

    def _is_own(self, address: str) -> bool:
        return is_local_owner(address, self._ports())

    def claims(self, token: bytes, rights: Rights) -> Claims:
        """Returns the content of a token. Raises `LoginExpired` if it is not valid, or not any more."""
        key = token, rights.keys
        known = self._verified.get(key)
        now = time.time()
        if known is not None and now < known[1]:
            return known[0]
        claims = read_token(token, rights.keys, now)
        if len(self._verified) >= _MOST_TOKENS:
            self._verified.clear()
        # Its expiry is read from it again once a second: a signature costs more than the look-up.
        self._verified[key] = claims, now + 1.0
        return claims
