"""Look-ups of many keys in the store under a transaction, at its snapshot."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from ...model.arrow_arrays import arrow_array
from ...model.keys.keys import Keys
from ...model.lazy_dataclass import dataclass
from ...model.schema import Table
from ...model.store import ScanCounters, ScanSpec, Timestamp
from ...model.vectors.vector import Array, Batch
from .gathering import gathered
from .key_index import KeyIndex
from .table_source import NewTable, TableSource

_SINGLE_KEYS = 32
"""Number of keys up to which each is looked up by itself: 20 take about 200 us, a scan at least 500."""


@dataclass(frozen=True, slots=True)
class BaseRows:
    """The rows of one table in the store under a transaction.

    Parameters
    ----------
    store : TableSource
    table : Table
    snapshot : Timestamp
    looks_up_singly : bool
        A look-up of one key is much cheaper than a scan: no message to a server.
    """

    store: TableSource
    table: Table
    snapshot: Timestamp
    looks_up_singly: bool

    def present(self, keys: Keys) -> Array:
        """Which keys have a row, some perhaps several times among them: ndarray of bool, shape (n_keys,)."""
        if isinstance(self.store, NewTable):
            return np.zeros(len(keys), np.bool_)
        if self.looks_up_singly and len(keys) <= _SINGLE_KEYS:
            first = (self.table.schema.columns[0].name,)
            return np.array([self._row(keys, place, first) is not None for place in range(len(keys))], np.bool_)
        repeated = keys.duplicates()
        if not len(repeated):
            return self._present_of_distinct(keys)
        order = keys.order()
        is_first = np.ones(len(keys), np.bool_)
        is_first[repeated] = False
        is_first = is_first[order]
        found = self._present_of_distinct(keys.take(order[is_first]))
        result = np.empty(len(keys), np.bool_)
        result[order] = found[np.cumsum(is_first) - 1]
        return result

    def fetch(self, keys: Keys, names: Sequence[str]) -> tuple[Array, list[pa.Array]]:
        """Columns of the rows with some distinct keys.

        Returns
        -------
        present : ndarray of bool, shape (n_keys,)
        arrays : list of pa.Array
            Parallel to `names`; NULL where there is no row.
        """
        types = [self.table.schema.column(name).type.arrow for name in names]
        if self.looks_up_singly and len(keys) <= _SINGLE_KEYS:
            rows = [self._row(keys, place, names) for place in range(len(keys))]
            present = np.array([row is not None for row in rows], np.bool_)
            columns = [[None if row is None else row[place] for row in rows] for place in range(len(names))]
            return present, [arrow_array(values, type_) for values, type_ in zip(columns, types)]
        which = np.full(len(keys), -1, np.int64)
        row = np.zeros(len(keys), np.int64)
        pieces: list[list[pa.Array]] = [[] for _ in names]
        for number, (found, batch) in enumerate(self._matches(keys, names)):
            which[found], row[found] = number, np.arange(len(found))
            for place, piece in enumerate(pieces):
                piece.append(batch.column(place).to_arrow())
        return which >= 0, [gathered(piece, which, row, type_) for piece, type_ in zip(pieces, types)]

    def _row(self, keys: Keys, place: int, names: Sequence[str]) -> tuple[object, ...] | None:
        key = [type_.to_python(value) for type_, value in zip(keys.types, keys.values_at(place))]
        return self.store.read_row(self.table, key, names, self.snapshot)

    def _present_of_distinct(self, keys: Keys) -> Array:
        present = np.zeros(len(keys), np.bool_)
        for found, _ in self._matches(keys, ()):
            present[found] = True
        return present

    def _matches(self, keys: Keys, names: Sequence[str]) -> Iterator[tuple[Array, Batch]]:
        """The rows with distinct keys, in batches of the columns `names`: the places of their keys, and the rows."""
        schema = self.table.schema
        index = KeyIndex(schema, keys)
        columns = tuple(dict.fromkeys([*names, *(column.name for column in schema.key)]))
        places = [columns.index(column.name) for column in schema.key]
        tokens = self.store.scan_tokens(self.table, ScanSpec(columns, index.predicates, self.snapshot))
        scans = self.store.scan_all(tokens, [ScanCounters() for _ in tokens])
        try:
            for scan in scans:
                for batch in scan:
                    found = index.find(Keys(keys.types, tuple(batch.column(place) for place in places)))
                    hits = np.flatnonzero(found >= 0)
                    if len(hits):
                        matched = batch if len(hits) == batch.length else batch.select(hits)
                        yield found[hits], matched.project(range(len(names)))
        finally:
            for scan in scans:
                scan.close()
