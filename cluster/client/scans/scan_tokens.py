"""Tokens of a scan: one for each tablet that may have rows, all at one timestamp."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from ....errors import DataError, TabletGone
from ....model.altered_table import check_same_columns
from ....model.clock import format_timestamp
from ....model.schema import Table
from ....model.store import CHANGE_COLUMN, CHANGED_AT_COLUMN, ScanSpec, ScanToken
from ..catalog.catalog_cache import CatalogCache, KnownTable
from ..client_context import ClientContext
from .encoded_spec import EncodedSpec


class Scans:
    """Makes tokens. Thread-safe.

    Parameters
    ----------
    rows_of : callable
        Returns the approximate rows of a table's tablets, by their ids, as far as they are cached.
    """

    def __init__(
        self, shared: ClientContext, catalog: CatalogCache, rows_of: Callable[[KnownTable], Mapping[str, int]]
    ):
        self._shared = shared
        self._catalog = catalog
        self._rows_of = rows_of

    def tokens(self, table: Table, spec: ScanSpec) -> list[ScanToken]:
        """Implements `Store.scan_tokens`. The timestamp is taken here, once for all tokens, from the client's clock: it
        is above everything that the client has written or read. With READ_LATEST each leader takes its own."""
        known = self._catalog.fitting(table, lambda known: self._checked(table, known, spec))
        spec = self._timed(table, spec)
        if spec.tablet is not None and spec.tablet not in known.tablet_ids:
            self._catalog.refresh()
            known = self._catalog.known(table)
            if spec.tablet not in known.tablet_ids:
                raise TabletGone(
                    f"table {known.table.name} has no tablet {spec.tablet}: its range partition was dropped"
                )
        rows = self._rows_of(known)
        sent = EncodedSpec(known.table, spec)
        tokens = []
        for place in known.partitioner.prune(spec.predicates, spec.one_of):
            tablet_id = known.tablet_ids[place]
            if spec.tablet in (None, tablet_id):
                partition = known.partitioner.partitions[place].place
                count = rows.get(tablet_id, 0)
                is_small = sent.may_be_small(count)
                tokens.append(ScanToken(known.table, tablet_id, spec, (sent,), count, partition, is_small))
        return tokens

    def _timed(self, table: Table, spec: ScanSpec) -> ScanSpec:
        now = self._shared.clock.now()
        if spec.snapshot is None:
            return spec if self._shared.options.read_mode == "READ_LATEST" else replace(spec, snapshot=now)
        if spec.snapshot > now:
            raise DataError(
                f"cannot read table {table.name} as of {format_timestamp(spec.snapshot)}: it is only "
                f"{format_timestamp(now)}"
            )
        return spec

    def _checked(self, table: Table, known: KnownTable, spec: ScanSpec) -> KnownTable:
        """Returns the table, if it has the scan's columns with the caller's meaning."""
        names = (*spec.columns, *(predicate.column for predicate in spec.predicates))
        for name in names:
            if spec.changes is None or name not in (CHANGE_COLUMN, CHANGED_AT_COLUMN):
                known.table.schema.column(name)
        check_same_columns(table, known.table, names)
        return known
