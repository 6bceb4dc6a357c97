"""What the master tells tablet servers to do. Orders are idempotent, and given again until reports show that they were
carried out. Each has a key: of all orders with one key, one is on its way at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from ...raft.messages import Configuration, Peer, PeerRole
from ...wire.messages.methods import (
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
class _Order:
    """What all orders have: a tablet, and the server that is told."""

    kind: ClassVar[str]
    tablet_id: str
    server: str

    @property
    def key(self) -> OrderKey:
        return self.kind, self.tablet_id, self.server


@dataclass(frozen=True, slots=True)
class CreateReplica(_Order):
    """Make an empty replica of a new tablet."""

    kind = "create"
    configuration: Configuration


@dataclass(frozen=True, slots=True)
class AlterReplicas(_Order):
    """Bring a tablet to its table's version; to the leader."""

    kind = "alter"
    version: int


@dataclass(frozen=True, slots=True)
class DeleteReplica(_Order):
    """Delete a replica: of a tablet that is no more (`configuration_index` None), or one that the configuration of this
    index does not name."""

    kind = "delete"
    configuration_index: int | None = None


@dataclass(frozen=True, slots=True)
class AskReport(_Order):
    """Report a replica again: its configuration was not committed when it was reported."""

    kind = "report"


@dataclass(frozen=True, slots=True)
class _Change(_Order):
    """To the leader; a tablet's configuration and leader are changed by one order at a time."""

    kind = "change"

    @property
    def key(self) -> OrderKey:
        return self.kind, self.tablet_id, ""


@dataclass(frozen=True, slots=True)
class AddReplica(_Change):
    """Take a server into the configuration of this index. It copies the data, then it gets a vote."""

    peer: Peer
    configuration_index: int


@dataclass(frozen=True, slots=True)
class RemoveReplica(_Change):
    """Take a server out of the configuration of this index; to the leader, which is another."""

    peer: Peer
    configuration_index: int


@dataclass(frozen=True, slots=True)
class MoveLeader(_Change):
    """Hand leadership to another server."""

    target: str


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
