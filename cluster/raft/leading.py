"""A leader: its peers, its rounds, and what it does with their answers.

    propose ─► log (memory) ─┬─► peers, pipelined ─► answers: durable there ─┐
                             └─► own disk ─────────► Persisted: durable here ┴─► a majority: committed

Only entries of the leader's own term are committed by counting; they bring the earlier ones along (Ongaro's thesis,
section 3.6.2). The leader's own disk is one among the voters', and may be the last (section 10.2.1).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from ...errors import ConfigurationRefused, NotTheLeader
from ...storage.log.wal_format import EntryKind
from .core import Core
from .lease import Lease
from .membership import CONFIGURATION, check_change, encode_configuration
from .messages import AppendResponse, Configuration, Entry, Peer, PeerRole
from .progress import PeerProgress
from .replication import Replication
from .transfer import Transferring

Number = TypeVar("Number", int, float)


class Leading:
    """One peer's leadership of one term; given up by `Core.rest`.

    Attributes
    ----------
    lease : Lease
    progress : dict of str to PeerProgress
        All peers in force but this one.
    timestamp_floor : int
        Every timestamp of this leader is above it.
    first_index : int
        The NO_OP that this term began with: once it is committed, the leader serves.
    heartbeat_at : float
        When the next round is due.
    """

    __slots__ = (
        "_announced",
        "_core",
        "_replication",
        "first_index",
        "heartbeat_at",
        "lease",
        "progress",
        "timestamp_floor",
        "transferring",
    )

    def __init__(self, core: Core, clock_floor: int):
        self._core = core
        self.lease = Lease()
        self.timestamp_floor = max(clock_floor, self._last_timestamp())
        self.first_index = core.log.last_index + 1
        self.heartbeat_at = core.now
        self.progress: dict[str, PeerProgress] = {}
        self.transferring = Transferring(core, self.progress)
        self._announced = (0, 0)
        self._replication = Replication(core, self.lease, self.progress)
        self._follow_configuration(self.first_index)
        core.ready.clock_floor = self.timestamp_floor
        self._append([(max(core.hybrid(), self.timestamp_floor + 1), int(EntryKind.NO_OP), b"")])
        self._begin_round()

    def _last_timestamp(self) -> int:
        log = self._core.log
        last = log.last_index
        return log.entries(last, last, 1)[0].timestamp if last > log.base_index else 0

    @property
    def is_serving(self) -> bool:
        """All that earlier leaders have committed is known to be so (thesis, section 6.4, step 1)."""
        return self._core.commit_index >= self.first_index

    @property
    def deadline(self) -> float:
        return min(self.heartbeat_at, self.transferring.deadline)

    def has_lease(self, now: float) -> bool:
        """No other leader can be elected before the lease ends, nor one be asked for by ourselves."""
        return now < self.lease.until and not self.transferring.has_begun

    # ---- rounds ----------------------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Time has passed: a heartbeat may be due, or a transfer have taken too long."""
        if self._core.now >= self.transferring.deadline:
            self._core.rest()
        elif self._core.now >= self.heartbeat_at:
            self.renew()

    def renew(self) -> None:
        """Begin a round, or step down where no majority answers any more."""
        if self._has_contact():
            self._begin_round()
        else:
            self._core.rest()

    def _begin_round(self) -> None:
        """Tell all peers that we lead; a lease and a higher clock limit come of a majority's answers."""
        core = self._core
        self.heartbeat_at = core.now + core.options.heartbeat
        self._next_round()
        self._replication.begin_round()
        self.transferring.go_on()
        self._report_silent()

    def _next_round(self) -> None:
        core = self._core
        least = max(core.hybrid(), self.timestamp_floor + 1) + core.options.clock_step
        self.lease.begin(core.now, max(least, core.wall() + core.options.clock_lead))
        core.clock_limit = max(core.clock_limit, self.lease.clock_limit)
        self._count_round()

    def _count_round(self) -> None:
        """How far a majority has heard; our own rounds we have heard."""
        own, progress = self._core.id, self.progress
        rounds = [self.lease.round if id == own else progress[id].round for id in self._core.members.voters]
        self.lease.heard(_reached_by_majority(rounds, self._core.members.majority), self._core.options.lease)
        self._replication.safe_time = min(self._announced[0], self.lease.timestamp_limit)

    def _has_contact(self) -> bool:
        """Whether a majority was heard within an election timeout: otherwise another leader may be at work (thesis,
        section 6.2)."""
        core, progress = self._core, self.progress
        heard = [core.now if id == core.id else progress[id].heard_at for id in core.members.voters]
        return core.now - _reached_by_majority(heard, core.members.majority) < core.options.election_timeout

    def _report_silent(self) -> None:
        core = self._core
        for id in core.members.voters:
            if id != core.id and not (progress := self.progress[id]).is_silent:
                if core.now - progress.heard_at >= core.options.eviction_timeout:
                    progress.is_silent = True
                    core.ready.silent.append(progress.peer)

    def announce_safe_time(self, timestamp: int, index: int) -> None:
        """Every write at or below `timestamp`, now and for ever, is among the entries up to `index`."""
        if timestamp > self._announced[0]:
            self._announced = (timestamp, index)
            self._replication.safe_index = index
            self._replication.safe_time = min(timestamp, self.lease.timestamp_limit)

    def lasting_safe_time(self) -> tuple[int, int]:
        """Of what was announced, that which holds without this leadership: a safe time, and the committed index that it
        needs.

        Later leaders start above the clock limit that a majority has heard, and have all that this one has committed.
        What it has not, they may commit or cut off, nobody here knows which: so the safe time is below all of that.
        """
        core, timestamp, index = self._core, self._replication.safe_time, self._replication.safe_index
        if not self.is_serving:
            return 0, 0
        first = core.commit_index + 1
        while first <= index:
            undecided = core.log.entries(first, index, core.options.max_batch_bytes)
            timestamp = min(timestamp, *(entry.timestamp - 1 for entry in undecided))
            first += len(undecided)
        return timestamp, min(index, core.commit_index)

    # ---- proposing -------------------------------------------------------------------------------------------------

    def propose(self, entries: Sequence[tuple[int, int, bytes]]) -> None:
        """Append entries of a client and send them on; `NotTheLeader` where the time is over for that."""
        self._check_not_transferring()
        for timestamp, kind, _ in entries:
            if timestamp <= self.timestamp_floor:
                raise NotTheLeader(
                    f"timestamp {timestamp} was taken before the leadership of term {self._core.term} began, which "
                    f"starts above {self.timestamp_floor}; propose again",
                    self._core.peer(self._core.id).address,
                    self._core.term,
                )
            assert kind != CONFIGURATION, "configurations are changed by ChangePeers"
        self._append(entries)
        self._replication.proposed(len(entries))

    def send(self) -> None:
        """Send the peers what was held back, unless there is reason still."""
        self._replication.send_unless_awaiting()

    def _append(self, entries: Sequence[tuple[int, int, bytes]]) -> None:
        core = self._core
        term, first = core.term, core.log.last_index + 1
        core.append(
            [Entry(term, first + n, timestamp, kind, body) for n, (timestamp, kind, body) in enumerate(entries)]
        )

    def _check_not_transferring(self) -> None:
        if self.transferring.has_begun:
            target = self._core.peer(self.transferring.target)
            raise NotTheLeader(f"leadership is being handed to {target.id}", target.address, self._core.term)

    # ---- answers ---------------------------------------------------------------------------------------------------

    def on_response(self, response: AppendResponse) -> None:
        """Take a peer's answer from this term."""
        core = self._core
        progress = self.progress.get(response.sender)
        if progress is None:
            return
        if response.is_missing:
            if 0 < response.round < progress.round:
                return  # it has had data since
            progress.lost_everything()
            self._replication.ask_for_copy(progress)
            return
        if response.round > self.lease.round or response.match_index > core.log.last_index:
            core.ready.ignored = (
                f"{response.sender} answers round {response.round} up to entry {response.match_index}; this leader is "
                f"at round {self.lease.round} and entry {core.log.last_index}"
            )
            return
        progress.heard_at, progress.is_silent = core.now, False
        if response.round > progress.round:
            progress.round = response.round
            self._count_round()
        if response.accepted:
            self._accepted(progress, response.match_index)
        elif response.round >= progress.rewound_round:
            self._refused(progress, response.match_index)

    def _accepted(self, progress: PeerProgress, match_index: int) -> None:
        core = self._core
        if progress.needs_copy and match_index >= core.log.base_index:
            progress.needs_copy = False
            progress.next_index = match_index + 1
        answered = match_index - progress.match_index
        if answered > 0:
            progress.matched(match_index)
            if match_index > core.commit_index:
                self.count_entries()
            self.transferring.go_on()
        if progress.peer.role is PeerRole.PRE_VOTER:
            self._promote(progress)
        self._replication.go_on(progress)

    def _refused(self, progress: PeerProgress, committed_index: int) -> None:
        """The log there does not join on: go back to the last entry that we both have, and no further."""
        index = max(progress.match_index, committed_index)
        is_beyond_log = index < self._core.log.base_index
        if is_beyond_log and progress.needs_copy:  # so it does not have our log's base either
            self._replication.ask_for_copy(progress)
            return
        progress.needs_copy = is_beyond_log
        self._next_round()
        progress.rewind(index, self.lease.round)
        self._replication.send_at_least_one(progress)

    def count_entries(self) -> None:
        """Commit what a majority has durable."""
        core, progress = self._core, self.progress
        own, own_index = core.id, core.durable_index
        matches = [own_index if id == own else progress[id].match_index for id in core.members.voters]
        index = _reached_by_majority(matches, core.members.majority)
        if index > core.commit_index and index >= self.first_index:
            count = index - core.commit_index
            core.commit(index)
            self._replication.committed(count)

    # ---- peers -----------------------------------------------------------------------------------------------------

    def change_peers(self, peers: tuple[Peer, ...], expected_index: int | None) -> None:
        """Append a configuration that differs in one peer from the one in force."""
        core = self._core
        current = core.members.current
        self._check_not_transferring()
        if expected_index is not None and expected_index != current.index:
            raise ConfigurationRefused(
                f"the configuration in force is that of entry {current.index}, not {expected_index}"
            )
        if not self._may_change():
            raise ConfigurationRefused(
                f"an earlier change (entry {current.index}) or the beginning of term {core.term} is not committed yet"
            )
        check_change(current, peers, core.id)
        index = core.log.last_index + 1
        body = encode_configuration(Configuration(peers, index))
        self._append([(max(core.hybrid(), self.timestamp_floor + 1), CONFIGURATION, body)])
        self._follow_configuration(index)
        self._replication.send_all()

    def _may_change(self) -> bool:
        return self.is_serving and self._core.members.current.index <= self._core.commit_index

    def _follow_configuration(self, first: int) -> None:
        """Keep account of the peers in force; new ones are sent entry `first`, and go back from there."""
        core, known = self._core, dict(self.progress)
        self.progress.clear()
        for peer in core.members.current.peers:
            if peer.id == core.id:
                continue
            if (progress := known.get(peer.id)) is None:
                progress = PeerProgress(peer, first, core.now, core.commit_index)
            progress.peer = peer
            self.progress[peer.id] = progress

    def _promote(self, progress: PeerProgress) -> None:
        """Make a PRE_VOTER that has caught up a VOTER, if the configuration may be changed now."""
        core = self._core
        if not self._may_change() or self.transferring.has_begun or progress.needs_copy:
            return
        if progress.has_caught_up(core.now, core.log.last_index, core.options.election_timeout):
            promoted = Peer(progress.peer.id, progress.peer.address, PeerRole.VOTER)
            peers = tuple(promoted if peer.id == promoted.id else peer for peer in core.members.current.peers)
            self.change_peers(peers, None)


def _reached_by_majority(values: list[Number], majority: int) -> Number:
    """The greatest value that `majority` of the voters have reached."""
    values.sort()
    return values[len(values) - majority]
