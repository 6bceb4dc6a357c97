"""What the scans of one table's tablets have in common, made once for all of them."""

from __future__ import annotations

from dataclasses import replace

from ....model.predicates import BloomFilter, ColumnPredicate
from ....model.schema import Table
from ....model.store import ScanSpec
from ...wire.messages.plain import Plain, filter_bytes, spec_to_plain
from .renamed_columns import respelled

BLOOM_BYTES = 8 << 20
"""A larger Bloom filter stays here."""
LARGE_ROWS = 100_000
"""A tablet with so many rows of which all are wanted is no small scan."""
STARTING_FILTER_BYTES = 1 << 20
"""With more bytes of filters a ticket goes by a stream, which takes larger ones than a call."""


class SentSpec:
    """A spec as servers are told it. Safe for several threads.

    Parameters
    ----------
    table : Table
        As the caller knows it.
    spec : ScanSpec
    """

    def __init__(self, table: Table, spec: ScanSpec):
        self._table = table
        self.asked = spec
        """What the caller asked for."""
        self.is_resumable = spec.ordered and spec.changes is None and not spec.fragment
        """Does each batch tell where another replica would go on?"""
        key = [column.name for column in table.schema.key] if self.is_resumable else []
        columns = (*spec.columns, *(name for name in key if name not in spec.columns))
        self.key_places = [columns.index(name) for name in key]
        self.width = len(spec.columns)
        """So many of the columns are the caller's; the others tell where to go on."""
        self.spec = replace(spec, columns=columns, predicates=tuple(filter(_is_worth_sending, spec.predicates)))
        filters = sum(filter_bytes(predicate) for predicate in self.spec.predicates)
        self._has_large_filters = filters > STARTING_FILTER_BYTES
        self._is_reduced = bool(
            self.spec.predicates or spec.fragment or spec.limit is not None or spec.changes is not None
        )
        self._last: tuple[Table, ScanSpec, Plain] | None = None

    def may_be_small(self, rows: int) -> bool:
        """Is it worth while to ask for all of a scan of so many rows (before predicates) at once?"""
        return not self._has_large_filters and (self._is_reduced or rows < LARGE_ROWS)

    def spelled(self, now: Table) -> tuple[ScanSpec, Plain]:
        """The spec in the words of the table as it is now, and how it travels, without its fragment. `StaleScanToken`
        where it cannot be said in these."""
        last = self._last
        if last is None or last[0] is not now:
            spec = respelled(self.spec, self._table, now)
            last = self._last = (now, spec, spec_to_plain(replace(spec, fragment=b"")))
        return last[1], last[2]


def _is_worth_sending(predicate: ColumnPredicate) -> bool:
    """All but Bloom filters that are larger than what they save: whoever made one bears rows that it would drop."""
    return not isinstance(predicate, BloomFilter) or predicate.words.nbytes <= BLOOM_BYTES
