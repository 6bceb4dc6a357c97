"""RocksDB in this process, by rocksdict: a value is all fields of a row, packed by msgpack.

RocksDB has keys and values, not fields, so an update reads the row, changes it, and puts all of it, as in YCSB's own
binding for RocksDB. A lock, one of many by the key's hash, prevents two clients from losing each other's fields. An
insert is a put that does not check whether the key exists.

Options are those that its documentation recommends for such a use (Setup Options and Basic Tuning): leveled compaction,
dynamic level sizes, Bloom filters of 10 bits per key, LZ4, a block cache of 1 GB. Logs are recycled, so that a sync
does not have to grow a file.

| durability | |
|---|---|
| fsync | a write is in the log, and the log is synced, when it returns |
| os | a write is in the log |

RocksDB syncs the writes of several threads together, but rocksdict's `put` holds Python's global lock, so that there is
never more than one. Therefore a client puts without `sync`, and then syncs the log by `flush_wal`, which releases the
lock: a thread that finds no sync in progress syncs for all earlier puts.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from importlib import metadata
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from ....errors import NotFound, OperationalError
from ..model import Durability, Fields

if TYPE_CHECKING:
    import rocksdict

_CACHE_BYTES = 1 << 30
_BLOOM_BITS = 10
_LOCKS = 1024


class RocksdbBinding:
    """A database directory; see the module docstring."""

    name: ClassVar[str] = "rocksdb"
    spreads: ClassVar[bool] = False

    def __init__(self, home: Path, durability: Durability) -> None:
        self._home = home
        self._durability = durability
        self._database: rocksdict.Rdict | None = None
        self._log: _Log | None = None
        self._locks = tuple(threading.Lock() for _ in range(_LOCKS))

    def start(self) -> None:
        """Opens the database."""
        module = _rocksdict()
        table = module.BlockBasedOptions()
        table.set_block_cache(module.Cache(_CACHE_BYTES))
        table.set_bloom_filter(_BLOOM_BITS, False)
        table.set_block_size(16 << 10)
        table.set_cache_index_and_filter_blocks(True)
        table.set_pin_l0_filter_and_index_blocks_in_cache(True)
        options = module.Options(raw_mode=True)
        options.create_if_missing(True)
        options.set_block_based_table_factory(table)
        options.set_compression_type(module.DBCompressionType.lz4())
        options.set_level_compaction_dynamic_level_bytes(True)
        options.set_bytes_per_sync(1 << 20)
        options.set_recycle_log_file_num(4)
        options.increase_parallelism(os.cpu_count())
        self._database = module.Rdict(str(self._home / "rocksdb"), options)
        self._log = _Log(self._database) if self._durability == "fsync" else None

    def client(self) -> RocksdbClient:
        """A client of the shared database."""
        assert self._database is not None
        return RocksdbClient(self._database, self._log, self._locks)

    def settle(self) -> None:
        """Does nothing: it compacts in the background."""

    def stop(self) -> None:
        """Closes the database."""
        if self._database is not None:
            self._database.close()
            self._database = None

    def version(self) -> str:
        """The version of the package, which includes the library."""
        return f"RocksDB (rocksdict {metadata.version('rocksdict')})"


class _Log:
    """Syncs the log, for several threads at once; numbers count calls of `sync`."""

    def __init__(self, database: rocksdict.Rdict) -> None:
        self._database = database
        self._condition = threading.Condition()
        self._asked = 0
        self._synced = 0
        self._is_syncing = False

    def sync(self) -> None:
        """Returns when all earlier puts are on disk."""
        with self._condition:
            self._asked += 1
            mine = self._asked
            while self._synced < mine and self._is_syncing:
                self._condition.wait()
            if self._synced >= mine:
                return
            self._is_syncing = True
            covered = self._asked
        done = 0
        try:
            self._database.flush_wal(True)
            done = covered
        finally:
            with self._condition:
                self._is_syncing = False
                self._synced = max(self._synced, done)
                self._condition.notify_all()


class RocksdbClient:
    """YCSB's operations as gets, puts and iterators; `log` is synced after writes, `locks` are held during updates."""

    def __init__(self, database: rocksdict.Rdict, log: _Log | None, locks: Sequence[threading.Lock]) -> None:
        self._database = database
        self._log = log
        self._locks = locks

    def load(self, keys: Sequence[str], rows: Sequence[Fields]) -> None:
        """One write batch."""
        batch = _rocksdict().WriteBatch(raw_mode=True)
        for key, fields in zip(keys, rows, strict=True):
            batch.put(key.encode(), msgspec.msgpack.encode(fields))
        self._database.write(batch)
        self._sync()

    def read(self, key: str) -> Fields:
        """One get."""
        return self._get(key.encode())

    def update(self, key: str, field: int, value: str) -> None:
        """A get and a put, atomic with respect to other clients."""
        encoded = key.encode()
        with self._locks[hash(encoded) % len(self._locks)]:
            fields = self._get(encoded)
            fields[field] = value
            self._database.put(encoded, msgspec.msgpack.encode(fields))
        self._sync()

    def insert(self, key: str, fields: Fields) -> None:
        """One put."""
        self._database.put(key.encode(), msgspec.msgpack.encode(fields))
        self._sync()

    def scan(self, first: str, count: int) -> Sequence[Fields]:
        """An iterator from a key on."""
        return [
            msgspec.msgpack.decode(packed) for packed in islice(self._database.values(from_key=first.encode()), count)
        ]

    def close(self) -> None:
        """Does nothing: the database is the binding's."""

    def _sync(self) -> None:
        if self._log is not None:
            self._log.sync()

    def _get(self, key: bytes) -> list[str]:
        packed = self._database.get(key)
        if packed is None:
            raise NotFound(f"there is no row with key {key.decode()}")
        fields: list[str] = msgspec.msgpack.decode(packed)
        return fields


def _rocksdict() -> Any:
    try:
        import rocksdict
    except ImportError as error:
        raise OperationalError("rocksdict is not installed; try: pip install 'nyala[bench]'") from error
    return rocksdict
