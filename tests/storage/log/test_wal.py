"""The write-ahead log: its bytes, torn tails against damage, group commit, failing disks."""

from __future__ import annotations

import random
import threading
import time

import numpy as np
import pyarrow as pa
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from nyala.errors import CorruptionError, DiskError, StoreClosed, UnsupportedFormat
from nyala.model.store import Op
from nyala.storage.files.memory_filesystem import CrashableFileSystem, FaultyFileSystem, MemoryFileSystem
from nyala.storage.log import wal_format
from nyala.storage.log.wal import WriteAheadLog
from nyala.storage.log.wal_format import EntryKind, LogEntry, WritePart, decode_write, encode_front, encode_write

SCHEMA = pa.schema([pa.field("k", pa.int64(), False), pa.field("v", pa.string())])


def body(number: int, rows: int = 2) -> bytes:
    values = [number] * rows
    return encode_write(
        [WritePart(Op.INSERT, pa.record_batch([values, [f"v{number}"] * rows], schema=SCHEMA), (0, 1))], 2
    )


def new_log(fs, **options) -> WriteAheadLog:
    fs.make_directory("wal")
    return WriteAheadLog(fs, "wal", SCHEMA, **options)


def recover(fs, durable_index: int = 0, **options) -> tuple[WriteAheadLog, list[int]]:
    """The log as found, and the number in each replayed entry; indexes must ascend without gaps."""
    entries: list[LogEntry] = []
    log = WriteAheadLog.recover(fs, "wal", SCHEMA, durable_index, lambda entry, _: entries.append(entry), **options)
    indexes = [entry.index for entry in entries]
    assert indexes == list(range(durable_index + 1, durable_index + 1 + len(indexes)))
    return log, [decode_write(entry.body, SCHEMA)[0].rows.column(0)[0].as_py() for entry in entries]


def segment(fs: MemoryFileSystem) -> bytes:
    (name,) = fs.list("wal")
    file = fs.open(f"wal/{name}")
    return file.read_at(0, file.size)


def with_segment(data: bytes, name: str = "0000000000000001.log") -> MemoryFileSystem:
    fs = MemoryFileSystem()
    fs.make_directory("wal")
    file = fs.create(f"wal/{name}")
    file.write(data)
    file.sync()
    fs.sync_directory("wal")
    return fs


def written(count: int) -> tuple[bytes, list[int]]:
    """A segment with `count` entries, each synced before the next, and the offsets where entries end."""
    fs = MemoryFileSystem()
    log = new_log(fs)
    ends = []
    for number in range(1, count + 1):
        log.sync(log.append(1000 + number, EntryKind.WRITE, [body(number)]))
        ends.append(len(segment(fs)))
    return segment(fs), ends


# ---- bytes -------------------------------------------------------------------------------------------------------


def test_bytes_of_an_entry():
    front = encode_front(1, 7, 0x1122334455667788, 6, EntryKind.LOAD, b"body")
    fields = {
        "length": front[0:4],
        "crc": front[4:8],
        "term": front[8:16],
        "index": front[16:24],
        "timestamp": front[24:32],
        "durable index": front[32:40],
        "kind": front[40:41],
        "zeros": front[41:48],
    }
    assert {name: data.hex(" ") for name, data in fields.items()} == {
        "length": "2c 00 00 00",
        "crc": "58 29 1a c9",
        "term": "01 00 00 00 00 00 00 00",
        "index": "07 00 00 00 00 00 00 00",
        "timestamp": "88 77 66 55 44 33 22 11",
        "durable index": "06 00 00 00 00 00 00 00",
        "kind": "02",
        "zeros": "00 00 00 00 00 00 00",
    }


def same_parts(found: list[WritePart], parts: list[WritePart]) -> bool:
    def described(part: WritePart) -> tuple:
        isset = {place: mask.tolist() for place, mask in part.isset.items()}
        return part.op, part.places, part.rows.to_pylist(), isset

    return [described(part) for part in found] == [described(part) for part in parts]


@given(
    st.integers(0, 40),
    st.lists(st.integers(1, 7), unique=True).map(sorted),
    st.data(),
)
def test_the_parts_of_a_write_come_back(rows, others, data):
    schema = pa.schema([pa.field(f"c{place}", pa.int64() if place % 2 else pa.string()) for place in range(8)])

    def part(op, places):
        arrays = [pa.array([f"{place}"] * rows) if place % 2 == 0 else pa.array([place] * rows) for place in places]
        masks = data.draw(st.sets(st.sampled_from(places))) if op is Op.UPDATE else ()
        isset = {
            place: np.array(data.draw(st.lists(st.booleans(), min_size=rows, max_size=rows)), bool) for place in masks
        }
        batch = pa.RecordBatch.from_arrays(arrays, schema=pa.schema([schema.field(place) for place in places]))
        return WritePart(op, batch, places, isset)

    kinds = [(Op.INSERT, tuple(range(8))), (Op.UPDATE, (0, *others)), (Op.DELETE, (0,))]
    chosen = data.draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=3))
    parts = [part(op, places) for op, places in chosen]
    body = encode_write(parts, 8)
    assert len(body) % 8 == 0
    assert same_parts(decode_write(body, schema), parts)


def test_bytes_of_an_update():
    rows = pa.record_batch([[1, 2, 3]], schema=pa.schema([SCHEMA.field(0)]))
    wide = pa.record_batch([[1, 2, 3], ["a", None, "c"]], schema=SCHEMA)
    mask = np.array([True, False, True])
    body = encode_write([WritePart(Op.UPDATE, wide, (0, 2), {2: mask}), WritePart(Op.DELETE, rows, (0,))], 3)
    length = len(wide.serialize())
    fields = {
        "rows": body[0:4],
        "op": body[4:5],
        "one": body[5:6],
        "columns": body[6:8],
        "bitmaps": body[8:10],
        "zeros": body[10:12],
        "places": body[16:20],
        "not all set": body[20:22],
        "bitmap": body[24:25],
        "next part": body[32 + length : 32 + length + 8],
    }
    assert {name: data.hex(" ") for name, data in fields.items()} == {
        "rows": "03 00 00 00",
        "op": "04",
        "one": "01",
        "columns": "02 00",
        "bitmaps": "01 00",
        "zeros": "00 00",
        "places": "00 00 02 00",
        "not all set": "01 00",
        "bitmap": "05",
        "next part": "03 00 00 00 05 01 01 00",
    }
    assert int.from_bytes(body[12:16], "little") == length


def test_bodies_of_the_first_format_are_read():
    rows = pa.record_batch([[1, 2, 3], ["a", None, "c"]], schema=SCHEMA)
    message = rows.serialize().to_pybytes()
    for front in (b"\3\0\0\0\2\0\0\0", b"\3\0\0\0\0\0\0\0" + b"\1\2\1\0\0\0\0\0"):
        assert same_parts(decode_write(front + message, SCHEMA), [WritePart(Op.INSERT, rows, (0, 1))])


def test_a_mark_falls_back_where_entries_fail():
    fs = FaultyFileSystem(MemoryFileSystem())
    log = new_log(fs)
    log.sync(log.append(1, EntryKind.WRITE, [body(1)]))
    early, failing = log.mark(), log.append(2, EntryKind.WRITE, [body(2)])
    late = log.mark()
    assert (early.index, late.index) == (1, 2)
    fs.fail("sync", "*", times=1)
    with pytest.raises(DiskError):
        log.sync(failing)
    assert (early.index, late.index) == (1, 1)
    with pytest.raises(DiskError):
        log.append(3, EntryKind.WRITE, [body(3)], after=failing)
    assert log.append(3, EntryKind.WRITE, [body(3)]).index == 2


def test_a_newer_format_is_refused_by_name(monkeypatch):
    data, _ = written(1)
    monkeypatch.setattr(wal_format, "VERSION", 0)
    with pytest.raises(UnsupportedFormat, match=r"wal/0000000000000001.log has log format version 3; .* up to 0"):
        recover(with_segment(data))


# ---- what a reader makes of any bytes ----------------------------------------------------------------------------


def test_every_prefix_of_a_segment_gives_a_prefix_of_its_entries():
    data, ends = written(4)
    for length in range(len(data) + 1):
        fs = with_segment(data[:length])
        log, found = recover(fs)
        whole = sum(end <= length for end in ends)
        assert found == list(range(1, whole + 1)), length
        # What was cut stays away: a later entry takes its place.
        log.sync(log.append(5000, EntryKind.WRITE, [body(99)]))
        assert recover(fs)[1] == [*found, 99]


def test_every_flipped_byte_is_found_or_cuts_only_the_last_entry():
    data, ends = written(4)
    for place in range(len(data)):
        damaged = bytearray(data)
        damaged[place] ^= 1 << (place % 8)
        try:
            _, found = recover(with_segment(bytes(damaged)))
        except CorruptionError as error:
            assert place < ends[-2]
            assert error.path == "wal/0000000000000001.log"
            if place >= ends[0]:
                entry = sum(end <= place for end in ends)
                assert error.place == f"entry {entry + 1} at offset {ends[entry - 1]}"
        else:
            assert place >= ends[-2], f"byte {place} was damaged and nobody noticed"
            assert found == [1, 2, 3]


def test_damage_in_an_older_segment_is_found_even_in_its_last_entry():
    fs = MemoryFileSystem()
    log = new_log(fs, segment_bytes=1)
    for number in (1, 2, 3):
        log.sync(log.append(number, EntryKind.WRITE, [body(number)]))
    first, _, _ = fs.list("wal")
    file = fs.open(f"wal/{first}")
    data = bytearray(file.read_at(0, file.size))
    data[-1] ^= 1
    fs.create(f"wal/{first}").write(bytes(data))
    with pytest.raises(CorruptionError, match=r"entry 1 at offset \d+: the checksum does not match"):
        recover(fs)


def test_a_missing_segment_is_found():
    fs = MemoryFileSystem()
    log = new_log(fs, segment_bytes=1)
    for number in (1, 2, 3):
        log.sync(log.append(number, EntryKind.WRITE, [body(number)]))
    fs.remove(f"wal/{fs.list('wal')[1]}")
    with pytest.raises(CorruptionError, match="expected a log from entry 2 on, found one from 3 on"):
        recover(fs)


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(st.booleans(), max_size=12), st.integers(0, 2**32), st.sampled_from([0.0, 0.3, 0.7, 1.0]))
def test_a_crash_keeps_what_was_synced_and_never_looks_like_damage(synced, seed, keep):
    fs = CrashableFileSystem()
    fs.make_directory("wal")
    fs.sync_directory("")
    log = new_log(fs, segment_bytes=2500)
    acknowledged = 0
    for number, wait in enumerate(synced, 1):
        ticket = log.append(number, EntryKind.WRITE, [body(number, rows=1 + seed % 60)])
        if wait:
            log.sync(ticket)
            acknowledged = number
    _, found = recover(fs.crash(keep, random.Random(seed)))
    assert found == list(range(1, len(found) + 1))
    assert len(found) >= acknowledged


# ---- segments ----------------------------------------------------------------------------------------------------


def test_segments_roll_and_go_when_their_rows_are_elsewhere():
    fs = MemoryFileSystem()
    log = new_log(fs, segment_bytes=1500)
    for number in range(1, 11):
        log.sync(log.append(number, EntryKind.WRITE, [body(number)]))
    names = fs.list("wal")
    assert len(names) > 2
    log.remove_through(int(names[1].removesuffix(".log"), 16) - 1)
    assert fs.list("wal") == names[1:]
    log.remove_through(10)
    assert fs.list("wal") == []
    log.sync(log.append(11, EntryKind.WRITE, [body(11)]))
    assert recover(fs, durable_index=10)[1] == [11]


def test_entries_in_rowsets_are_not_replayed_and_removed_segments_may_come_back():
    fs = MemoryFileSystem()
    log = new_log(fs, segment_bytes=1)
    for number in range(1, 6):
        log.sync(log.append(number, EntryKind.WRITE, [body(number)]))
    # As if the removals of segments 1 to 3 had been lost but for the second.
    fs.remove(f"wal/{fs.list('wal')[1]}")
    recovered, found = recover(fs, durable_index=3)
    assert found == [4, 5]
    assert len(fs.list("wal")) == 2
    assert recovered.last_index == 5


def test_a_log_that_lost_the_start_of_what_is_needed_is_refused():
    fs = MemoryFileSystem()
    log = new_log(fs, segment_bytes=1)
    for number in range(1, 4):
        log.sync(log.append(number, EntryKind.WRITE, [body(number)]))
    fs.remove(f"wal/{fs.list('wal')[0]}")
    with pytest.raises(CorruptionError, match="expected a log from entry 1 on"):
        recover(fs)


# ---- group commit ------------------------------------------------------------------------------------------------


class SlowSync(CrashableFileSystem):
    """Counts syncs of log files; each takes a while, so that others queue up behind it."""

    def __init__(self):
        super().__init__(self.count)
        self.syncs = 0

    def count(self, what: str) -> None:
        if what.startswith("sync wal/"):
            self.syncs += 1
            time.sleep(0.003)


def test_concurrent_writers_share_syncs():
    fs = SlowSync()
    log = new_log(fs)
    start = threading.Barrier(8)

    def write(thread: int) -> None:
        start.wait()
        for number in range(10):
            log.sync(log.append(number, EntryKind.WRITE, [body(thread)]))

    threads = [threading.Thread(target=write, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert log.synced_index == 80
    assert fs.syncs < 50
    assert len(recover(fs)[1]) == 80


def test_durability_os_does_not_wait_but_can_be_made_to():
    fs = SlowSync()
    log = new_log(fs, syncs=False)
    before = fs.syncs
    for number in range(5):
        log.sync(log.append(number, EntryKind.WRITE, [body(number)]))
    assert fs.syncs == before + 1  # the header's
    assert log.synced_index == 0
    log.sync_now()
    assert log.synced_index == 5


# ---- failing disks -----------------------------------------------------------------------------------------------


@settings(max_examples=examples(50), deadline=None)
@given(st.lists(st.integers(0, 20_000), min_size=1, max_size=12), st.integers(200, 50_000), st.booleans())
def test_the_short_way_of_one_entry_writes_the_same_bytes(sizes, segment_bytes, syncs):
    logs = []
    for short in (True, False):
        fs = MemoryFileSystem()
        log = new_log(fs, segment_bytes=segment_bytes, syncs=syncs)
        for number, size in enumerate(sizes):
            data = bytes([number]) * size
            if short:
                ticket = log.append(number, EntryKind.ROW, [data])
            else:
                ticket = log.append(number, EntryKind.ROW, [data])
            assert (ticket.index, ticket.durable) == (number + 1, not syncs)
            if number % 3 == 0:
                log.sync(ticket)
        files = {name: fs.open(f"wal/{name}") for name in fs.list("wal")}
        logs.append({name: file.read_at(0, file.size) for name, file in files.items()})
    assert logs[0] == logs[1]


def test_a_failed_write_of_one_entry_leaves_the_log_as_it_was():
    fs = FaultyFileSystem(MemoryFileSystem())
    log = new_log(fs)
    first = log.append(1, EntryKind.WRITE, [body(1)])
    log.sync(first)
    fs.fail("write", "wal/*")
    for _ in range(2):
        with pytest.raises(DiskError, match=r"cannot write wal/0000000000000001.log"):
            log.sync(log.append(2, EntryKind.WRITE, [body(2)], first))
    assert (log.last_index, log.synced_index) == (1, 1)
    fs.heal()
    second = log.append(3, EntryKind.WRITE, [body(3)], first)
    fs.fail("sync", "wal/*")
    with pytest.raises(DiskError):
        log.sync(second)
    fs.heal()
    with pytest.raises(DiskError):
        log.append(4, EntryKind.WRITE, [body(4)], second)
    log.sync(log.append(5, EntryKind.WRITE, [body(5)], first))
    assert recover(fs)[1] == [1, 5]
    log.close()
    with pytest.raises(StoreClosed):
        log.append(6, EntryKind.WRITE, [body(6)])


@pytest.mark.parametrize("syncs", [True, False])
def test_a_failed_write_leaves_the_log_as_it_was(syncs):
    fs = FaultyFileSystem(MemoryFileSystem())
    log = new_log(fs, syncs=syncs)
    log.sync(log.append(1, EntryKind.WRITE, [body(1)]))
    fs.fail("write", "wal/*")
    for _ in range(2):
        with pytest.raises(DiskError, match=r"cannot write wal/0000000000000001.log: No space left on device"):
            log.sync(log.append(2, EntryKind.WRITE, [body(2), body(3)]))
    assert log.last_index == 1
    fs.heal()
    log.sync(log.append(4, EntryKind.WRITE, [body(4)]))
    assert recover(fs)[1] == [1, 4]


def test_a_failed_write_fails_all_that_went_with_it():
    fs = FaultyFileSystem(MemoryFileSystem())
    log = new_log(fs)
    log.sync(log.append(1, EntryKind.WRITE, [body(1)]))
    tickets = [log.append(2, EntryKind.WRITE, [body(2)]), log.append(3, EntryKind.WRITE, [body(3), bytes(1 << 15)])]
    fs.fail("write", "wal/*", times=1)
    for ticket in tickets:
        with pytest.raises(DiskError, match="cannot write"):
            log.sync(ticket)
    log.sync(log.append(4, EntryKind.WRITE, [body(4)]))
    assert recover(fs)[1] == [1, 4]


def test_whoever_syncs_commits_for_all_whose_changes_are_made():
    fs = FaultyFileSystem(MemoryFileSystem())
    log = new_log(fs)
    committed: list[int] = []
    log.on_durable = committed.extend
    made, not_made = (log.append(n, EntryKind.WRITE, [body(n)]) for n in (1, 2))
    made.timestamp = 1
    log.sync(not_made)
    assert committed == [1]
    assert (made.durable, made.is_committed) == (True, True)
    assert (not_made.durable, not_made.is_committed) == (True, False)
    failed = log.append(3, EntryKind.WRITE, [body(3)])
    failed.timestamp = 3
    fs.fail("sync", "wal/*", times=1)
    with pytest.raises(DiskError):
        log.sync(failed)
    assert committed == [1]
    assert not failed.is_committed


def test_a_failed_sync_fails_all_that_it_covered_and_nothing_before():
    fs = FaultyFileSystem(MemoryFileSystem())
    log = new_log(fs)
    log.sync(log.append(1, EntryKind.WRITE, [body(1)]))
    tickets = [log.append(n, EntryKind.WRITE, [body(n)]) for n in (2, 3)]
    fs.fail("sync", "wal/*", times=1)
    for ticket in tickets:
        with pytest.raises(DiskError, match="cannot sync"):
            log.sync(ticket)
    assert (log.last_index, log.synced_index) == (1, 1)
    log.sync(log.append(4, EntryKind.WRITE, [body(4)]))
    assert recover(fs)[1] == [1, 4]


def test_nothing_is_appended_before_failed_entries_are_cut_away():
    fs = FaultyFileSystem(MemoryFileSystem())
    log = new_log(fs)
    ticket = log.append(1, EntryKind.WRITE, [body(1)])
    fs.fail("sync", "wal/*", times=1)
    fs.fail("truncate", "wal/*", times=3)  # the first at once, when the sync has failed
    with pytest.raises(DiskError):
        log.sync(ticket)
    for _ in range(2):
        with pytest.raises(DiskError, match="cannot truncate"):
            log.append(2, EntryKind.WRITE, [body(2)])
    log.sync(log.append(3, EntryKind.WRITE, [body(3)]))
    assert recover(fs)[1] == [3]


@pytest.mark.parametrize("left", [0, 1, 2, 3])
def test_a_write_of_several_entries_counts_whole_or_not_at_all(left):
    fs = MemoryFileSystem()
    log = new_log(fs)
    log.sync(log.append(1, EntryKind.WRITE, [body(1)]))
    before = len(segment(fs))
    bodies = [body(2), body(3), body(4)]
    log.sync(log.append(2, EntryKind.WRITE, bodies))
    end = before + sum(wal_format.ENTRY_OVERHEAD + len(each) for each in bodies[:left])
    cut = with_segment(segment(fs)[:end])
    log, found = recover(cut)
    assert found == ([1, 2, 3, 4] if left == 3 else [1])
    log.sync(log.append(3, EntryKind.WRITE, [body(5)]))
    assert recover(cut)[1] == [*found, 5]


def test_a_segment_that_a_failed_write_left_empty_is_not_removed_with_its_successor():
    """Both have the same name: the second one, begun for another schema, has acknowledged entries."""
    fs = FaultyFileSystem(MemoryFileSystem())
    log = new_log(fs, segment_bytes=1000)
    for number in (1, 2):
        log.sync(log.append(number, EntryKind.WRITE, [body(number)]))
    fs.fail("sync", "*.log", nth=2, times=1)  # of the first entry of the next segment
    with pytest.raises(DiskError):
        log.sync(log.append(3, EntryKind.WRITE, [body(3, rows=60)]))
    fs.heal()
    log.change_schema(SCHEMA)
    log.sync(log.append(4, EntryKind.WRITE, [body(4)]))
    log.remove_through(2)
    assert recover(fs, 2)[1] == [4]
    log.close()


def test_a_closed_log_takes_nothing_and_lost_nothing():
    fs = MemoryFileSystem()
    log = new_log(fs)
    ticket = log.append(1, EntryKind.WRITE, [body(1)])
    log.close()
    log.sync(ticket)
    with pytest.raises(StoreClosed):
        log.append(2, EntryKind.WRITE, [body(2)])
    assert recover(fs)[1] == [1]


def test_a_segment_that_cannot_be_begun_is_begun_later():
    fs = FaultyFileSystem(MemoryFileSystem())
    log = new_log(fs, segment_bytes=1)
    log.sync(log.append(1, EntryKind.WRITE, [body(1)]))
    fs.fail("write", "wal/*", times=1)
    with pytest.raises(DiskError):
        log.append(2, EntryKind.WRITE, [body(2)])
    assert recover(fs)[1] == [1]
    log.sync(log.append(2, EntryKind.WRITE, [body(2)]))
    assert recover(fs)[1] == [1, 2]
