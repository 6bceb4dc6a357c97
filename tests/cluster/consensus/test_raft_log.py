"""The replicated log on the disk, against a model: a list of entries of which a part is durable."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from examples import examples
from hypothesis import example, given, settings
from hypothesis import strategies as st
from nyala.cluster.consensus.log.raft_log import RaftLog
from nyala.cluster.raft.messages import Entry
from nyala.errors import CorruptionError, DiskError
from nyala.storage.files.memory_filesystem import CrashableFileSystem, FaultyFileSystem, MemoryFileSystem
from nyala.storage.log.wal_format import EntryKind, decode_header, scan_entries

SCHEMA = pa.schema([pa.field("first", pa.int64())])


def altered(body: bytes) -> pa.Schema:
    return pa.schema([pa.field(body[:8].hex(), pa.int64())])


def open_log(fs: MemoryFileSystem | FaultyFileSystem, known_index: int = 0, **options: int | bool) -> RaftLog:
    arguments = {"segment_bytes": 2500, "cache_bytes": 600, **options}
    return RaftLog(fs, "wal", SCHEMA, known_index=known_index, alter_schema=altered, **arguments)  # type: ignore[arg-type]


def new_file_system() -> CrashableFileSystem:
    fs = CrashableFileSystem()
    fs.make_directory("wal")
    fs.sync_directory("")
    return fs


def entry(index: int, term: int = 1, size: int = 100, kind: EntryKind = EntryKind.WRITE) -> Entry:
    return Entry(term, index, 1000 + index, int(kind), random.Random((index, term).__hash__()).randbytes(size))


def contents(log: RaftLog) -> list[Entry]:
    """Returns all entries, read in pieces."""
    found: list[Entry] = []
    while (first := log.base_index + 1 + len(found)) <= log.last_index:
        found += log.entries(first, log.last_index, 700)
    return found


class Model:
    """The expected content of a log, before and after a crash."""

    def __init__(self) -> None:
        self.base = (0, 0)
        self.entries: list[Entry] = []
        self.durable = 0
        self.ever: dict[int, set[bytes]] = {}

    @property
    def last(self) -> int:
        return self.base[0] + len(self.entries)

    def append(self, entries: list[Entry]) -> None:
        self.entries += entries
        for new in entries:
            self.ever.setdefault(new.index, set()).add(bytes(str(new), "ascii"))

    def truncate(self, last: int) -> None:
        del self.entries[last - self.base[0] :]
        self.durable = min(self.durable, last)

    def rebase(self, base: tuple[int, int]) -> None:
        del self.entries[: base[0] - self.base[0]]
        self.base = base

    def schema_names(self, index: int) -> str:
        return next(
            (e.body[:8].hex() for e in reversed(self.entries) if e.index < index and e.kind == EntryKind.ALTER), ""
        )

    def check(self, log: RaftLog) -> None:
        assert contents(log) == self.entries
        assert (log.base_index, log.last_index) == (self.base[0], self.last)
        assert log.term(log.base_index) == self.base[1]
        for e in self.entries:
            assert log.term(e.index) == e.term
            if name := self.schema_names(e.index):
                assert log.schema_at(e.index).names == [name]
        assert log.term(self.last + 1) is None and log.term(self.base[0] - 1) is None

    def adopt(self, log: RaftLog) -> None:
        """After a crash: durable entries exist, and every other one was appended once."""
        found = contents(log)
        kept = self.durable - self.base[0]
        assert found[:kept] == self.entries[:kept]
        assert len(found) >= kept
        for e in found[kept:]:
            assert bytes(str(e), "ascii") in self.ever[e.index]
        terms = [e.term for e in found]
        assert terms == sorted(terms)
        self.entries, self.durable = found, log.last_index


NAMES = ["append", "append", "persist", "persist", "truncate", "trim", "reopen", "crash"]
OPERATIONS = st.lists(st.tuples(st.sampled_from(NAMES), st.integers(0, 10**6)), max_size=40)


@settings(max_examples=examples(150), deadline=None)
@given(operations=OPERATIONS, syncs=st.booleans())
@example(  # an empty segment that recovery removed reappeared with a crash, after entries that were truncated meanwhile
    operations=[("append", 0), ("persist", 22679), ("truncate", 1), ("persist", 0), ("crash", 1)], syncs=False
)
def test_model(operations: list[tuple[str, int]], syncs: bool) -> None:
    fs, model, term = new_file_system(), Model(), 1
    log = open_log(fs, syncs=syncs)
    for operation, number in operations:
        rng = random.Random(number)
        if operation == "append":
            kinds = [EntryKind.ALTER if rng.random() < 0.05 else EntryKind.WRITE for _ in range(rng.randint(1, 12))]
            new = [entry(model.last + 1 + n, term, rng.randint(8, 500), kind) for n, kind in enumerate(kinds)]
            log.append(new)
            model.append(new)
        elif operation == "truncate":
            term += 1
            last = rng.randint(model.base[0], model.last)
            log.truncate(last)
            model.truncate(last)
        elif operation == "persist":
            force = rng.random() < 0.5
            crashed: list[CrashableFileSystem] = []
            if rng.random() < 0.3:
                countdown = [rng.randint(0, 4)]

                def crash(what: str, countdown: list[int] = countdown, rng: random.Random = rng) -> None:
                    countdown[0] -= 1
                    if countdown[0] == 0:
                        crashed.append(fs.crash(rng.random(), rng))  # noqa: B023

                fs.on_sync = crash
            position = log.persist(force)
            fs.on_sync = None
            if crashed:
                fs = crashed[0]
                log = open_log(fs, syncs=syncs, base_index=model.base[0], base_term=model.base[1])
                model.adopt(log)
            else:
                assert position == (model.last, log.term(model.last))
                log.note_reported(model.last)
                assert not log.has_work
                if syncs or force:
                    assert log.synced_index == model.last
                    model.durable = model.last
        elif operation == "trim":
            base = log.new_base(rng.randint(0, model.durable))
            if base is not None:
                log.forget(base[0])
                log.remove_files()
                model.rebase(base)
        elif operation == "reopen":
            log.close()
            log = open_log(fs, syncs=syncs, base_index=model.base[0], base_term=model.base[1])
            model.durable = model.last
        elif operation == "crash":
            fs = fs.crash(rng.random(), rng)
            log = open_log(fs, syncs=syncs, base_index=model.base[0], base_term=model.base[1])
            model.adopt(log)
        model.check(log)


def test_recent_entries_come_from_memory_and_old_ones_from_the_files() -> None:
    fs = FaultyFileSystem(new_file_system())
    log = open_log(fs)
    log.append([entry(n) for n in range(1, 31)])
    assert log.entries(1, 30, 1 << 20) == [entry(n) for n in range(1, 31)], "what is not written is in memory"
    log.persist()
    fs.fail("open", "*.log")
    assert log.entries(28, 30, 1 << 20) == [entry(n) for n in range(28, 31)]
    with pytest.raises(DiskError):
        log.entries(1, 3, 1 << 20)
    fs.heal()
    assert [e.index for e in log.entries(1, 30, 250)] == [1]
    assert [e.index for e in log.entries(2, 2, 0)] == [2]
    with pytest.raises(IndexError):
        log.entries(31, 31, 1)
    base = log.new_base(25)
    assert base is not None
    log.forget(base[0])
    log.remove_files()
    for read in (log.entries, log._segments.read):
        with pytest.raises(IndexError):
            read(1, 1, 1)


def test_a_truncation_while_the_disk_works_voids_what_it_reported() -> None:
    fs = new_file_system()
    log = open_log(fs)
    log.append([entry(n) for n in range(1, 11)])

    def cut(what: str) -> None:
        fs.on_sync = None
        log.truncate(4)
        log.append([entry(n, term=2) for n in range(5, 8)])

    fs.on_sync = cut
    assert log.persist() is None
    assert log.synced_index == 4 and log.has_work
    assert contents(log) == [*(entry(n) for n in range(1, 5)), *(entry(n, term=2) for n in range(5, 8))]
    assert log.persist() == (7, 2)
    again = open_log(fs)
    assert contents(again) == contents(log)


def test_an_alter_begins_a_segment_and_its_truncation_brings_the_schema_back() -> None:
    fs = new_file_system()
    log = open_log(fs)
    log.append([entry(1), entry(2, kind=EntryKind.ALTER), entry(3)])
    log.persist()
    name = entry(2).body[:8].hex()
    assert [log.schema_at(index).names for index in (1, 2, 3, 4)] == [["first"], ["first"], [name], [name]]
    assert fs.list("wal") == [f"{1:016x}.log", f"{3:016x}.log"]
    log.truncate(1)
    assert log.schema_at(2).names == ["first"] and log.schema_at(3).names == ["first"]
    log.append([entry(n, term=2) for n in range(2, 5)])
    log.persist()
    assert open_log(fs).schema_at(4).names == ["first"]
    assert fs.list("wal") == [f"{1:016x}.log"]


def test_after_an_alter_at_the_end_of_the_log_the_schema_is_known_when_it_is_opened() -> None:
    fs = new_file_system()
    log = open_log(fs)
    log.append([entry(1), entry(2, kind=EntryKind.ALTER)])
    log.close()
    log = open_log(fs)
    assert log.schema_at(3).names == [entry(2).body[:8].hex()]
    log.append([entry(3)])
    log.persist()
    assert fs.list("wal")[-1] == f"{3:016x}.log"


def test_damage_of_what_was_durable_is_found() -> None:
    fs = new_file_system()
    log = open_log(fs)
    for n in range(1, 11):
        log.append([entry(n)])
        log.persist()
    log.close()
    path = f"wal/{1:016x}.log"
    file = fs.open(path)
    data = bytearray(file.read_at(0, file.size))
    place = data.index(entry(5).body)
    data[place] ^= 1
    damaged = fs.create(path)
    damaged.write(data)
    with pytest.raises(CorruptionError, match="entry 5 at offset"):
        open_log(fs)
    fs.truncate(path, place)
    assert open_log(fs).last_index == 4, "without a witness, it was never acknowledged"
    with pytest.raises(CorruptionError, match="went on to entry 6"):
        open_log(fs, known_index=6)


@pytest.mark.parametrize("operation", ["write", "sync", "create", "sync_directory"])
def test_a_disk_that_fails_once_is_never_believed_again(operation: str) -> None:
    fs = FaultyFileSystem(new_file_system())
    log = open_log(fs)
    log.append([entry(1)])
    log.persist()
    log.append([entry(n) for n in range(2, 40)])
    fs.fail(operation, message="Input/output error")
    with pytest.raises(DiskError):
        log.persist()
    fs.heal()
    assert log.synced_index == 1
    with pytest.raises(DiskError):
        log.persist()
    log.close()
    found = contents(open_log(fs))
    assert found == [entry(n) for n in range(1, len(found) + 1)] and found


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.sampled_from(["append", "write", "sync", "create", "truncate", "heal"]), max_size=30))
def test_a_disk_that_was_full_is_written_again_and_nothing_is_called_durable_before(steps: list[str]) -> None:
    crashable = new_file_system()
    fs = FaultyFileSystem(crashable)
    log, model, durable = open_log(fs), [], 0
    for step in [*steps, "append", "heal"]:
        match step:
            case "append":
                new = [entry(len(model) + n, term=len(steps)) for n in range(1, 9)]
                model += new
                log.append(new)
            case "truncate" if len(model) > durable:
                del model[durable + (len(model) - durable) // 2 :]
                log.truncate(len(model))
            case "heal":
                fs.heal()
            case "write" | "sync" | "create":
                fs.fail(step, nth=1 + len(model) % 3)
        try:
            found = log.persist()
        except DiskError:
            assert log.synced_index == durable
        else:
            assert found == (len(model), model[-1].term if model else 0)
            durable = len(model)
        assert contents(log) == model
        assert log.failure is None
    assert durable == len(model)
    assert contents(open_log(crashable.crash(0.5, random.Random(len(steps))))) == model


def test_entries_that_a_failed_sync_may_have_lost_are_a_failure() -> None:
    """With durability "os" they are written and not synced; entries that memory no longer has cannot be written
    again."""
    fs = FaultyFileSystem(new_file_system())
    log = open_log(fs, syncs=False, cache_bytes=1000)
    log.append([entry(n) for n in range(1, 60)])
    log.persist()
    log.append([entry(60)])
    fs.fail("sync")
    with pytest.raises(DiskError):
        log.persist(force=True)
    fs.heal()
    with pytest.raises(DiskError):
        log.persist()


def test_the_bytes_are_those_of_the_embedded_log() -> None:
    fs = new_file_system()
    log = open_log(fs)
    log.append([entry(1, term=3), entry(2, term=4)])
    log.persist()
    path = f"wal/{1:016x}.log"
    data = memoryview(fs.open(path).read_at(0, 1 << 20))
    header = decode_header(data, path)
    scan = scan_entries(data, header.length, 1, path, is_last=True)
    assert header.schema == SCHEMA and not scan.torn
    assert [(e.term, e.index, e.timestamp, bytes(e.body)) for e in scan.entries] == [
        (e.term, e.index, e.timestamp, e.body) for e in contents(log)
    ]
