"""Orders from the master to tablet servers. Orders are idempotent, and sent again until reports show that they were
executed. Each has a key: of all orders with one key, one is in progress at a time."""

from __future__ import annotations

from typing import ClassVar, TypeAlias

from ....model.lazy_dataclass import dataclass
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
    """Common part of all orders: a tablet, and the receiving server."""

    kind: ClassVar[str]
    tablet_id: str
    server: str

    @property
    def key(self) -> OrderKey:
        return self.kind, self.tablet_id, self.server


@dataclass(frozen=True, slots=True)
class CreateReplica(_Order):
    """Create an empty replica of a new tablet."""

    kind = "create"
    configuration: Configuration


@dataclass(frozen=True, slots=True)
class AlterReplicas(_Order):
    """Bring a tablet to its table's version; sent to the leader."""

    kind = "alter"
    version: int


@dataclass(frozen=True, slots=True)
class DeleteReplica(_Order):
    """Delete a replica: of a dropped tablet (`configuration_index` None), or one that is not in the configuration of
    this index."""

    kind = "delete"
    configuration_index: int | None = None


@dataclass(frozen=True, slots=True)
class AskReport(_Order):
    """Report a replica again: its configuration was uncommitted at the last report."""

    kind = "report"


@dataclass(frozen=True, slots=True)
class _Change(_Order):
    """Sent to the leader; one order at a time changes a tablet's configuration and leader."""

    kind = "change"

    @property
    def key(self) -> OrderKey:
        return self.kind, self.tablet_id, ""


@dataclass(frozen=True, slots=True)
class AddReplica(_Change):
    """Add a server to the configuration of this index. It copies the data, then it gets a vote."""

    peer: Peer
    configuration_index: int


@dataclass(frozen=True, slots=True)
class RemoveReplica(_Change):
    """Remove a server from the configuration of this index; sent to the leader, which is another server."""

    peer: Peer
    configuration_index: int


@dataclass(frozen=True, slots=True)
class MoveLeader(_Change):
    """Transfer leadership to another server."""

    target: str


Order: TypeAlias = CreateReplica | AlterReplicas | DeleteReplica | AddReplica | RemoveReplica | MoveLeader | AskReport


def request_of(order: Order, tablet: Tablet | None) -> Request:
    """Returns the request of an order; `tablet` is the tablet of the catalog, for orders that create or alter one."""
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
