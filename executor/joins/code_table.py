"""Build rows by code of a probe column, for columns of codes of one or two bytes.

    probe codes ──► row of each of the 256 or 65,536 codes, found once by coder and index ──► build rows

A look-up of a row is then one array access instead of the steps of `join_keys` and `join_index`: 1 ns instead of 5. The
base of such codes is one per rowset, so there are few tables.
"""

from __future__ import annotations

import threading

import numpy as np

from ...model.vectors.vector import Array, Narrow, Vector, taken
from .join_index import JoinIndex
from .join_keys import KeyCoder

_MOST_TABLES = 4
"""Tables that are kept, of up to 512 kB; rows with codes over further bases are looked up one by one."""
_WORTH = 2
"""Rows of batches per code from which on a table is made."""


class CodeTable:
    """Tables of the build rows of one key. Threads share it.

    Parameters
    ----------
    coder : KeyCoder
        Of one key.
    index : JoinIndex
        Unique.

    Attributes
    ----------
    looked_up : list of int
        One number: probe rows that were looked up in tables.
    """

    def __init__(self, coder: KeyCoder, index: JoinIndex):
        self._coder, self._index = coder, index
        self._lock = threading.Lock()
        self._tables: dict[tuple[int, int], Array] = {}
        self._seen: dict[tuple[int, int], int] = {}
        self.looked_up = [0]

    def rows(self, key: Vector) -> Array | None:
        """Return the build row of each probe row, -1 for none; None if there is no table for the key's codes."""
        if not isinstance(key, Narrow) or key.codes.dtype.itemsize > 2:
            return None
        table = self._table(key)
        if table is None:
            return None
        rows = taken(table, key.codes)
        if key.validity is not None:
            rows[~key.validity] = -1
        return rows

    def _table(self, key: Narrow) -> Array | None:
        name = key.base, key.codes.dtype.itemsize
        with self._lock:
            table = self._tables.get(name)
            if table is None:
                size = int(np.iinfo(key.codes.dtype).max) + 1
                self._seen[name] = self._seen.get(name, 0) + len(key)
                if self._seen[name] < _WORTH * size or len(self._tables) >= _MOST_TABLES:
                    return None
                codes = np.arange(size, dtype=key.codes.dtype)
                keys = Narrow(key.type, codes, key.base)
                table = self._tables[name] = self._index.find(self._coder.encode([keys])).astype(np.intp)
            self.looked_up[0] += len(key)
            return table
