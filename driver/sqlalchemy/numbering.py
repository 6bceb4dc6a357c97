"""Numbers for integer keys that an INSERT does not name: SQLAlchemy's autoincrement, counted in the store.

nyala has no sequences. The table `_nyala_numbers` of the store holds the last number reserved for each table; a process
reserves a block of numbers by one UPDATE ... RETURNING, which is atomic on every kind of store, and counts through the
block in memory. Processes that share a served directory or a cluster therefore never get the same number.

    process A   UPDATE ... SET last = last + 4  ─► 4    gives 1, 2, 3, 4
    process B   UPDATE ... SET last = last + 1  ─► 5    gives 5

As with a sequence of PostgreSQL that has a CACHE, a number is never given twice, numbers of a block that a process has
not used at its end are skipped, and a row inserted with an explicit number above the counter makes a later INSERT fail
(`AlreadyPresent`). The counter is raised to the table's largest key when a process first numbers the table.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any, Final

from ...model.forks import renew_in_child
from ...model.lazy_dataclass import dataclass
from ...model.namespaces import DEFAULT_NAMESPACE, TEMPORARY_NAMESPACE
from ...model.store import Store

NUMBERS_TABLE: Final = "_nyala_numbers"
_WRITTEN: Final = f"{DEFAULT_NAMESPACE}.{NUMBERS_TABLE}"
"""One for the store, whatever the search path."""
_DEFINITION: Final = f"""CREATE TABLE IF NOT EXISTS {_WRITTEN} (
    table_id STRING NOT NULL COMMENT 'id of the table whose keys are numbered',
    last BIGINT NOT NULL COMMENT 'the last number that is reserved',
    PRIMARY KEY (table_id))"""
_REGISTER: Final = f"INSERT IGNORE INTO {_WRITTEN} VALUES (?, 0)"
_RESERVE: Final = f"UPDATE {_WRITTEN} SET last = greatest(last, ?) + ? WHERE table_id = ? RETURNING last"
LARGEST_BLOCK: Final = 32
"""Blocks of single inserts double up to this; PostgreSQL, too, may skip 32 numbers after a crash."""

Execute = Callable[[str, Sequence[Any]], Any]
"""Executes a statement with parameters and returns its first row, None where it has none."""


@dataclass(slots=True)
class _Block:
    """Numbers of one table that this process has reserved and not given yet: `next_` to `end` inclusive."""

    next_: int = 1
    end: int = 0
    size: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


_lock = threading.Lock()
_blocks: Final[weakref.WeakKeyDictionary[Store, dict[str, _Block]]] = weakref.WeakKeyDictionary()
"""Blocks by store and table id: a table that is created again starts again."""


def next_number(store: Store, table_id: str, count: int, largest: Callable[[], int | None], execute: Execute) -> int:
    """Return a number above all that the table holds and all that any process was given before.

    Parameters
    ----------
    store : Store
        The store of the connection that inserts.
    table_id : str
        Id of the table, which may be one that the open transaction has created.
    count : int
        Number of keys that the statement needs in total; a new block has at least as many.
    largest : callable
        Returns the table's largest key, None where it is empty; called once per process and table.
    execute : callable
        Runs a statement outside of transactions, see `Execute`.
    """
    with _lock:
        block = _blocks.setdefault(store, {}).setdefault(table_id, _Block())
    with block.lock:
        if block.next_ > block.end:
            _reserve(block, table_id, count, largest, execute)
        block.next_ += 1
        return block.next_ - 1


def next_temporary_number(store: Store, table_id: str, count: int, largest: Callable[[], int | None]) -> int:
    """Return a number for a temporary table, above all that it holds; no other session numbers it. Parameters are those
    of `next_number`, `store` that of the session with its temporary objects, whose ids may be ids of the store, too."""
    with _lock:
        block = _blocks.setdefault(store, {}).setdefault(f"{TEMPORARY_NAMESPACE}.{table_id}", _Block())
    with block.lock:
        if block.next_ > block.end:
            block.next_ = max(block.next_, (largest() or 0) + 1, 1)
            block.end = block.next_ + max(count, 1) - 1
        block.next_ += 1
        return block.next_ - 1


def _reserve(block: _Block, table_id: str, count: int, largest: Callable[[], int | None], execute: Execute) -> None:
    floor = 0
    if block.size == 0:
        execute(_DEFINITION, ())
        execute(_REGISTER, (table_id,))
        floor = max(0, largest() or 0)
    size = max(count, min(block.size * 2, LARGEST_BLOCK), 1)
    (last,) = execute(_RESERVE, (floor, size, table_id))
    block.next_, block.end, block.size = last - size + 1, last, min(size, LARGEST_BLOCK)


def _renew() -> None:
    """In a forked child: another thread of its parent may have held the lock, and the blocks are the parent's."""
    global _lock
    _lock = threading.Lock()
    _blocks.clear()


renew_in_child(_renew)
