"""The set of masters, changed while they run (Kudu: `kudu master add`, `remove`).

    add       WAITING ── AddMaster ──► LEARNER ── copies the catalog, catches up ──► MASTER
    remove    MASTER ── RemoveMaster ──► notices it (`look`) ──► REMOVED

The masters are the peers of the system tablet's consensus, so this is Raft's change of one peer at a time
(`raft.membership`): the configuration is an entry of the log, and a LEARNER is a PRE_VOTER. All of it survives the
death of any master at any moment, and each step can be repeated.

A removed master gets no message any more, least of all the entry that removes it. Its elections fail, as pre-votes do
while there is a leader (`raft.election`). So a master without a leader calls the others: once the leading one lists
masters of a later configuration without it, it closes its replica, notes the removal in its directory, and names the
new masters to its callers.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...errors import ClusterError, ConfigurationRefused, DeadlineExceeded, Error, NotTheLeader
from ...storage.maintenance.background import Rounds
from ..raft.messages import Configuration, Peer, PeerRole
from ..tablets.replica import Replica
from ..wire.call_context import CallContext
from ..wire.calls.rpc import Channels
from ..wire.messages.membership_methods import (
    AddMaster,
    ListMasters,
    MastersReply,
    RemoveMaster,
    UnsafeChangeMasters,
    nobody_waits,
)
from ..wire.messages.methods import GetStatus, Reply, Request, ServerStatus
from .catalog.catalog_manager import CatalogManager
from .catalog.records import Change
from .catalog.system_tablet import SystemTablet
from .master_directory import MasterDirectory

MASTER, LEARNER, WAITING, REMOVED = "MASTER", "LEARNER", "WAITING", "REMOVED"
_CALL_SECONDS = 2.0
_NOTICE_SECONDS = 10.0
"""Seconds for which a removed master may not have noticed it yet."""
_SETTLE_SECONDS = 5.0
"""Seconds for which a change waits for the end of an earlier one."""
_PAUSE_SECONDS = 0.1
_SKIPPED = 1000
"""More tables and versions than masters with a majority are likely to have made since a survivor's last entry."""
_log = logging.getLogger("nyala.cluster.master")


class MasterMembership:
    """This master's part in the set of masters; see the module's page. Thread-safe.

    Parameters
    ----------
    peer : Peer
        This master.
    given : sequence of str
        The addresses of all masters that it was started with.
    """

    def __init__(
        self,
        tablet: SystemTablet,
        manager: CatalogManager,
        directory: MasterDirectory,
        channels: Channels,
        peer: Peer,
        given: Sequence[str],
    ):
        self._tablet = tablet
        self._manager = manager
        self._directory = directory
        self._channels = channels
        self._peer = peer
        self._given = tuple(given)
        self._rounds: Rounds | None = None
        self._warned: tuple[str, ...] = ()
        """The masters when the last warning about `given` was logged."""
        if directory.removed:
            self._explain_removal()

    def start(self) -> None:
        """Begins to look for the removal of this master, about once a second."""
        self._rounds = Rounds("nyala-master-membership", self.look)

    def stop(self) -> None:
        """Ends that."""
        if self._rounds is not None:
            self._rounds.stop()

    @property
    def handlers(self) -> Mapping[type[Request], Callable[[Any, CallContext], Reply]]:
        """Returns the handlers of its methods."""
        return {
            ListMasters: self._list,
            AddMaster: self._add,
            RemoveMaster: self._remove,
            UnsafeChangeMasters: self._force,
        }

    # ---- what it is ------------------------------------------------------------------------------------------------

    @property
    def state(self) -> str:
        """MASTER, LEARNER, WAITING (to be added, or for a copy of the catalog) or REMOVED."""
        if self._tablet.replica is None and self._directory.removed:
            return REMOVED
        peer = self._tablet.configuration.peer(self._peer.id)
        if peer is None:
            return WAITING
        return MASTER if peer.role is PeerRole.VOTER else LEARNER

    def addresses(self) -> tuple[str, ...]:
        """Returns the addresses of all masters, as far as this one has them."""
        peers = self._tablet.configuration.peers
        return tuple(peer.address for peer in peers) or self._directory.removed or self._given or (self._peer.address,)

    def others(self) -> int:
        """Returns the number of other masters with a vote."""
        return sum(peer.id != self._peer.id for peer in self._tablet.configuration.voters)

    # ---- changes, at the leader ------------------------------------------------------------------------------------

    def _list(self, request: ListMasters, context: CallContext) -> MastersReply:
        return self._reply(self._leading())

    def _leading(self) -> Replica:
        """Returns the replica of this master if it leads; raises `NotTheLeader`."""
        self._manager.confirmed()
        replica = self._tablet.replica
        if replica is None:
            raise NotTheLeader("this master has just been removed", self._tablet.leader_address)
        return replica

    def _reply(self, replica: Replica) -> MastersReply:
        state, _ = self._manager.leading()
        assert state.cluster is not None
        configuration = replica.consensus.status().configuration
        is_committed = replica.consensus.committed_configuration.index == configuration.index
        return MastersReply(
            configuration=configuration, leader=self._peer.id, cluster_id=state.cluster.id, is_committed=is_committed
        )

    def _add(self, request: AddMaster, context: CallContext) -> MastersReply:
        replica = self._leading()
        if _at(request.address, replica) is None:
            newcomer = self._newcomer(request.address, replica, context)
            own = replica.consensus.status().configuration.peer(self._peer.id)
            if own is not None and own.address != self._peer.address:
                # a single master may have moved; from now on others have to reach it
                self._change(replica, "add", self._peer, context)
            self._change(replica, "add", newcomer, context)
            _log.info("master added", extra={"fields": {"address": newcomer.address, "id": newcomer.id}})
        return self._reply(replica)

    def _newcomer(self, address: str, replica: Replica, context: CallContext) -> Peer:
        """Returns the process that waits at an address as a peer; raises `ConfigurationRefused` if it cannot be
        added."""
        until = min(context.deadline, time.monotonic() + _NOTICE_SECONDS)
        cluster = self._manager.leading()[0].cluster
        own = ("", cluster.id if cluster is not None else "")
        while (state := (status := self._status_of(address)).details.get("membership")) in (MASTER, LEARNER):
            is_other = status.is_leader or status.details.get("cluster", "") not in own
            if is_other or time.monotonic() + _PAUSE_SECONDS > until:
                raise ConfigurationRefused(
                    f"the master at {address} belongs to a cluster with the masters "
                    f"{', '.join(status.details.get('masters', ()))}: start it with an empty directory"
                )
            time.sleep(_PAUSE_SECONDS)  # it was removed, perhaps, and will notice
        if state not in (WAITING, REMOVED):
            raise ConfigurationRefused(
                f"the {status.kind} at {address}, of version {status.version}, cannot be added as a master"
            )
        present = replica.consensus.status().configuration.peer(status.id)
        is_other = status.details.get("cluster", "") not in own
        if is_other or (present is not None and present.address != status.address):
            raise ConfigurationRefused(
                f"the master at {address} has the directory of another master: start it with an empty one"
            )
        return Peer(status.id, status.address)

    def _status_of(self, address: str) -> ServerStatus:
        try:
            status: ServerStatus = self._channels.get(address).call(GetStatus(), _CALL_SECONDS)
        except ClusterError as error:
            raise ConfigurationRefused(nobody_waits(address, self.addresses(), error)) from error
        return status

    def _remove(self, request: RemoveMaster, context: CallContext) -> MastersReply:
        replica = self._leading()
        peer = _at(request.address, replica)
        if peer is None:
            return self._reply(replica)
        remaining = [voter for voter in replica.consensus.status().configuration.voters if voter.id != peer.id]
        if peer.role is PeerRole.VOTER:
            self._check_majority(peer, remaining)
        if peer.id == self._peer.id:
            with contextlib.suppress(ConfigurationRefused):  # of a transfer that has begun
                replica.consensus.transfer()
            raise NotTheLeader("this master leads, and transfers its leadership before it is removed")
        self._change(replica, "remove", peer, context)
        _log.info("master removed", extra={"fields": {"address": peer.address, "id": peer.id}})
        return self._reply(replica)

    def _check_majority(self, peer: Peer, remaining: Sequence[Peer]) -> None:
        """Raises `ConfigurationRefused` unless a majority of the remaining masters is running."""
        if not remaining:
            raise ConfigurationRefused(f"{peer.address} is the only master; add another one first")
        silent = [one.address for one in remaining if one.id != self._peer.id and not self._is_running(one)]
        if len(silent) * 2 >= len(remaining):
            raise ConfigurationRefused(
                f"without {peer.address}, {len(remaining)} masters remain, of which "
                f"{len(remaining) - len(silent)} run: no majority; first start or remove {', '.join(silent)}"
            )

    def _is_running(self, peer: Peer) -> bool:
        try:
            status: ServerStatus = self._channels.get(peer.address).call(GetStatus(), _CALL_SECONDS)
        except ClusterError:
            return False
        return status.id == peer.id and status.details.get("membership") == MASTER

    def _change(self, replica: Replica, kind: str, peer: Peer, context: CallContext) -> None:
        """Changes the configuration; waits a while for the end of an earlier change, or of a promotion."""
        until = min(context.deadline, time.monotonic() + _SETTLE_SECONDS)
        while True:
            try:
                replica.consensus.change(kind, peer, None, context.deadline)
            except ConfigurationRefused:
                if time.monotonic() + _PAUSE_SECONDS > until:
                    raise
                time.sleep(_PAUSE_SECONDS)
            else:
                return

    # ---- the last resort -------------------------------------------------------------------------------------------

    def _force(self, request: UnsafeChangeMasters, context: CallContext) -> MastersReply:
        peers = {peer.address: peer.id for peer in self._tablet.configuration.peers}
        strangers = [address for address in request.survivors if address not in peers]
        if strangers or self._peer.id not in [peers.get(address) for address in request.survivors]:
            raise ConfigurationRefused(
                f"the survivors {', '.join(request.survivors)} have to be masters, and {self._peer.address} one of "
                f"them; the masters are {', '.join(peers) or 'not known here'}"
            )
        forced = self._tablet.force([peers[address] for address in request.survivors], self._peer.id)
        self._skip_numbers(context.deadline)
        return MastersReply(configuration=forced, leader=self._peer.id, cluster_id=self._directory.cluster)

    def _skip_numbers(self, deadline: float) -> None:
        """Leaves out the numbers of tables, and the versions of the catalog, that the lost masters may have used:
        tablets of such tables exist, and clients have seen such versions."""
        while not self._manager.is_leading:
            if time.monotonic() > deadline:
                raise DeadlineExceeded("the set of masters is changed, but none leads yet: start the survivors")
            time.sleep(_PAUSE_SECONDS)
        with self._manager.changing(deadline) as state:
            assert state.cluster is not None
            version, next_table = state.cluster.version + _SKIPPED, state.cluster.next_table + _SKIPPED
            self._manager.commit(Change((replace(state.cluster, version=version, next_table=next_table),)), deadline)

    # ---- removal, as seen from here --------------------------------------------------------------------------------

    def look(self) -> None:
        """Notices whether this master was removed, and learns the cluster's id; called about once a second."""
        replica = self._tablet.replica
        if replica is None:
            return
        if self._directory.removed:  # it was added again, and has copied the catalog
            self._directory.note_removed(())
        status = replica.consensus.status()
        try:
            if self._manager.is_leading:
                self._note_cluster(self._reply(replica).cluster_id)
            elif not status.leader:
                self._ask_others(status.configuration)
            elif not self._directory.cluster and (leader := replica.consensus.leader_address()):
                self._note_cluster(self._channels.get(leader).call(ListMasters(), _CALL_SECONDS).cluster_id)
        except ClusterError:
            return  # the next round tries again
        self._check_given()

    def _note_cluster(self, cluster_id: str) -> None:
        if not self._directory.cluster:
            self._directory.note_cluster(cluster_id)

    def _ask_others(self, own: Configuration) -> None:
        for address in _distinct([*(peer.address for peer in own.peers), *self._given]):
            if address == self._peer.address:
                continue
            try:
                reply: MastersReply = self._channels.get(address).call(ListMasters(), _CALL_SECONDS)
            except NotTheLeader as error:
                if not error.leader or error.leader == self._peer.address:
                    continue
                try:
                    reply = self._channels.get(error.leader).call(ListMasters(), _CALL_SECONDS)
                except ClusterError:
                    continue
            except ClusterError:
                continue
            if self._is_removed_by(reply, own):
                self._leave(reply)
            return

    def _is_removed_by(self, reply: MastersReply, own: Configuration) -> bool:
        """True if a later configuration of the same cluster is without this master."""
        listed = reply.configuration
        if listed.peer(self._peer.id) is not None or not reply.is_committed or listed.index <= own.index:
            return False
        if self._directory.cluster:
            return reply.cluster_id == self._directory.cluster
        return any(listed.peer(peer.id) is not None for peer in own.peers)

    def _leave(self, reply: MastersReply) -> None:
        with self._tablet.work_lock:
            self._directory.note_removed([peer.address for peer in reply.configuration.peers])
            self._explain_removal()
            with contextlib.suppress(Error):
                self._tablet.close()
        _log.warning(
            "this master was removed from the cluster",
            extra={"fields": {"masters": list(self._directory.removed), "directory": self._directory.path}},
        )

    def _explain_removal(self) -> None:
        masters = self._directory.removed
        self._tablet.why_absent = (
            f"this master was removed from the cluster, whose masters are {', '.join(masters)} since then"
        )
        self._tablet.known_leader = masters[0]

    def _check_given(self) -> None:
        """Logs once that the list with which this process was started is stale."""
        masters = self.addresses()
        if self._given and {*self._given, self._peer.address} != set(masters) and masters != self._warned:
            self._warned = masters
            _log.warning(
                "--masters is stale: change it before the next start",
                extra={"fields": {"given": list(self._given), "masters": list(masters)}},
            )


def _at(address: str, replica: Replica) -> Peer | None:
    """Returns the master at an address."""
    peers = replica.consensus.status().configuration.peers
    return next((peer for peer in peers if peer.address == address), None)


def _distinct(addresses: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(addresses))
