"""The state of each master: for `nyala_catalog.masters`, `nyala cluster masters`, ksck and pages alike.

state    LEADER, FOLLOWER, LEARNER (being added), WAITING (for a copy of the catalog), REMOVED; SILENT
lag      entries of the leading master's log of the catalog that this one does not have
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import Any, Final

from ....errors import ClusterError, Error
from ....model.lazy_dataclass import dataclass
from ...raft.messages import PeerRole
from ...wire.messages.membership_methods import ListMasters, MastersReply
from ...wire.messages.methods import GetStatus, ServerStatus
from ..client_context import ChannelsLike
from .masters import Masters

_LEADER_SECONDS: Final = 5.0
"""For a master to lead, and to respond; if none does, those that are known are listed."""
_CALL_SECONDS: Final = 2.0
_ROLES: Final = {"MASTER": PeerRole.VOTER.name, "LEARNER": PeerRole.PRE_VOTER.name}


@dataclass(frozen=True, slots=True)
class MasterState:
    """A master.

    Attributes
    ----------
    address : str
    state : str
        See the module's page.
    id, role, version, error : str
        "" if not known. `role`: "VOTER" or "PRE_VOTER" in the consensus of the masters. `error`: that of the call, or
        the reason for which it accepts no changes.
    term, last_index, lag_entries : int or None
        Of its log of the catalog; None if it has none, or does not respond. The lag is None if no master leads.
    """

    address: str
    state: str
    id: str = ""
    role: str = ""
    term: int | None = None
    last_index: int | None = None
    lag_entries: int | None = None
    version: str = ""
    error: str = ""


def master_state(status: ServerStatus | None) -> str:
    """The state of a master; None: it does not respond."""
    if status is None:
        return "SILENT"
    membership = str(status.details.get("membership", "MASTER"))  # a master of a former version has only that
    if membership != "MASTER":
        return membership
    return "LEADER" if status.is_leader else "FOLLOWER"


def master_states(
    answers: Sequence[tuple[str, ServerStatus | None, str]], roles: Mapping[str, str] | None = None
) -> list[MasterState]:
    """The states of masters.

    Parameters
    ----------
    answers : sequence of (str, ServerStatus or None, str)
        Address, status, and the error of the call.
    roles : mapping of str to str, optional
        Roles by address, as the leading master has them; None: as each of them says itself.
    """
    logs = [{} if status is None else status.details.get("log", {}) for _, status, _ in answers]
    leading = [log.get("last_index") for log, (_, status, _) in zip(logs, answers) if status and status.is_leader]
    last = leading[0] if len(leading) == 1 else None
    found = []
    for (address, status, error), log in zip(answers, logs, strict=True):
        mine = log.get("last_index")
        details: Mapping[str, Any] = {} if status is None else status.details
        own_role = _ROLES.get(str(details.get("membership", "")), "")
        found.append(
            MasterState(
                address,
                master_state(status),
                "" if status is None else status.id,
                own_role if roles is None else roles.get(address, ""),
                log.get("term"),
                mine,
                None if last is None or mine is None else max(0, last - mine),
                "" if status is None else status.version,
                error or details.get("full", ""),
            )
        )
    return found


def master_rows(masters: Masters, channels: ChannelsLike, pool: Executor) -> Iterator[dict[str, Any]]:
    """Rows of `nyala_catalog.masters`. All masters are called; one that does not respond is a row, too. None of a
    served directory, which has no masters."""
    roles: dict[str, str] | None = None
    try:
        reply = masters.call(
            ListMasters(), MastersReply, "the list of masters", seconds=_LEADER_SECONDS, patience=_CALL_SECONDS
        )
        roles = {peer.address: peer.role.name for peer in reply.configuration.peers}
    except Error:  # none leads, or it is a served directory
        pass
    addresses = masters.addresses if roles is None else tuple(roles)
    answers = list(pool.map(partial(_answer, channels), addresses))
    if any(status is not None and status.kind != "master" for _, status, _ in answers):
        return
    for each in master_states(answers, roles):
        yield {
            "address": each.address,
            "id": each.id or None,
            "role": each.role or None,
            "state": each.state,
            "term": each.term,
            "last_index": each.last_index,
            "lag_entries": each.lag_entries,
            "version": each.version or None,
            "error": each.error or None,
        }


def _answer(channels: ChannelsLike, address: str) -> tuple[str, ServerStatus | None, str]:
    try:
        status = channels.get(address).call(GetStatus(), timeout=_CALL_SECONDS)
    except ClusterError as error:
        return address, None, str(error)
    assert isinstance(status, ServerStatus)
    return address, status, ""
