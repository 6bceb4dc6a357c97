"""Tests of the simulator itself: each plants one bug, and the invariant that it breaks must fail.

A bug is a change of one rule of `cluster.raft`. Within `SEEDS` schedules the simulator must reach it, whatever else
these schedules contain; most are reached within some dozens. Its seed then fails again, to the byte.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from nyala.cluster.raft.core import FOREVER, Core
from nyala.cluster.raft.election import Election
from nyala.cluster.raft.following import Following
from nyala.cluster.raft.leading import Leading
from nyala.cluster.raft.lease import Lease
from nyala.cluster.raft.messages import AppendRequest, AppendResponse, Entry, HardState, VoteRequest
from nyala.cluster.raft.progress import PeerProgress
from nyala.cluster.raft.replication import Replication
from nyala.cluster.raft.transfer import LeadershipTransfer
from raft_simulation import Invariant, InvariantViolation, Profile, Simulation, find_violation
from raft_simulation.server import Server

SEEDS = 3000
Plant = Callable[[pytest.MonkeyPatch], None]


def vote_given_twice(patch: pytest.MonkeyPatch) -> None:
    """A voter does not check whether it has voted already."""
    patch.setattr(Election, "_is_free_for", lambda self, request: True)


def vote_not_durable(patch: pytest.MonkeyPatch) -> None:
    """The term is passed on to be saved, the vote is not."""

    def give_vote(self: Core, vote: str) -> None:
        self.vote = vote
        self.ready.hard_state = HardState(self.term, "")

    patch.setattr(Core, "give_vote", give_vote)


def previous_term_not_checked(patch: pytest.MonkeyPatch) -> None:
    """Entries are appended if the log has any entry before them."""

    def has_previous(self: Following, request: AppendRequest) -> bool:
        if request.entries:
            return request.previous_index <= self._core.log.last_index
        return original(self, request)

    original = Following._has_previous
    patch.setattr(Following, "_has_previous", has_previous)


def older_terms_counted(patch: pytest.MonkeyPatch) -> None:
    """A leader commits entries of earlier terms by counting (figure 8 of the Raft paper)."""
    original = Leading.count_entries

    def count_entries(self: Leading) -> None:
        first, self.first_index = self.first_index, 0
        original(self)
        self.first_index = first

    patch.setattr(Leading, "count_entries", count_entries)


def vote_for_shorter_log(patch: pytest.MonkeyPatch) -> None:
    """A vote is given to the first requester, whatever its log."""
    patch.setattr(Election, "_is_up_to_date", lambda self, request: True)


def only_last_index_compared(patch: pytest.MonkeyPatch) -> None:
    """The longer log counts as the newer one, whatever the terms."""

    def is_up_to_date(self: Election, request: VoteRequest) -> bool:
        return request.last_index >= self._core.log.last_index

    patch.setattr(Election, "_is_up_to_date", is_up_to_date)


def acknowledged_before_durable(patch: pytest.MonkeyPatch) -> None:
    """A follower acknowledges entries that are in memory."""

    def acknowledge(self: Following) -> None:
        core = self._core
        assert core.leader is not None
        self._unacknowledged = False
        core.send(core.leader, AppendResponse(core.id, core.term, self._heard_round, True, self._matched_index))

    patch.setattr(Following, "_acknowledge", acknowledge)


def leader_counts_itself_too_early(patch: pytest.MonkeyPatch) -> None:
    """A leader counts its own entries before its disk has them."""
    original = Leading.count_entries

    def count_entries(self: Leading) -> None:
        durable, self._core.durable_index = self._core.durable_index, self._core.log.last_index
        original(self)
        self._core.durable_index = durable

    patch.setattr(Leading, "count_entries", count_entries)


def promise_forgotten(patch: pytest.MonkeyPatch) -> None:
    """A voter that hears a leader still votes for another."""
    original = Election.on_request

    def on_request(self: Election, request: VoteRequest) -> None:
        promised, self._core.promised_until = self._core.promised_until, float("-inf")
        original(self, request)
        self._core.promised_until = promised

    patch.setattr(Election, "on_request", on_request)


def promise_not_renewed_at_restart(patch: pytest.MonkeyPatch) -> None:
    """A peer that has just started votes at once, though it may have promised not to."""
    original = Server.start

    def start(self: Server, *, is_new: bool = False) -> None:
        original(self, is_new=True)

    patch.setattr(Server, "start", start)


def lease_kept_in_transfer(patch: pytest.MonkeyPatch) -> None:
    """A leader continues to read under its lease during a transfer."""
    patch.setattr(Leading, "has_lease", lambda self, now: now < self.lease.until)


def lease_from_the_answer(patch: pytest.MonkeyPatch) -> None:
    """The lease starts at the response, not at the beginning of the round."""
    original = Leading._count_round

    def count_round(self: Leading) -> None:
        before = self.lease.until
        original(self)
        if self.lease.until != before:
            self.lease.until = self._core.now + self._core.options.lease

    patch.setattr(Leading, "_count_round", count_round)


def lease_without_majority(patch: pytest.MonkeyPatch) -> None:
    """Any response renews the lease."""
    original = Leading.on_response

    def on_response(self: Leading, response: AppendResponse) -> None:
        original(self, response)
        self.lease.heard(response.round, self._core.options.lease)

    patch.setattr(Leading, "on_response", on_response)


def safe_time_too_high(patch: pytest.MonkeyPatch) -> None:
    """The safe time that is sent is a second ahead of the announced one."""
    original = Leading.announce_safe_time

    def announce_safe_time(self: Leading, timestamp: int, index: int) -> None:
        original(self, timestamp + (1_000_000 << 12), index)

    patch.setattr(Leading, "announce_safe_time", announce_safe_time)


def safe_index_ignored(patch: pytest.MonkeyPatch) -> None:
    """A follower adopts a safe time before it has the entries that belong to it."""

    def take_safe_time(self: Following, safe_time: int, safe_index: int) -> None:
        self.safe_time = max(self.safe_time, safe_time)

    patch.setattr(Following, "_take_safe_time", take_safe_time)


def safe_time_kept_over_undecided_entries(patch: pytest.MonkeyPatch) -> None:
    """A former leader continues to serve what it has announced, though a later one may commit entries below."""

    def lasting_safe_time(self: Leading) -> tuple[int, int]:
        return self._replication.safe_time, self._core.commit_index

    patch.setattr(Leading, "lasting_safe_time", lasting_safe_time)


def clock_limit_ignored(patch: pytest.MonkeyPatch) -> None:
    """A new leader starts from its own clock, and ignores the limits of its voters."""
    original = Leading.__init__

    def init(self: Leading, core: Core, clock_floor: int) -> None:
        original(self, core, 0)

    patch.setattr(Leading, "__init__", init)


def clock_limit_not_durable(patch: pytest.MonkeyPatch) -> None:
    """In a crash the driver loses the limit up to which it has allowed leaders to assign timestamps."""

    original = Server.start

    def start(self: Server, *, is_new: bool = False) -> None:
        if self.disk is not None:
            self.disk.clock_limit = self.disk.clock_lead = 0
        original(self, is_new=is_new)

    patch.setattr(Server, "start", start)


def clock_limit_before_a_majority(patch: pytest.MonkeyPatch) -> None:
    """A leader assigns timestamps up to its newest round's limit, heard or not."""
    original = Lease.begin

    def begin(self: Lease, now: float, clock_limit: int) -> None:
        original(self, now, clock_limit)
        self.timestamp_limit = self.clock_limit

    patch.setattr(Lease, "begin", begin)


def refusals_ignored(patch: pytest.MonkeyPatch) -> None:
    """A leader does not go back if a peer's log does not match."""
    patch.setattr(Leading, "_refused", lambda self, progress, committed_index: None)


def lost_messages_forgotten(patch: pytest.MonkeyPatch) -> None:
    """Going back does not clear the messages in flight: a full window stays full."""

    def rewind(self: PeerProgress, index: int, round: int) -> None:
        self.next_index, self.rewound_round = index + 1, round

    patch.setattr(PeerProgress, "rewind", rewind)


def copies_never_wanted(patch: pytest.MonkeyPatch) -> None:
    """A leader never reports that a peer needs entries that its log no longer has."""
    patch.setattr(Replication, "ask_for_copy", lambda self, progress: setattr(progress, "needs_copy", True))


def commits_what_may_differ(patch: pytest.MonkeyPatch) -> None:
    """A follower commits up to the end of its log, not only up to where that is known to match the leader's."""
    original = Following._take

    def take(self: Following, request: AppendRequest) -> None:
        original(self, request)
        committed = min(request.commit_index, self._core.log.last_index)
        if committed > self._core.commit_index:
            self._core.commit(committed)

    patch.setattr(Following, "_take", take)


def overtaken_messages_cut(patch: pytest.MonkeyPatch) -> None:
    """An overtaken message truncates the entries of later ones, though nothing conflicts."""
    original = Following._new_entries

    def new_entries(self: Following, entries: tuple[Entry, ...]) -> tuple[Entry, ...]:
        if self._core.commit_index < entries[-1].index < self._core.log.last_index:
            self._core.truncate(entries[-1].index)
        return original(self, entries)

    patch.setattr(Following, "_new_entries", new_entries)


def quiescing_peers_never_campaign(patch: pytest.MonkeyPatch) -> None:
    """A quiescing voter campaigns under no circumstances, though no other could be elected."""
    original = Core.wait_for_leader

    def wait_for_leader(self: Core, is_quiet: bool = True) -> None:
        original(self, is_quiet)
        if is_quiet and self.is_quiescing and not self.members.is_only_voter(self.id):
            self.election_at = FOREVER

    patch.setattr(Core, "wait_for_leader", wait_for_leader)


def quiescing_leaders_stay(patch: pytest.MonkeyPatch) -> None:
    """A quiescing leader waits until a client requests a transfer."""
    patch.setattr(LeadershipTransfer, "begin_if_quiescing", lambda self: None)


BUGS: dict[Plant, set[Invariant]] = {
    vote_given_twice: {Invariant.ELECTION_SAFETY},
    vote_not_durable: {Invariant.ELECTION_SAFETY},
    previous_term_not_checked: {Invariant.LOG_MATCHING},
    older_terms_counted: {Invariant.LEADER_COMPLETENESS, Invariant.STATE_MACHINE_SAFETY},
    vote_for_shorter_log: {Invariant.LEADER_COMPLETENESS},
    only_last_index_compared: {Invariant.LEADER_COMPLETENESS},
    acknowledged_before_durable: {Invariant.DURABILITY},
    leader_counts_itself_too_early: {Invariant.DURABILITY},
    promise_forgotten: {Invariant.LEASE_SAFETY},
    promise_not_renewed_at_restart: {Invariant.LEASE_SAFETY},
    lease_kept_in_transfer: {Invariant.LEASE_SAFETY},
    lease_from_the_answer: {Invariant.LEASE_SAFETY},
    lease_without_majority: {Invariant.LEASE_SAFETY},
    safe_time_too_high: {Invariant.TIMESTAMPS},
    safe_index_ignored: {Invariant.TIMESTAMPS},
    safe_time_kept_over_undecided_entries: {Invariant.TIMESTAMPS},
    clock_limit_ignored: {Invariant.TIMESTAMPS},
    clock_limit_not_durable: {Invariant.TIMESTAMPS},
    clock_limit_before_a_majority: {Invariant.TIMESTAMPS},
    refusals_ignored: {Invariant.LIVENESS},
    lost_messages_forgotten: {Invariant.LIVENESS},
    copies_never_wanted: {Invariant.LIVENESS},
    commits_what_may_differ: {Invariant.STATE_MACHINE_SAFETY},
    quiescing_peers_never_campaign: {Invariant.LIVENESS},
    quiescing_leaders_stay: {Invariant.LIVENESS},
    overtaken_messages_cut: {Invariant.DURABILITY, Invariant.LEADER_COMPLETENESS},
}


KINDS: dict[Plant, Callable[[random.Random], Profile]] = {
    vote_not_durable: Profile.restless,
    only_last_index_compared: Profile.restless,
    older_terms_counted: Profile.restless,
    promise_forgotten: Profile.wary,
    promise_not_renewed_at_restart: Profile.wary,
    lease_kept_in_transfer: Profile.wary,
    lease_from_the_answer: Profile.wary,
}
"""Rare bugs are searched in schedules with the right kind of trouble."""


@pytest.mark.slow
@pytest.mark.parametrize("plant", BUGS, ids=lambda plant: plant.__name__)
def test_planted_bug_is_found_and_its_seed_fails_again(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    draw = KINDS.get(plant, Profile.draw)
    violation = find_violation(range(SEEDS), BUGS[plant], draw)
    assert violation is not None, f"not found in {SEEDS} schedules: {plant.__doc__}"
    assert violation.seed is not None
    (first, trace), again = _replay(violation.seed, draw), _replay(violation.seed, draw)
    assert (first.events, str(first)) == (violation.events, str(violation)), "keeping a trace changes nothing"
    assert trace
    assert (str(again[0]), again[1]) == (str(first), trace)


def _replay(seed: int, draw: Callable[[random.Random], Profile]) -> tuple[InvariantViolation, str]:
    """Returns how a schedule fails, and the digest of its trace."""
    simulation = Simulation(seed, profile=draw(random.Random(seed)), keeps_trace=True)
    with pytest.raises(InvariantViolation) as caught:
        simulation.run()
    return caught.value, simulation.trace_hash
