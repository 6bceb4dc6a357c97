"""Durability of a peer's state: term and vote before they are sent, results with the rows they belong to."""

from __future__ import annotations

import threading

import msgspec
import pytest
from cluster_consensus_support import PATIENCE, Group, eventually
from hypothesis import given
from hypothesis import strategies as st
from nyala.cluster.consensus.consensus_file import ConsensusFile, ConsensusState, read_consensus, write_consensus
from nyala.cluster.consensus.log.tracked import CallHeader, as_log_entry, decode_tracked, encode_tracked
from nyala.cluster.raft.messages import Configuration, Entry, Peer, VoteResponse
from nyala.cluster.wire.peers import PeerBatch
from nyala.errors import CorruptionError
from nyala.model.clock import LOGICAL_BITS
from nyala.storage.files.memory_filesystem import MemoryFileSystem
from nyala.storage.log.tablet_log import WriteContext
from nyala.storage.log.wal_format import EntryKind

CLIENT = "0123456789abcdef0123456789abcdef"


def test_a_vote_is_durable_before_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with Group() as group:
        gate, held_above, told = threading.Event(), [2**63], list[int]()
        deliver, update = group.network.deliver, ConsensusFile.update

        def watch(sender: Peer, peer: Peer, batch: PeerBatch) -> None:
            if not gate.is_set():
                votes = [m for _, m in batch.messages if isinstance(m, VoteResponse) and m.granted and not m.pre]
                told.extend(vote.term for vote in votes if vote.term > held_above[0])
            deliver(sender, peer, batch)

        def slow(file: ConsensusFile, **changes: int | str | None) -> None:
            """A disk on which a new term is not written until the gate is open."""
            term = changes.get("term")
            if isinstance(term, int) and term > held_above[0]:
                gate.wait(PATIENCE)
            update(file, **changes)

        def is_held() -> bool:
            """True if all have one leader's term, and no later one is durable."""
            held_above[0] = group.leader().consensus.status().term
            if {server.consensus.status().term for server in group.running} == {held_above[0]}:
                return True
            held_above[0] = 2**63
            gate.set()
            gate.clear()
            return False

        monkeypatch.setattr(group.network, "deliver", watch)
        monkeypatch.setattr(ConsensusFile, "update", slow)
        eventually(is_held)
        group.stop(group.leader())
        voters = group.running
        eventually(lambda: any(server.consensus.status().term > held_above[0] for server in voters))
        assert not any(server.consensus.is_serving for server in voters)
        assert not told
        gate.set()
        group.leader()
        for server in voters:
            status = server.consensus.status()
            eventually(lambda: read_consensus(server.fs, "dir/t1").term >= status.term)  # noqa: B023


def test_the_file_round_trips_and_its_damage_is_found() -> None:
    fs = MemoryFileSystem()
    fs.make_directory("t")
    peers = Configuration((Peer("a", "h:1"), Peer("b", "h:2")), 7)
    state = ConsensusState(3, "b", peers, 10, 2, 99, 5)
    write_consensus(fs, "t", state)
    assert read_consensus(fs, "t") == state
    file = ConsensusFile(fs, "t")
    file.update(term=4, vote="")
    assert read_consensus(fs, "t") == msgspec.structs.replace(state, term=4, vote="") == file.state
    older, newer = Configuration(peers.peers[:1], 3), Configuration(peers.peers[:1], 9)
    file.update(base_index=25, configuration=newer)
    file.update(term=5, configuration=older)
    assert (file.state.term, file.state.configuration) == (5, newer), "who comes late takes nothing back"
    assert read_consensus(fs, "t") == file.state
    assert state.clock_limit_at(1000) == 1005 << LOGICAL_BITS
    data = bytearray(fs.open("t/consensus").read_at(0, 1000))
    data[-1] ^= 1
    fs.create("t/consensus").write(data)
    with pytest.raises(CorruptionError):
        read_consensus(fs, "t")


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1), st.binary(max_size=40), st.binary(max_size=40))
def test_tracked_entries_round_trip(sequence: int, first_incomplete: int, result: bytes, body: bytes) -> None:
    header = CallHeader(CLIENT, sequence, first_incomplete, result)
    encoded = encode_tracked(header, EntryKind.ROW, body)
    assert (len(encoded) - len(body)) % 8 == 0, "the rows keep their alignment"
    assert decode_tracked(encoded) == (header, EntryKind.ROW, body)
    inner, found = as_log_entry(Entry(2, 5, 77, EntryKind.TRACKED, encoded))
    assert (inner.term, inner.index, inner.timestamp, inner.kind, bytes(inner.body)) == (2, 5, 77, EntryKind.ROW, body)
    assert found == header
    for length in range(len(encoded) - len(body)):
        with pytest.raises(CorruptionError):
            decode_tracked(encoded[:length])


class Tracked(WriteContext):
    """Makes a TRACKED entry."""

    def __init__(self) -> None:
        super().__init__()
        self.stamps: list[int] = []

    def encode(self, timestamp: int, kind: EntryKind, body: bytes) -> tuple[EntryKind, bytes]:
        self.stamps.append(timestamp)
        return EntryKind.TRACKED, encode_tracked(CallHeader(CLIENT, 1, 1, b"done"), kind, body)


def test_a_context_encodes_the_bodies_of_a_write_as_one_entry() -> None:
    with Group() as group:
        leader = group.leader()
        log, clock = leader.consensus.log, leader.clock
        context = Tracked()
        with leader.replica.write_lock:
            timestamp = clock.now()
            first = log.append(timestamp, EntryKind.WRITE, [b"part one,", b"part two"], context=context)
            second = log.append(clock.now(), EntryKind.ROW, [b"plain"])
        log.sync(second)
        assert first.durable and (first.count, second.index) == (1, first.index + 1)
        assert context.stamps == [timestamp]
        follower = group.others(leader)[0].replica
        eventually(lambda: bool(follower.applied) and follower.applied[-1].index == second.index)
        tracked, plain = follower.applied[-2:]
        inner, found = as_log_entry(tracked)
        assert found == CallHeader(CLIENT, 1, 1, b"done")
        assert (inner.kind, bytes(inner.body)) == (EntryKind.WRITE, b"part one,part two")
        assert (plain.kind, plain.body) == (EntryKind.ROW, b"plain")


def test_a_restarted_peer_starts_above_every_limit_it_let_pass() -> None:
    with Group() as group:
        group.write(b"x")
        limits = {server.peer.id: server.consensus.clock_limit for server in group.servers}
        for server in list(group.running):
            group.stop(server)
        for server in group.servers:
            group.start(server)
        for server in group.servers:
            assert server.consensus.clock_limit >= limits[server.peer.id]
