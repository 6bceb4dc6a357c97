"""A leader: its followers, its rounds, and their responses.

    propose ─► log (memory) ─┬─► peers, pipelined ─► responses: durable there ─┐
                             └─► own disk ─────────► Persisted: durable here ──┴─► a majority: committed

Only entries of the leader's own term are committed by counting; they commit the earlier ones with them (Ongaro's
thesis, section 3.6.2). The leader's own disk counts as one voter's, and may be the last (section 10.2.1).
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
from .transfer import LeadershipTransfer

Number = TypeVar("Number", int, float)


class Leading:
    """One peer's leadership in one term; ended by `Core.become_follower`.

    Attributes
    ----------
    lease : Lease
    progress : dict of str to PeerProgress
        All peers of the configuration in force except this one.
    timestamp_floor : int
        Every timestamp of this leader is above it.
    first_index : int
        The NO_OP that began this term: the leader serves once it is committed.
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
        self.transferring = LeadershipTransfer(core, self.progress)
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
        """True if all commits of earlier leaders are known here (thesis, section 6.4, step 1)."""
        return self._core.commit_index >= self.first_index

    @property
    def deadline(self) -> float:
        return min(self.heartbeat_at, self.transferring.deadline)

    def has_lease(self, now: float) -> bool:
        """True if no other leader can be elected before the lease ends, not even by a transfer that this leader
        requests."""
        return now < self.lease.until and not self.transferring.has_begun

    # ---- rounds ----------------------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Sends a due heartbeat, or ends a transfer that has timed out."""
        if self._core.now >= self.transferring.deadline:
            self._core.become_follower()
            self._core.wait_for_leader(is_quiet=False)  # the target may have died: no other may be able to lead
        elif self._core.now >= self.heartbeat_at:
            self.renew()

    def renew(self) -> None:
        """Begins a round, or steps down if a majority no longer responds."""
        if self._has_contact():
            self._begin_round()
        else:
            self._core.become_follower()

    def _begin_round(self) -> None:
        """Sends a round to all peers; responses of a majority extend the lease and raise the clock limit."""
        core = self._core
        self.heartbeat_at = core.options.next_heartbeat(core.now)
        self._next_round()
        self._replication.begin_round()
        self.transferring.begin_if_quiescing()
        self.transferring.proceed()
        self._report_silent()

    def _next_round(self) -> None:
        core = self._core
        least = max(core.hybrid(), self.timestamp_floor + 1) + core.options.clock_step
        self.lease.begin(core.now, max(least, core.wall() + core.options.clock_lead))
        core.clock_limit = max(core.clock_limit, self.lease.clock_limit)
        self._count_round()

    def _count_round(self) -> None:
        """Counts the rounds that a majority has heard; this peer has heard its own."""
        core, lease, progress = self._core, self.lease, self.progress
        own, members = core.id, core.members
        rounds = [lease.round if id == own else progress[id].round for id in members.voters]
        lease.heard(_reached_by_majority(rounds, members.majority), core.options.lease)
        self._replication.safe_time = min(self._announced[0], self.lease.timestamp_limit)

    def _has_contact(self) -> bool:
        """True if a majority was heard within an election timeout; otherwise another leader may exist (thesis, section
        6.2)."""
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
        """Announces that the entries up to `index` contain every write at or below `timestamp`, now and in future."""
        if timestamp > self._announced[0]:
            self._announced = (timestamp, index)
            self._replication.safe_index = index
            self._replication.safe_time = min(timestamp, self.lease.timestamp_limit)

    def lasting_safe_time(self) -> tuple[int, int]:
        """Returns the announced safe time that holds beyond this leadership, and the committed index that it requires.

        Later leaders start above the clock limit that a majority has heard, and have all entries that this one has
        committed. They may commit or truncate its other entries, so the safe time is below all of those.
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
        """Appends a client's entries and sends them; raises `NotTheLeader` for timestamps from before this
        leadership."""
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
        """Sends the entries that were held back, unless there is still a reason to wait."""
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
            raise NotTheLeader(f"leadership is being transferred to {target.id}", target.address, self._core.term)

    # ---- answers ---------------------------------------------------------------------------------------------------

    def on_response(self, response: AppendResponse) -> None:
        """Processes a peer's response in this term."""
        core = self._core
        progress = self.progress.get(response.sender)
        if progress is None:
            return
        if response.is_missing:
            if 0 < response.round < progress.round:
                return  # an older response: the peer has had data since
            progress.lost_everything()
            self._replication.ask_for_copy(progress)
            return
        if response.round > self.lease.round or response.match_index > core.log.last_index:
            core.ready.ignored = (
                f"{response.sender} responds to round {response.round} up to entry {response.match_index}; this leader "
                f"is at round {self.lease.round} and entry {core.log.last_index}"
            )
            return
        progress.heard_at, progress.is_silent = core.now, False
        progress.is_quiescing = response.is_quiescing
        if response.round > progress.round:
            progress.round = response.round
            if self.lease.is_open(response.round):
                self._count_round()
        if response.accepted:
            self._accepted(progress, response.match_index)
        elif response.round >= progress.rewound_round:
            self._refused(progress, response.match_index)
        if core.is_quiescing:
            self.transferring.begin_if_quiescing()

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
            self.transferring.proceed()
        if progress.peer.role is PeerRole.PRE_VOTER:
            self._promote(progress)
        self._replication.send_more(progress)

    def _refused(self, progress: PeerProgress, committed_index: int) -> None:
        """Resumes from the last entry that both logs are known to have: the peer's log does not have the preceding
        one."""
        index = max(progress.match_index, committed_index)
        is_beyond_log = index < self._core.log.base_index
        if is_beyond_log and progress.needs_copy:  # the peer does not have the log's base either
            self._replication.ask_for_copy(progress)
            return
        progress.needs_copy = is_beyond_log
        self._next_round()
        progress.rewind(index, self.lease.round)
        self._replication.send_at_least_one(progress)

    def count_entries(self) -> None:
        """Commits the entries that a majority has durable."""
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
        """Appends a configuration that differs in one peer from the one in force."""
        core = self._core
        current = core.members.current
        self._check_not_transferring()
        if expected_index is not None and expected_index != current.index:
            raise ConfigurationRefused(
                f"the configuration in force has log index {current.index}, not {expected_index}"
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
        """Updates `progress` to the peers in force; sending to a new peer begins at entry `first` and goes back from
        there."""
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
        """Promotes a PRE_VOTER that has caught up to VOTER, if the configuration may change now."""
        core = self._core
        if not self._may_change() or self.transferring.has_begun or progress.needs_copy:
            return
        if progress.has_caught_up(core.now, core.log.last_index, core.options.election_timeout):
            promoted = Peer(progress.peer.id, progress.peer.address, PeerRole.VOTER)
            peers = tuple(promoted if peer.id == promoted.id else peer for peer in core.members.current.peers)
            self.change_peers(peers, None)


def _reached_by_majority(values: list[Number], majority: int) -> Number:
    """Returns the greatest value that `majority` of the voters have reached."""
    values.sort()
    return values[len(values) - majority]
