"""The encoded scan spec, shared by the scans of one table's tablets."""

from __future__ import annotations

from dataclasses import replace

from ....model.codec.predicates import filter_bytes
from ....model.predicates import BloomFilter, ColumnPredicate
from ....model.schema import Table
from ....model.store import ScanSpec
from ...wire.messages.plain import Plain, spec_to_plain
from .renamed_columns import with_current_names

BLOOM_BYTES = 8 << 20
"""A larger Bloom filter is not sent."""
LARGE_ROWS = 100_000
"""An unfiltered tablet with this number of rows is not a small scan."""
STARTING_FILTER_BYTES = 1 << 20
"""Bytes of filters above which a ticket is sent by a stream, which takes larger ones than a call."""


class EncodedSpec:
    """A spec as it is sent to servers. Thread-safe.

    Parameters
    ----------
    table : Table
        The caller's version.
    spec : ScanSpec
    """

    def __init__(self, table: Table, spec: ScanSpec):
        self._table = table
        self.asked = spec
        """The caller's columns."""
        self.is_resumable = spec.ordered and spec.changes is None and not spec.fragment
        """True if each batch has the key after which another replica can resume."""
        key = [column.name for column in table.schema.key] if self.is_resumable else []
        columns = (*spec.columns, *(name for name in key if name not in spec.columns))
        self.key_places = [columns.index(name) for name in key]
        self.width = len(spec.columns)
        """Number of the caller's columns; the others give the key to resume after."""
        self.spec = replace(spec, columns=columns, predicates=tuple(filter(_is_worth_sending, spec.predicates)))
        filters = sum(filter_bytes(predicate) for predicate in self.spec.predicates)
        self._has_large_filters = filters > STARTING_FILTER_BYTES
        self._is_reduced = bool(
            self.spec.predicates or spec.fragment or spec.limit is not None or spec.changes is not None
        )
        self._last: tuple[Table, ScanSpec, Plain] | None = None

    def may_be_small(self, rows: int) -> bool:
        """True if a scan of this number of rows (before predicates) may be small enough to request all of it at
        once."""
        return not self._has_large_filters and (self._is_reduced or rows < LARGE_ROWS)

    def spelled(self, now: Table) -> tuple[ScanSpec, Plain]:
        """Returns the spec with the column names of the table's latest version, and its encoding, without its fragment.
        Raises `StaleScanToken` if the table no longer has a column."""
        last = self._last
        if last is None or last[0] is not now:
            spec = with_current_names(self.spec, self._table, now)
            last = self._last = (now, spec, spec_to_plain(replace(spec, fragment=b"")))
        return last[1], last[2]


def _is_worth_sending(predicate: ColumnPredicate) -> bool:
    """True for all predicates but Bloom filters that are larger than their benefit: the maker of one tolerates the rows
    that it would drop."""
    return not isinstance(predicate, BloomFilter) or predicate.words.nbytes <= BLOOM_BYTES
