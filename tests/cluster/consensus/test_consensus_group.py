"""Three servers in one process: leadership, commits, recovery."""

from __future__ import annotations

import logging
import random
import threading
import time

import pytest
from cluster_consensus_support import OPTIONS, PATIENCE, TABLET, Group, Server, ToyReplica, eventually
from examples import cases
from nyala.cluster.consensus.consensus import Consensus
from nyala.cluster.raft.messages import Configuration, Peer, PeerRole
from nyala.errors import ConfigurationRefused, DeadlineExceeded, NotTheLeader, ReplicaUnavailable, StaleSchema
from nyala.storage.files.memory_filesystem import CrashableFileSystem, FaultyFileSystem
from nyala.storage.log.wal_format import EntryKind


def soon() -> float:
    return time.monotonic() + PATIENCE


def test_elects_replicates_and_applies_in_order() -> None:
    with Group() as group:
        leader = group.leader()
        bodies = [b"%d" % n for n in range(200)]
        for body in bodies:
            leader.replica.write(body)
        group.agree(bodies)
        assert not [entry for entry in leader.replica.applied if entry.kind == EntryKind.WRITE]
        for server in group.others(leader):
            assert server.consensus.leader_address() == leader.peer.address
            with pytest.raises(NotTheLeader) as caught:
                server.replica.write(b"no")
            assert caught.value.leader == leader.peer.address


@pytest.mark.slow
def test_a_new_leader_has_everything_acknowledged() -> None:
    with Group() as group:
        written: list[bytes] = []
        for round in range(3):
            for n in range(20):
                written.append(b"%d/%d" % (round, n))
                group.write(written[-1])
            stopped = group.leader()
            group.stop(stopped)
            group.write(b"without %d" % round)
            written.append(b"without %d" % round)
            group.start(stopped)  # its memory is empty: the log has all of it
            group.leader()
        group.agree(written)


def test_a_leader_that_is_cut_off_fails_its_entries_and_takes_them_back() -> None:
    with Group() as group:
        old = group.leader()
        old.replica.write(b"kept")
        group.network.cut.add(old.peer.id)
        ticket = old.replica.start(b"lost")
        mark = old.consensus.log.mark()
        assert mark.index == ticket.index == old.consensus.log.last_index
        with pytest.raises(DeadlineExceeded):
            old.consensus.wait(ticket, time.monotonic() + 0.05)
        assert not ticket.is_decided and old.replica.bodies == [b"kept", b"lost"]
        group.write(b"after")
        group.network.cut.clear()
        eventually(lambda: ticket.is_decided)
        assert isinstance(ticket.error, NotTheLeader)
        group.agree([b"kept", b"after"])
        assert mark.index < ticket.index
        with pytest.raises(NotTheLeader):
            old.consensus.wait(ticket, soon())


def test_entries_of_a_leader_that_lost_its_place_may_be_committed_after_all() -> None:
    with Group() as group:
        old = group.leader()
        followers = group.others(old)
        # The entry arrives, the responses do not: the leader does not learn that a majority has it.
        deliver = group.network.deliver

        def one_way(sender: Peer, peer: Peer, batch: object) -> None:
            if peer.id != old.peer.id:
                deliver(sender, peer, batch)  # type: ignore[arg-type]

        group.network.deliver = one_way  # type: ignore[method-assign]
        ticket = old.replica.start(b"0")
        with pytest.raises(DeadlineExceeded):
            old.consensus.wait(ticket, time.monotonic() + 0.05)
        eventually(lambda: any(server.consensus.is_serving for server in followers))
        group.network.deliver = deliver  # type: ignore[method-assign]
        old.consensus.wait(ticket, soon())
        assert ticket.durable
        group.agree([b"0"])
        eventually(lambda: old.replica.settled > 0, "somebody settles what no writer waits for")


@pytest.mark.parametrize("durability", ["fsync", "os"])
def test_all_restart_and_nothing_is_lost(durability: str) -> None:
    with Group(durability=durability) as group:
        written = [b"x" * (n % 700) + b"%d" % n for n in range(100)]
        for body in written:
            group.write(body)
        term = group.leader().consensus.status().term
        for server in list(group.running):
            group.stop(server)
        for server in group.servers:
            group.start(server)
        group.write(b"more")
        group.agree([*written, b"more"])
        assert group.leader().consensus.status().term > term


@pytest.mark.parametrize("seed", range(cases(3)))
def test_all_lose_power_and_nothing_acknowledged_is_lost(seed: int) -> None:
    rng = random.Random(seed)
    with Group() as group:
        acknowledged: list[bytes] = []
        for round in range(3):
            for n in range(rng.randint(1, 30)):
                acknowledged.append(b"%d-%d" % (round, n) + b"." * rng.randint(0, 900))
                group.write(acknowledged[-1])
            group.leader().replica.start(b"perhaps %d" % round)
            for server in list(group.running):
                group.running.remove(server)
                server.crash(rng)
            for server in group.servers:
                group.start(server)
            group.leader()
        group.write(b"end")
        eventually(lambda: all(server.replica.bodies[-1:] == [b"end"] for server in group.running))
        for server in group.running:
            found = [body for body in server.replica.bodies if not body.startswith(b"perhaps")]
            assert found == [*acknowledged, b"end"]
        assert len({tuple(server.replica.bodies) for server in group.running}) == 1


def test_what_was_applied_is_not_applied_again() -> None:
    with Group() as group:
        leader = group.leader()
        for n in range(10):
            leader.replica.write(b"%d" % n)
        group.agree([b"%d" % n for n in range(10)])
        server = group.others(leader)[0]
        memory, applied = dict(server.replica.memory), server.consensus.status().applied_index
        group.stop(server)
        leader.replica.write(b"ten")
        server.start(applied, memory)
        group.running.append(server)
        group.agree([*(b"%d" % n for n in range(10)), b"ten"])
        assert all(entry.index > applied for entry in server.replica.applied)


def test_concurrent_writers_share_syncs() -> None:
    syncs: list[str] = []
    with Group() as group:
        leader = group.leader()
        leader.replica.write(b"first")
        assert isinstance(leader.fs, CrashableFileSystem)

        def slow(what: str) -> None:
            syncs.append(what)
            time.sleep(0.01)

        for server in group.running:
            assert isinstance(server.fs, CrashableFileSystem)
            server.fs.on_sync = slow if server is leader else lambda what: time.sleep(0.01)

        def work(number: int) -> None:
            for n in range(25):
                leader.replica.write(b"%d-%d" % (number, n))

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for server in group.running:
            server.fs.on_sync = None  # type: ignore[attr-defined]
        assert len(syncs) < 150, "200 entries were written by 8 threads"
        eventually(lambda: all(len(server.replica.bodies) == 201 for server in group.running))
        assert len({tuple(server.replica.bodies) for server in group.running}) == 1


def test_a_network_that_loses_messages() -> None:
    with Group() as group:
        group.network.lost = 0.2
        written = [b"%d" % n for n in range(40)]
        for body in written:
            while True:
                ticket = None
                try:
                    ticket = group.leader().replica.start(body)
                    group.leader().consensus.wait(ticket, soon())
                    break
                except NotTheLeader:
                    assert ticket is None or ticket.error is not None
        group.network.lost = 0.0
        group.agree(written)


def test_a_commit_does_not_wait_for_the_leaders_own_disk() -> None:
    with Group() as group:
        leader = group.leader()
        leader.replica.write(b"first")
        gate = threading.Event()
        leader.fs.on_sync = lambda what: gate.wait(PATIENCE)  # type: ignore[attr-defined]
        try:
            ticket = leader.replica.write(b"second")
            assert ticket.durable
            assert leader.consensus.log.synced_index < ticket.index
        finally:
            gate.set()
        leader.consensus.log.sync_now()
        assert leader.consensus.log.synced_index >= ticket.index


def test_a_failing_disk_fails_the_replica_and_nothing_acknowledged() -> None:
    with Group() as group:
        group.write(b"first")
        server = group.others(group.leader())[0]
        group.stop(server)
        server.fs = faulty = FaultyFileSystem(server.fs)
        group.start(server)
        eventually(lambda: server.replica.bodies == [b"first"])
        faulty.fail("sync", "*.log", message="Input/output error")
        group.write(b"second")
        eventually(lambda: server.replica.error is not None)
        with pytest.raises(ReplicaUnavailable, match="stopped here"):
            server.consensus.check_serving()
        assert server.consensus.status().error
        group.write(b"third")
        group.running.remove(server)
        faulty.heal()
        server.stop()
        group.start(server)
        group.agree([b"first", b"second", b"third"])


def test_a_leader_whose_disk_fails_lets_its_waiters_know() -> None:
    with Group(1) as group:
        server = group.leader()
        group.stop(server)
        server.fs = faulty = FaultyFileSystem(server.fs)
        group.start(server)
        group.leader()
        faulty.fail("write", "*.log", message="Input/output error")
        ticket = server.replica.start(b"lost")
        with pytest.raises(ReplicaUnavailable):
            server.consensus.wait(ticket, soon())
        assert not ticket.durable
        eventually(lambda: server.replica.error is not None)
        faulty.heal()


@pytest.mark.parametrize("full", [("leader",), ("follower",), ("leader", "follower"), ("leader", "follower", "other")])
def test_a_full_disk_is_a_passing_state(full: tuple[str, ...]) -> None:
    """Unwritten entries are not acknowledged; a majority with space continues; nothing fails, and everything recovers
    when there is space again, including after elections."""
    with Group() as group:
        disks: dict[str, FaultyFileSystem] = {}
        for server in list(group.running):
            group.stop(server)
            server.fs = disks[server.peer.id] = FaultyFileSystem(server.fs)
            group.start(server)
        group.write(b"first")
        leader = group.leader()
        names = dict(zip(("leader", "follower", "other"), [leader, *group.others(leader)]))
        for name in full:
            for operation in ("write", "create"):
                disks[names[name].peer.id].fail(operation)
        ticket = leader.replica.start(b"second")
        if len(full) == 1:
            leader.consensus.wait(ticket, soon())
        else:
            time.sleep(1.2)
            assert not ticket.is_decided
            assert leader.replica.error is None
            if len(full) == 3:
                assert leader.consensus.is_serving  # reads continue
                leader.consensus.check_can_serve(leader.clock.now())
        for disk in disks.values():
            disk.heal()
        # Its term cannot be written while the disk is full, so another peer may lead by now.
        eventually(lambda: ticket.is_decided)
        group.write(b"third")
        expected = [b"first", b"second", b"third"] if ticket.error is None else [b"first", b"third"]
        group.agree(expected)
        assert all(server.replica.error is None for server in group.running)


def test_an_error_while_applying_fails_the_replica() -> None:
    with Group() as group:
        leader = group.leader()
        follower = group.others(leader)[0]
        follower.replica.broken = ValueError("cannot apply")
        leader.replica.write(b"x")
        eventually(lambda: follower.replica.error is follower.replica.broken)
        leader.replica.write(b"y")
        group.running.remove(follower)
        follower.stop()
        group.agree([b"x", b"y"])


def test_reads_at_the_leader_need_its_lease() -> None:
    with Group() as group:
        leader = group.leader()
        leader.consensus.check_can_serve(leader.clock.now())
        follower = group.others(leader)[0]
        with pytest.raises(NotTheLeader):
            follower.consensus.check_can_serve(follower.clock.now())
        group.network.cut.add(leader.peer.id)
        with pytest.raises(NotTheLeader):
            while True:
                leader.consensus.check_can_serve(leader.clock.now())
        group.network.cut.clear()


@pytest.mark.slow
def test_followers_become_safe_with_everything_below() -> None:
    with Group() as group:
        leader = group.leader()
        for n in range(30):
            ticket = leader.replica.write(b"%d" % n)
            now = leader.clock.now()
            for server in group.running:
                server.consensus.wait_safe(now, soon())
                if server is not leader:
                    assert server.consensus.applied_index >= ticket.index
                    assert server.replica.bodies[-1] == b"%d" % n
        group.network.cut.add(leader.peer.id)
        for server in group.others(leader):
            with pytest.raises(ReplicaUnavailable):
                server.consensus.wait_safe(server.clock.now() + (10_000_000 << 12), time.monotonic() + 0.1)
        group.network.cut.clear()


def test_a_leader_that_lost_its_majority_serves_what_was_decided_before() -> None:
    with Group() as group:
        leader = group.leader()
        leader.replica.write(b"kept")
        before = leader.clock.now()
        for server in group.others(leader):
            group.stop(server)
        ticket = leader.replica.start(b"undecided")
        after = leader.clock.now()
        leader.consensus.wait_safe(before, soon())
        eventually(lambda: not leader.consensus.is_serving, "the leader gives up")
        leader.consensus.wait_safe(before, soon())
        with pytest.raises(ReplicaUnavailable, match="does not have all"):
            leader.consensus.wait_safe(after, time.monotonic() + 0.1)
        assert not ticket.durable
        assert ticket.error is None


def test_the_last_follower_serves_what_it_had_before_the_others_went() -> None:
    with Group() as group:
        leader = group.leader()
        follower = group.others(leader)[0]
        leader.replica.write(b"kept")
        before = leader.clock.now()
        follower.consensus.wait_safe(before, soon())
        for server in group.others(follower):
            group.stop(server)
        eventually(lambda: not follower.consensus.leader_address(), "the leader is missed")
        follower.consensus.wait_safe(before, soon())
        with pytest.raises(ReplicaUnavailable, match="does not have all"):
            follower.consensus.wait_safe(follower.clock.now(), time.monotonic() + 0.1)


def test_changes_of_leadership_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "nyala.cluster.consensus")

    def logged() -> list[tuple[str, dict[str, object]]]:
        return [(record.getMessage(), vars(record)["fields"]) for record in list(caplog.records)]

    with Group() as group:
        first = group.leader()
        term = first.consensus.status().term
        eventually(lambda: ("leads", {"tablet": TABLET, "term": term}) in logged(), "word of the election")
        first.consensus.transfer(group.others(first)[0].peer.id)
        eventually(lambda: not first.consensus.is_serving, "another leads")
        last = group.leader().consensus.status().term
        eventually(lambda: ("leads no more", {"tablet": TABLET, "term": term}) in logged(), "word of the end")
        eventually(lambda: ("leads", {"tablet": TABLET, "term": last}) in logged(), "word of the next one")
    lines = [(event, fields["term"]) for event, fields in logged()]
    assert len(lines) == len(set(lines)), "each is told once"


def test_timestamps_of_successive_leaders_ascend() -> None:
    with Group() as group:
        for n in range(4):
            group.write(b"%d" % n)
            if n % 2:
                stopped = group.leader()
                group.stop(stopped)
                group.write(b"alone %d" % n)
                group.start(stopped)
        group.leader()
        server = group.running[-1]
        eventually(lambda: len(server.replica.bodies) == 6)
        stamps = [entry.timestamp for entry in server.replica.applied]
        assert stamps == sorted(stamps)


def test_proposals_for_the_replica_are_applied_everywhere_and_alters_hold_writes_back() -> None:
    with Group() as group:
        leader = group.leader()
        leader.replica.write(b"old")
        with leader.replica.write_lock:  # so that the ALTER cannot be applied
            ticket = leader.consensus.propose(EntryKind.ALTER, b"b")
            leader.consensus.wait(ticket, soon())
            with pytest.raises(StaleSchema):
                leader.consensus.log.append(leader.clock.now(), EntryKind.WRITE, [b"early"])
        leader.consensus.wait_applied(ticket.index, soon())
        after = leader.replica.write(b"new")
        group.agree([b"old", b"b", b"new"])
        for server in group.running:
            assert server.consensus.log.schema_at(ticket.index).names == ["a"]
            assert server.consensus.log.schema_at(after.index).names == ["b"]
        server = group.others(leader)[0]
        group.stop(server)
        group.start(server)
        assert server.consensus.log.schema_at(ticket.index).names == ["a"]
        assert server.consensus.log.schema_at(after.index).names == ["b"]


def test_transfer_hands_over_without_waiting_for_a_timeout() -> None:
    with Group() as group:
        leader = group.leader()
        leader.replica.write(b"x")
        target = group.others(leader)[0]
        leader.consensus.transfer(target.peer.id)
        eventually(lambda: target.consensus.is_serving)
        target.replica.write(b"y")
        group.agree([b"x", b"y"])
        with pytest.raises(ConfigurationRefused):
            target.consensus.transfer("nobody")


def test_a_peer_joins_is_promoted_and_another_leaves() -> None:
    with Group() as group:
        leader = group.leader()
        written = [b"%d" % n for n in range(50)]
        for body in written:
            leader.replica.write(body)
        joins = Server("s9", group.network, CrashableFileSystem())
        before = leader.consensus.status().configuration
        joins.create(before)
        joins.start()
        group.running.append(joins)
        changed = leader.consensus.change("add", joins.peer, before.index, soon())
        assert changed.peer("s9") is not None  # a PRE_VOTER, or promoted by now
        eventually(lambda: _role(leader, "s9") is PeerRole.VOTER)
        again = leader.consensus.change("add", joins.peer, None, soon())
        assert again.peer("s9") is not None
        with pytest.raises(ConfigurationRefused):
            leader.consensus.change("remove", group.others(leader)[0].peer, before.index, soon())
        leaves = group.others(leader)[0]
        eventually(lambda: leader.consensus.status().configuration.peer("s9") is not None)
        changed = leader.consensus.change("remove", leaves.peer, None, soon())
        assert changed.peer(leaves.peer.id) is None and len(changed.voters) == 3
        group.stop(leaves)
        leader.replica.write(b"last")
        group.agree([*written, b"last"])


def _role(server: Server, id: str) -> PeerRole | None:
    peer = server.consensus.status().configuration.peer(id)
    return None if peer is None else peer.role


def test_a_server_without_the_data_is_offered_a_copy() -> None:
    with Group() as group:
        leader = group.leader()
        joins = Server("s9", group.network, CrashableFileSystem())
        joins.create(Configuration((joins.peer,)), "another")
        joins.clock = leader.clock
        joins.host = type(leader.host)(
            joins.peer, joins.clock, group.network.transport(joins.peer, joins.clock), OPTIONS
        )
        thread = group.network.attach(joins.host)
        try:
            assert joins.host.get(TABLET) is None
            leader.consensus.change("add", joins.peer, None, soon())
            eventually(lambda: any(peer.id == "s9" for peer in leader.replica.bootstraps))
        finally:
            group.network.detach(joins.host, thread)
            joins.host.close()


def test_the_log_is_trimmed_and_a_peer_too_far_behind_needs_a_copy() -> None:
    with Group(segment_bytes=2000) as group:
        leader = group.leader()
        slow = group.others(leader)[0]
        group.stop(slow)
        anchor = leader.consensus.anchor(1)
        written = [b"%d" % n + b"." * 300 for n in range(60)]
        for body in written:
            leader.replica.write(body)
        log = leader.consensus.log
        log.remove_through(log.last_index)
        assert leader.consensus.term_at(1) is not None, "anchored, and a peer lacks it"
        anchor.close()
        log.remove_through(log.last_index)
        assert leader.consensus.term_at(1) is not None, "a peer lacks it"
        assert log.size == log.size_from(log.last_index + 1), "nothing that could be removed is counted as such"
        group.start(slow)
        group.agree(written)
        eventually(lambda: _removed(leader) or bool(log.remove_through(log.last_index)))
        assert leader.consensus.term_at(1) is None
        base = next(i for i in range(200) if leader.consensus.term_at(i) is not None)
        last, memory = leader.consensus.status().applied_index, dict(leader.replica.memory)
        group.stop(leader)
        leader.start(last, memory)
        group.running.append(leader)
        assert leader.consensus.term_at(base) is not None and leader.consensus.term_at(base - 1) is None
        group.write(b"end")
        group.agree([*written, b"end"])


def test_the_log_is_not_trimmed_in_the_middle_of_a_step() -> None:
    with Group(segment_bytes=2000) as group:
        leader = group.leader()
        for number in range(60):
            leader.replica.write(b"%d" % number + b"." * 300)
        log, driver = leader.consensus.log, leader.consensus._driver
        eventually(lambda: all(p.match_index == log.last_index for p in driver.node.peer_progress().values()))
        noted, gate = threading.Event(), threading.Event()

        def wait(what: str) -> None:
            if "consensus" in what:
                noted.set()
                gate.wait(PATIENCE)

        leader.fs.on_sync = wait  # type: ignore[attr-defined]
        trimming = threading.Thread(target=log.remove_through, args=(log.last_index,))
        trimming.start()
        assert noted.wait(PATIENCE)
        with driver.lock:
            before = driver.log.base_index
            gate.set()
            trimming.join(0.2)
            assert driver.log.base_index == before
            assert driver.log.entries(before + 1, before + 1, 1)
        trimming.join()
        assert driver.log.base_index > before
        with pytest.raises(IndexError):
            driver.log.entries(before + 1, before + 1, 1)


def _removed(server: Server) -> bool:
    server.consensus.log.remove_through(server.consensus.log.last_index)
    return server.consensus.term_at(1) is None


def test_many_tablets_share_threads() -> None:
    with Group() as group:
        tablets = [f"x{n}" for n in range(20)]
        replicas: dict[str, list[ToyReplica]] = {}
        for tablet in tablets:
            replicas[tablet] = [ToyReplica(server.clock) for server in group.running]
            for server, replica in zip(group.running, replicas[tablet]):
                server.create(group.configuration, tablet)
                server.open(tablet, replica)
            _consensus(replicas[tablet][0]).campaign()
        before = threading.active_count()

        def leader(tablet: str) -> ToyReplica | None:
            return next((replica for replica in replicas[tablet] if _consensus(replica).is_serving), None)

        def has_arrived(tablet: str) -> bool:
            return all(replica.bodies == [tablet.encode()] for replica in replicas[tablet])

        eventually(lambda: all(leader(tablet) is not None for tablet in tablets))
        for tablet in tablets:
            serving = leader(tablet)
            assert serving is not None
            serving.write(tablet.encode())
        eventually(lambda: all(has_arrived(tablet) for tablet in tablets))
        assert threading.active_count() <= before


def _consensus(replica: ToyReplica) -> Consensus:
    assert replica.consensus is not None
    return replica.consensus
