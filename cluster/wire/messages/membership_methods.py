"""Changes of the set of masters: methods of masters (Kudu: `kudu master add`, `remove`)."""

from __future__ import annotations

from collections.abc import Iterable

from ...raft.messages import Configuration
from .methods import Reply, Request


class MastersReply(Reply, frozen=True):
    """The masters as peers of their own consensus: the configuration in force at the leading one.

    `leader` is its id. `is_committed`: no later leader can take the configuration back.
    """

    configuration: Configuration
    leader: str
    cluster_id: str
    is_committed: bool = True


class ListMasters(Request, frozen=True, tag="list_masters"):
    """To the leading master: lists the masters with their roles."""

    reply = MastersReply


class AddMaster(Request, frozen=True, tag="add_master"):
    """To the leading master: adds the master process at an address, which must run and have no catalog of another
    cluster. It becomes a PRE_VOTER, and a VOTER once it has caught up. Returns when the former is committed; no-op if
    it is a master already. Raises `ConfigurationRefused`, also while an earlier change is not committed."""

    reply = MastersReply
    address: str


class RemoveMaster(Request, frozen=True, tag="remove_master"):
    """To the leading master: removes the master at an address, dead or alive. No-op if it is no master. Raises
    `ConfigurationRefused` if it is the only one, or if no majority of the others is running. The leader transfers
    its leadership to remove itself (`NotTheLeader`)."""

    reply = MastersReply
    address: str


class UnsafeChangeMasters(Request, frozen=True, tag="unsafe_change_masters"):
    """To a master whose majority is permanently lost: the masters at these addresses become all masters. Changes of the
    catalog that others had acknowledged without this master are lost. Raises `ConfigurationRefused` while a master
    leads."""

    reply = MastersReply
    survivors: tuple[str, ...]


def nobody_waits(address: str, masters: Iterable[str], error: Exception) -> str:
    """The text of an error: no process responds at the address of a master that is to be added."""
    return (
        f"no master process responds at {address}; first start one there, with an empty directory: nyala "
        f"master --dir DIR --bind {address} --masters {','.join(masters)} ({error})"
    )
