"""What the master tells tablet servers to do. Orders are idempotent, and given again until reports show that they were
carried out. Each has a key: of all orders with one key, one is on its way at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from ..raft.messages import Configuration, Peer, PeerRole
from ..wire.methods import (
    AlterTablet,
    ChangeReplicas,
    CreateTablet,
    DeleteTablet,
    ReportTablets,
    Request,
    StepDown,
    Tablet,
)

OrderKey: TypeAlias = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class CreateReplica:
    """Make an empty replica of a new tablet."""

    tablet_id: str
    server: str
    configuration: Configuration

    @property
    def key(self) -> OrderKey:
        return "create", self.tablet_id, self.server


@dataclass(frozen=True, slots=True)
class AlterReplicas:
    """Bring a tablet to its table's version; to the leader."""

    tablet_id: str
    server: str
    version: int

    @property
    def key(self) -> OrderKey:
        return "alter", self.tablet_id, self.server


@dataclass(frozen=True, slots=True)
class DeleteReplica:
    """Delete a replica: of a tablet that is no more (`configuration_index` None), or one that the configuration of this
    index does not name."""

    tablet_id: str
    server: str
    configuration_index: int | None = None

    @property
    def key(self) -> OrderKey:
        return "delete", self.tablet_id, self.server


@dataclass(frozen=True, slots=True)
class AddReplica:
    """Take a server into the configuration of this index; to the leader. It copies the data, then it gets a vote."""

    tablet_id: str
    server: str
    peer: Peer
    configuration_index: int

    @property
    def key(self) -> OrderKey:
        return "change", self.tablet_id, ""


@dataclass(frozen=True, slots=True)
class RemoveReplica:
    """Take a server out of the configuration of this index; to the leader, which is another."""

    tablet_id: str
    server: str
    peer: Peer
    configuration_index: int

    @property
    def key(self) -> OrderKey:
        return "change", self.tablet_id, ""


@dataclass(frozen=True, slots=True)
class MoveLeader:
    """Hand leadership to another server; to the leader."""

    tablet_id: str
    server: str
    target: str

    @property
    def key(self) -> OrderKey:
        return "change", self.tablet_id, ""


@dataclass(frozen=True, slots=True)
class AskReport:
    """Report a replica again: its configuration was not committed when it was reported."""

    tablet_id: str
    server: str

    @property
    def key(self) -> OrderKey:
        return "report", self.tablet_id, self.server


Order: TypeAlias = CreateReplica | AlterReplicas | DeleteReplica | AddReplica | RemoveReplica | MoveLeader | AskReport


def request_of(order: Order, tablet: Tablet | None) -> Request:
    """The request that carries an order; `tablet` is what the catalog says of the tablet, for those that make or alter
    one."""
    match order:
        case CreateReplica():
            assert tablet is not None
            return CreateTablet(tablet=tablet, configuration=order.configuration)
        case AlterReplicas():
            assert tablet is not None
            return AlterTablet(tablet=tablet)
        case DeleteReplica():
            return DeleteTablet(
                tablet_id=order.tablet_id,
                configuration_index=order.configuration_index,
                forget=order.configuration_index is None,
            )
        case AddReplica():
            return _change(order, "add", Peer(order.peer.id, order.peer.address, PeerRole.PRE_VOTER))
        case RemoveReplica():
            return _change(order, "remove", order.peer)
        case MoveLeader():
            return StepDown(tablet_id=order.tablet_id, target=order.target)
        case AskReport():
            return ReportTablets(tablet_ids=(order.tablet_id,))


def _change(order: AddReplica | RemoveReplica, kind: str, peer: Peer) -> ChangeReplicas:
    return ChangeReplicas(
        tablet_id=order.tablet_id, kind=kind, peer=peer, configuration_index=order.configuration_index
    )
