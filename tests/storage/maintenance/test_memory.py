"""The memory limit: pages give way, writes slow down and wait, and only a failing disk refuses them."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nyala.errors import DiskError, MemoryLimitExceeded, WriteTooLarge
from nyala.model.store import Op
from nyala.storage.database import Database
from nyala.storage.files.page_cache import PageCache
from nyala.storage.maintenance import background, memory
from nyala.storage.maintenance.memory import LEAST_CACHE_BYTES, Memory, default_cache_bytes
from tablet_support import HASHED, definition, insert, keys_of, read

MIB = 1 << 20


@pytest.fixture(autouse=True, scope="module")
def _alone() -> Iterator[None]:
    """Stores of this process share their limits; those that other tests have open must not count here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory, "_processwide", weakref.WeakSet())
        yield


class Store:
    """Rows in memory as a number."""

    def __init__(self, limit: int, rows: int = 0, cache: PageCache | None = None):
        self.rows = rows
        self.flushes = 0
        self.error: DiskError | None = None
        self.cache = PageCache(0) if cache is None else cache
        self.memory = Memory(self.bytes, self.cache, self.relieve, limit)

    def bytes(self) -> int:
        return self.rows

    def relieve(self) -> bool:
        if self.error is not None:
            raise self.error
        self.flushes += 1
        freed, self.rows = self.rows, 0
        return freed > 0

    def write(self, size: int) -> None:
        self.memory.admit(size)
        self.rows += size


@pytest.mark.slow
@given(st.lists(st.integers(1, 60), max_size=60))
def test_memory_stays_below_the_limit(sizes):
    store = Store(limit=100)
    for size in sizes:
        store.write(size)
        assert store.rows <= 100


def test_a_batch_larger_than_the_limit_passes_when_nothing_else_is_there():
    store = Store(limit=100)
    store.write(250)
    assert store.flushes == 0
    store.write(10)
    assert store.flushes == 1


def test_what_other_stores_hold_counts_but_stops_nobody():
    other = Store(limit=1000, rows=500)
    store = Store(limit=100)
    store.write(30)
    store.write(30)  # over the limit: what is its own is flushed, and then it passes
    assert (store.flushes, store.rows, other.flushes) == (1, 30, 0)
    assert store.memory.measure().stores >= 530
    other.memory.close()
    assert not store.memory.is_short


def test_the_page_cache_gives_way_and_grows_again():
    cache = PageCache(64 * MIB)
    store = Store(limit=100 * MIB, cache=cache)
    for page in range(64):
        cache.put(1, page, None, MIB)
    store.memory.measure()
    assert cache.size <= 60 * MIB
    store.rows = 30 * MIB
    store.memory.measure()
    assert cache.size <= 30 * MIB
    store.rows = 90 * MIB
    assert store.memory.is_short
    assert cache.size <= LEAST_CACHE_BYTES
    store.rows = 0
    assert not store.memory.is_short
    assert cache.capacity_bytes == 60 * MIB


def test_writes_wait_until_somebody_has_freed_memory(monkeypatch):
    store = Store(limit=100, rows=95)
    is_busy = threading.Event()

    def relieve() -> bool:
        is_busy.set()
        return False  # another thread flushes already

    monkeypatch.setattr(store, "relieve", relieve)
    store.memory._relieve = lambda: relieve
    writer = threading.Thread(target=store.write, args=(20,))
    writer.start()
    assert is_busy.wait(10)
    assert writer.is_alive()
    store.rows = 0
    store.memory.note_freed()
    writer.join(10)
    assert not writer.is_alive()
    assert store.rows == 20


def test_a_failing_flush_refuses_the_write_and_a_working_one_lets_it_pass():
    store = Store(limit=100, rows=95)
    store.error = DiskError("no space left")
    with pytest.raises(MemoryLimitExceeded, match=r"of 100 bytes\), and rows cannot be flushed: no space left"):
        store.write(20)
    assert store.rows == 95
    store.error = None
    store.write(20)
    assert store.rows == 20


# ---- in a store --------------------------------------------------------------------------------------------------


def test_writers_of_a_store_flush_what_takes_most_memory():
    limit = 400_000
    with Database(background=False, memory_limit_bytes=limit, cache_bytes=0) as db:
        first = db.create_table(definition("a", HASHED))
        second = db.create_table(definition("b"))
        for part in range(40):
            insert(db, first if part % 2 else second, range(part * 200, part * 200 + 200))
            assert db.memory_status().own <= limit
        assert len(keys_of(db, first)) == len(keys_of(db, second)) == 4000
        assert any(stored for tablet in db._tablets() for stored in tablet.state.rowsets)


def test_many_writers_share_the_limit():
    with Database(memory_limit_bytes=300_000) as db:
        table = db.create_table(definition(partitions=HASHED))

        def write(number: int) -> None:
            for part in range(10):
                start = (number * 10 + part) * 100
                insert(db, table, range(start, start + 100))

        threads = [threading.Thread(target=write, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert keys_of(db, table) == list(range(6000))


def test_a_full_disk_refuses_writes_and_keeps_what_was_acknowledged(monkeypatch):
    with Database(background=False, memory_limit_bytes=100_000, cache_bytes=0) as db:
        table = db.create_table(definition())
        written = 0

        def fail(tablets):
            raise DiskError("no space left")

        with monkeypatch.context() as patch:
            patch.setattr(background, "flush_largest", fail)
            with pytest.raises(MemoryLimitExceeded) as caught:
                for _ in range(100):
                    insert(db, table, range(written, written + 100))
                    written += 100
            assert caught.value.retryable
            assert 0 < written < 1000
            assert keys_of(db, table) == list(range(written))
        insert(db, table, range(written, written + 100))
        assert keys_of(db, table) == list(range(written + 100))


def test_pages_are_counted():
    with Database(background=False, memory_limit_bytes=64 * MIB) as db:
        table = db.create_table(definition())
        insert(db, table, range(5000))
        db.flush()
        assert db.memory_status().own == 0
        read(db, table)
        status = db.memory_status()
        assert 0 < db._cache.size <= status.caches <= status.used


def test_rows_count_about_as_much_as_they_take(tmp_path):
    with Database(tmp_path, background=False) as db:
        table = db.create_table(definition())
        insert(db, table, range(20_000), "x" * 200)
        rows = pa.record_batch({"v": ["x" * 200 + str(k) for k in range(20_000)]}).nbytes
        assert rows <= db.memory_status().own <= 3 * rows


@pytest.mark.parametrize("flushed", [False, True])
def test_the_texts_of_single_changes_count(flushed: bool) -> None:
    with Database(background=False) as db:
        table = db.create_table(definition())
        insert(db, table, range(10))
        if flushed:
            db.flush()
        before = db.memory_status().own
        for number in range(500):
            db.write_row(table, Op.UPDATE, {"k": number % 10, "v": f"{number:>10000}"})
        assert db.memory_status().own - before >= 5_000_000
        read(db, table)
        assert db.memory_status().own - before >= 5_000_000


@pytest.mark.parametrize(("limit", "pages"), [(16 << 30, 4 << 30), (4 << 30, 1 << 30), (1 << 30, 1 << 30)])
def test_pages_may_take_a_quarter_of_the_limit_or_a_gigabyte(limit: int, pages: int) -> None:
    assert default_cache_bytes(limit) == pages


def test_a_write_that_is_too_large_is_not_called_full_memory():
    store = Store(limit=1000, rows=302)
    with pytest.raises(
        WriteTooLarge, match=r"takes 1,001 bytes of memory is too large: .* may take 1,000 bytes"
    ) as told:
        store.memory.admit(1001, waits=False)
    assert (told.value.retryable, told.value.sqlstate) == (False, "54000")
    store.memory.admit(600, waits=False)
    store.memory.close()
    store = Store(limit=1000, rows=990)
    with pytest.raises(
        MemoryLimitExceeded, match=r"memory is full \(990 of 1,000 bytes are in use, the write needs 20\)"
    ):
        store.memory.admit(20, waits=False)
    store.memory.close()
