"""Remote bootstrap: the copied files, the state after a crash, and the state that a server must keep."""

from __future__ import annotations

import itertools
import random
from typing import Any

import msgspec
import pytest
from cluster_tablets_support import TABLET, Group, batch, rows_at, soon, until
from nyala.cluster.consensus.consensus_file import read_consensus, write_consensus
from nyala.cluster.consensus.log import log_retention
from nyala.cluster.raft.messages import Peer
from nyala.cluster.tablets.bootstrap import BootstrapSources, copy_replica, remove_data
from nyala.cluster.tablets.superblock import ReplicaState, Superblock
from nyala.cluster.wire.messages.methods import BeginBootstrap, EndBootstrap, FileChunk, ReadFile
from nyala.errors import CorruptionError, DiskError, ProtocolError, ReplicaUnavailable
from nyala.model.store import Op
from nyala.storage.files.io_limit import IoLimit
from nyala.storage.files.memory_filesystem import CrashableFileSystem, FaultyFileSystem


def filled(group: Group) -> None:
    group.write(batch(range(300)))
    group.leader().replica.flush()
    group.write(batch(range(100), "u", 1), Op.UPDATE)
    group.write(batch(range(300, 310)))


def state_of(server: Any) -> ReplicaState:
    superblock = Superblock.read(server.fs, server.directory)
    assert superblock is not None
    return superblock.state


def test_the_own_term_and_vote_outlive_a_copy() -> None:
    with Group() as group:
        filled(group)
        source, victim = group.leader(), group.followers()[0]
        victim.replica.close()
        victim.replica = None
        kept = msgspec.structs.replace(read_consensus(victim.fs, victim.directory), term=77, vote="s1")
        write_consensus(victim.fs, victim.directory, kept)
        copy_replica(source.bootstrap_call, TABLET, victim.peer.id, victim.fs, victim.directory)
        found = read_consensus(victim.fs, victim.directory)
        assert (found.term, found.vote) == (77, "s1")
        assert found.base_index == source.replica.tablet.metadata.replay_index > 0
        victim.open()
        assert len(rows_at(victim.replica, group.leader().clock.now())) == 310


@pytest.mark.parametrize("seed", range(3))
def test_a_crash_at_any_sync_leaves_a_copy_that_is_whole_or_says_so(seed: int) -> None:
    with Group(1) as group:
        filled(group)
        source = group.servers[0]
        crashes: list[CrashableFileSystem] = []
        rng = random.Random(seed)
        fs = CrashableFileSystem(on_sync=lambda _: crashes.append(fs.crash(rng.choice([0.0, 0.5, 1.0]), rng)))
        directory = f"/data/{TABLET}"
        copy_replica(source.bootstrap_call, TABLET, "s9", fs, directory)
        assert len(crashes) > 10
        group.call(lambda r: r.consensus.change("add", Peer("s9", "s9:1"), None, soon()))
        states = []
        for number, crashed in enumerate(crashes):
            superblock = Superblock.read(crashed, directory) if crashed.exists(directory) else None
            states.append(None if superblock is None else superblock.state)
            if superblock is not None and superblock.state is ReplicaState.COPYING and number % 4 == 0:
                copy_replica(source.bootstrap_call, TABLET, "s9", crashed, directory)
                states[-1] = ReplicaState.COPYING
                assert state_of_fs(crashed, directory) is ReplicaState.READY
        assert states == sorted(states, key=lambda state: [None, ReplicaState.COPYING, ReplicaState.READY].index(state))
        sink = group.add_server("s9", fs=crashes[-1])
        if states[-1] is not ReplicaState.READY:
            copy_replica(source.bootstrap_call, TABLET, "s9", sink.fs, directory)
        sink.open()
        assert rows_at(sink.replica, source.clock.now()) == rows_at(source.replica)


def state_of_fs(fs: Any, directory: str) -> ReplicaState:
    superblock = Superblock.read(fs, directory)
    assert superblock is not None
    return superblock.state


def test_pieces_that_are_damaged_on_their_way_and_disks_that_fail_end_a_copy() -> None:
    with Group(1) as group:
        filled(group)
        source, sink = group.servers[0], group.add_server("s9", fs=FaultyFileSystem(CrashableFileSystem()))

        def damaged(request: Any) -> Any:
            reply = source.bootstrap_call(request)
            if isinstance(request, ReadFile):
                reply = FileChunk(data=b"x" + reply.data[1:], checksum=reply.checksum)
            return reply

        with pytest.raises(CorruptionError, match="in transfer from the source"):
            copy_replica(damaged, TABLET, "s9", sink.fs, sink.directory)
        assert state_of(sink) is ReplicaState.COPYING
        sink.fs.fail("sync", "*/rowsets/*", times=1)
        with pytest.raises(DiskError):
            copy_replica(source.bootstrap_call, TABLET, "s9", sink.fs, sink.directory)
        with pytest.raises(ReplicaUnavailable, match="COPYING"):
            sink.open()
        remove_data(sink.fs, sink.directory)
        assert sink.fs.list(sink.directory) == ["replica"]
        copy_replica(source.bootstrap_call, TABLET, "s9", sink.fs, sink.directory)
        assert state_of(sink) is ReplicaState.READY


def test_both_sides_of_a_copy_are_charged_to_their_ceilings() -> None:
    with Group(1) as group, Group(1) as other:
        filled(group)
        source, sink = group.servers[0], other.servers[0]
        read, written = IoLimit(), IoLimit()
        source.sources = BootstrapSources(read)
        with written.counted():
            copy_replica(source.bootstrap_call, TABLET, "s9", sink.fs, "/copy")
        size = sum(sink.fs.open(f"/copy/rowsets/{name}").size for name in sink.fs.list("/copy/rowsets"))
        assert written.written_bytes == size > 0
        # The source reads each file twice, to check it as a whole and to send it, and some footers once more.
        assert 2 * size <= read.read_bytes < 3 * size
        assert written.read_bytes == read.written_bytes == 0


def test_a_session_holds_files_and_log_until_it_ends() -> None:
    with Group(1, segment_bytes=5000) as group:
        filled(group)
        source = group.servers[0]
        session = source.bootstrap_call(BeginBootstrap(tablet_id=TABLET, receiver="s9"))
        for number in range(5):
            group.write(batch(range(1000 * number, 1000 * number + 200), n=number), Op.UPSERT)
            source.replica.flush()
            source.replica.compact()
        path, size = next(iter(session.files.items()))
        assert source.replica.consensus.term_at(session.base_index + 1) is not None
        chunk = source.bootstrap_call(ReadFile(session=session.session, path=path, offset=0, length=size))
        assert len(chunk.data) == size
        for bad in (("../consensus", 0, 1), (path, -1, 1), (path, 0, 1 << 30)):
            request = ReadFile(session=session.session, path=bad[0], offset=bad[1], length=bad[2])
            with pytest.raises(ProtocolError):
                source.bootstrap_call(request)
        source.bootstrap_call(EndBootstrap(session=session.session))
        with pytest.raises(ReplicaUnavailable, match="begin another one"):
            source.bootstrap_call(ReadFile(session=session.session, path=path, offset=0, length=1))
        source.replica.tablet.remove_retired()
        assert not source.fs.exists(f"{source.directory}/{path}")


def test_sessions_that_nobody_uses_end() -> None:
    with Group(1) as group:
        filled(group)
        sources = BootstrapSources(ttl=0.0)
        session = sources.begin(group.servers[0].replica, "s9")
        sources.expire()
        with pytest.raises(ReplicaUnavailable):
            sources.read(ReadFile(session=session.session, path=next(iter(session.files)), offset=0, length=1))


def test_the_log_waits_for_who_has_copied_however_much_is_written_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_retention, "BACKLOG_BYTES", 10_000)
    with Group(segment_bytes=5000) as group:
        group.write(batch(range(300)))
        source, sink = group.leader(), group.add_server("s9", segment_bytes=5000)
        beginnings = itertools.count(1000, 200)

        def write_and_flush() -> None:
            for first in itertools.islice(beginnings, 8):
                group.write(batch(range(first, first + 200)))
                source.replica.flush()

        def call(request: Any) -> Any:
            reply = source.bootstrap_call(request)
            if isinstance(request, BeginBootstrap | EndBootstrap):
                write_and_flush()
            return reply

        copy_replica(call, TABLET, "s9", sink.fs, sink.directory)
        write_and_flush()
        assert source.replica.tablet.log.size > 60_000, "the backlog alone would be a sixth of that"
        sink.open()
        group.call(lambda r: r.consensus.change("add", Peer("s9", sink.peer.address), None, soon()))
        until(lambda: sink.replica.consensus.status().applied_index >= source.replica.consensus.status().applied_index)
        assert not source.wanted, "the sink is never told to copy again"
        assert rows_at(sink.replica, source.clock.now()) == rows_at(source.replica, source.clock.now())
        until(lambda: has_trimmed(source, 30_000))


def test_the_log_waits_a_minute_for_who_does_not_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_retention, "BACKLOG_BYTES", 10_000)
    monkeypatch.setattr(log_retention, "HOLD_SECONDS", 0.2)
    with Group(segment_bytes=5000) as group:
        group.write(batch(range(300)))
        source, sink = group.leader(), group.add_server("s9", segment_bytes=5000)
        copy_replica(source.bootstrap_call, TABLET, "s9", sink.fs, sink.directory)
        for first in range(1000, 2600, 200):
            group.write(batch(range(first, first + 200)))
            source.replica.flush()
        until(lambda: has_trimmed(source, 30_000))


def has_trimmed(server: Any, most_bytes: int) -> bool:
    server.replica.tablet.trim_log()
    return bool(server.replica.tablet.log.size < most_bytes)
