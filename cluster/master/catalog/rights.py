"""Users and grants beyond the catalog: the conditions of the first user, keys of tokens, and what tablet servers know.

change of users ─► catalog ─► SetRights to all live tablet servers, which check by them from then on
                              (a server that does not reply gets them with the reply to its next heartbeat)
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from ....errors import Error, NotSupportedError, NotTheLeader
from ....model.access.tokens import TokenKey, kept_keys, new_key, signing_key
from ....net.addresses import host_of, is_loopback
from ...wire.call_context import CallContext
from ...wire.calls.rpc import Channels
from ...wire.messages.user_methods import SetRights
from ...wire.security.access import Role, role_of
from ...wire.security.local_owner import is_known_here
from ...wire.security.users import NO_USERS, Rights, rights_to_plain
from ..directory import Server
from ..threads import Callers
from .catalog_changes import keys_changed
from .catalog_manager import CatalogManager
from .catalog_state import CatalogState

SPREAD_SECONDS: Final = 2.0
"""Seconds for a tablet server to confirm new rights; one that is slower gets them with a heartbeat."""
_THREADS: Final = 4
_log = logging.getLogger("nyala.cluster.master")


class MasterRights:
    """See the module's page. Thread-safe.

    Parameters
    ----------
    manager : CatalogManager
    channels : Channels
    is_secure : bool
        The cluster accepts only TLS.
    masters : callable
        Returns the addresses of all masters.
    dead_after : float
        Seconds of silence after which a server is not waited for.
    """

    def __init__(
        self,
        manager: CatalogManager,
        channels: Channels,
        is_secure: bool,
        masters: Callable[[], Sequence[str]],
        dead_after: float,
    ):
        self._manager = manager
        self._channels = channels
        self._is_secure = is_secure
        self._masters = masters
        self._dead_after = dead_after
        self._callers = Callers("master-rights", _THREADS)

    def close(self) -> None:
        """Ends the threads."""
        self._callers.close()

    def rights(self) -> Rights:
        """Returns the present rights; raises `NotTheLeader`."""
        return self._manager.confirmed()[0].rights

    def known_rights(self) -> Rights:
        """Returns the present rights; none, at a master that does not lead and answers no client."""
        try:
            return self._manager.leading()[0].rights
        except NotTheLeader:
            return NO_USERS

    # ---- the first user ----------------------------------------------------------------------------------------------

    def check_users_possible(self, state: CatalogState, after: CatalogState, context: CallContext) -> None:
        """Raises `NotSupportedError` if the cluster cannot have users as it runs: some servers would not check them,
        nothing would protect the tokens, or the caller, whom its certificate alone does not admit any more, could not
        come in again."""
        with self._manager.changed:
            servers = list(self._manager.leading()[1].servers.values())
        old = sorted(server.address for server in servers if not server.checks_rights and not server.is_replaced)
        if old:
            raise NotSupportedError(
                f"a cluster has users when all its tablet servers check their rights; these do not, or have not "
                f"reported yet: {', '.join(old)}"
            )
        if self._is_secure:
            roles = after.catalog.access.all_roles()
            if role_of(context.identity) is Role.CLIENT and not any(r.is_superuser and r.verifier for r in roles):
                raise NotSupportedError(
                    "from the first user on, a client's certificate is not enough: give the superuser a password first "
                    "(ALTER USER nyala PASSWORD '...'), and connect as nyala; or use an administrator's certificate"
                )
            return
        far = sorted(
            each for each in (*self._masters(), *(s.address for s in servers)) if not is_loopback(host_of(each))
        )
        if far:
            raise NotSupportedError(
                f"a cluster of several machines has users only with TLS, and {far[0]} is reached over a network: start "
                "its servers with --tls-ca, --tls-cert and --tls-key (nyala cluster certificates makes the files)"
            )
        if not is_known_here():
            raise NotSupportedError(
                "this system does not list the accounts of connections (/proc/net/tcp), so servers could not tell each "
                "other from clients: start them with --tls-ca, --tls-cert and --tls-key"
            )

    # ---- keys --------------------------------------------------------------------------------------------------------

    def signing_key(self, deadline: float) -> TokenKey:
        """Returns the key for new tokens. A new one is durable, and known to the live tablet servers, before."""
        key = signing_key(self._manager.leading()[0].token_keys, time.time())
        if key is not None:
            return key
        with self._manager.changing(deadline) as state:
            now = time.time()
            key = signing_key(state.token_keys, now)
            if key is None:
                key = new_key(state.token_keys, now)
                self._manager.commit(keys_changed(state, (*kept_keys(state.token_keys, now), key)), deadline)
        self.spread()
        return key

    # ---- tablet servers ----------------------------------------------------------------------------------------------

    def spread(self) -> None:
        """Sends the rights to all live tablet servers, and waits for their replies, `SPREAD_SECONDS` at most."""
        now = self._manager.monotonic()
        with self._manager.changed:
            state, directory = self._manager.leading()
            live = [server for server in directory.servers.values() if now - server.last_heard < self._dead_after]
        plain = rights_to_plain(state.rights)
        replied = threading.Semaphore(0)
        for server in live:
            self._callers.submit(partial(self._send, server, plain, replied))
        end = time.monotonic() + SPREAD_SECONDS
        for _ in live:
            if not replied.acquire(timeout=max(0.0, end - time.monotonic())):
                break

    def _send(self, server: Server, plain: dict[str, Any], replied: threading.Semaphore) -> None:
        try:
            self._channels.get(server.address).call(SetRights(rights=plain), SPREAD_SECONDS)
        except Error as error:
            fields = {"server": server.address, "error": str(error)}
            _log.warning("a tablet server gets new rights with its next heartbeat", extra={"fields": fields})
        finally:
            replied.release()
