"""Copies of the system tablet between masters: remote bootstrap (`tablets.bootstrap`), both sides.

leader: on_bootstrap ──StartBootstrap──► a master without the catalog, or behind the leader's log
        sources      ◄──BeginBootstrap, ReadFile, ..., EndBootstrap── copies, and opens
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from ....errors import ClusterError, ConfigurationRefused, Error, ReplicaUnavailable, ServerUnavailable
from ...raft.messages import Peer
from ...tablets.bootstrap import BootstrapSources, copy_replica
from ...tablets.replica import Replica
from ...wire.call_context import CallContext
from ...wire.calls.rpc import Channels
from ...wire.messages.methods import (
    BeginBootstrap,
    BootstrapSession,
    Done,
    EndBootstrap,
    FileChunk,
    ReadFile,
    Reply,
    ReportTablets,
    Request,
    StartBootstrap,
)
from ..threads import Callers
from .system_tablet import TABLET_ID, SystemTablet

_ASK_SECONDS = 5.0
_CALL_SECONDS = 60.0
_log = logging.getLogger("nyala.cluster.master")


def others_have_catalog(channels: Channels, addresses: Iterable[str], seconds: float = 2.0) -> bool:
    """True if other masters have a log of the system tablet. A master that is created only now has then been created
    before and lost its files, or is late: an empty voter could outvote acknowledged entries.

    Masters that do not respond are not counted: a master must be created again only while the others are running.
    """
    for address in addresses:
        try:
            reports = channels.get(address).call(ReportTablets(tablet_ids=(TABLET_ID,)), seconds).tablets
        except ClusterError:
            continue
        if any(report.last_index > 0 for report in reports):
            return True
    return False


class SystemCopies:
    """Copies of the system tablet; see the module's page. Thread-safe.

    Parameters
    ----------
    peer : Peer
        This master.
    """

    def __init__(self, tablet: SystemTablet, channels: Channels, peer: Peer):
        self.sources = BootstrapSources()
        self._tablet = tablet
        self._channels = channels
        self._peer = peer
        self._is_copying = threading.Lock()
        """Held while a copy replaces this master's replica."""
        self._asked: set[str] = set()
        """Masters with a request to copy in progress."""
        self._callers = Callers("master-copy", 3)

    @property
    def handlers(self) -> Mapping[type[Request], Callable[[Any, CallContext], Reply]]:
        """Returns the handlers of its methods."""
        return {
            StartBootstrap: self._start,
            BeginBootstrap: self._begin,
            ReadFile: self._read,
            EndBootstrap: self._end,
        }

    def close(self) -> None:
        """Stops; a copy in progress ends with its next part."""
        self._callers.close()
        self.sources.close()

    # ---- from here -------------------------------------------------------------------------------------------------

    def ask(self, replica: Replica, peer: Peer) -> None:
        """As leader, requests that another master copies this one's replica."""
        if peer.id not in self._asked:
            self._asked.add(peer.id)
            self._callers.submit(partial(self._ask, replica, peer))

    def _ask(self, replica: Replica, peer: Peer) -> None:
        term = replica.consensus.status().term
        request = StartBootstrap(tablet=replica.description, source=self._peer, term=term)
        try:
            self._channels.get(peer.address).call(request, _ASK_SECONDS)
        except ClusterError as error:
            _log.info(
                "a master did not accept the request to copy",
                extra={"fields": {"to": peer.address, "error": str(error)}},
            )
        finally:
            self._asked.discard(peer.id)

    def _begin(self, request: BeginBootstrap, context: CallContext) -> BootstrapSession:
        replica = self._tablet.replica
        if request.tablet_id != TABLET_ID or replica is None:
            raise ReplicaUnavailable(f"this master has no tablet {request.tablet_id}")
        self.sources.expire()
        return self.sources.begin(replica, request.receiver)

    def _read(self, request: ReadFile, context: CallContext) -> FileChunk:
        return self.sources.read(request)

    def _end(self, request: EndBootstrap, context: CallContext) -> Done:
        self.sources.end(request.session)
        return Done()

    # ---- to here ---------------------------------------------------------------------------------------------------

    def _start(self, request: StartBootstrap, context: CallContext) -> Done:
        if request.tablet.id != TABLET_ID:
            raise ReplicaUnavailable(f"this master has no tablet {request.tablet.id}")
        replica = self._tablet.replica
        if replica is not None and replica.consensus.status().term > request.term:
            raise ConfigurationRefused(f"the leader of term {request.term} is outdated")
        if not self._is_copying.locked():
            self._callers.submit(partial(self._copy, request.source))
        return Done()

    def _copy(self, source: Peer) -> None:
        """Copies and opens; if that fails, the leader repeats its request."""
        if not self._is_copying.acquire(blocking=False):
            return
        began = time.monotonic()
        try:
            channel = self._channels.get(source.address)

            def call(request: Request) -> Any:
                reply = channel.call(request, _CALL_SECONDS)
                if isinstance(reply, BootstrapSession):
                    self._make_way(reply)
                return reply

            with self._tablet.work_lock:
                copy_replica(
                    call, TABLET_ID, self._peer.id, self._tablet.fs, self._tablet.directory, check=self._check_open
                )
                self._check_open()
                self._tablet.open()
        except Error as error:
            _log.warning("copy aborted", extra={"fields": {"source": source.address, "error": str(error)}})
        except Exception:
            _log.exception("copy aborted")
        else:
            _log.info("copied", extra={"fields": {"source": source.address, "seconds": time.monotonic() - began}})
        finally:
            self._is_copying.release()

    def _check_open(self) -> None:
        if self._callers.is_closed:
            raise ServerUnavailable("the master is shutting down")

    def _make_way(self, session: BootstrapSession) -> None:
        """Checks, once the source is ready, that a copy is needed, and closes the replica that it replaces."""
        replica = self._tablet.replica
        if replica is None:
            return
        has_base = replica.consensus.term_at(session.base_index) == session.base_term
        if has_base or replica.consensus.status().commit_index >= session.base_index:
            raise ConfigurationRefused(f"all entries up to {session.base_index} are here; no copy is needed")
        self._tablet.close()
