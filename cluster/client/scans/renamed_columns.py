"""Scans of a table that was altered since: columns are identified by their ids, whatever their names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ....errors import StaleScanToken
from ....model.predicates import AnyOf, ColumnPredicate
from ....model.schema import Table
from ....model.store import CHANGE_COLUMN, CHANGED_AT_COLUMN, ScanSpec


def with_current_names(spec: ScanSpec, before: Table, now: Table) -> ScanSpec:
    """Returns the spec for the table's latest version. Raises `StaleScanToken` if a column was dropped, or if a
    fragment, which contains column names, belongs to a scan whose columns were renamed."""
    if before.version == now.version:
        return spec
    names = {column.id: column.name for column in now.schema.columns}
    ids = {column.name: column.id for column in before.schema.columns}

    def called(name: str) -> str:
        if spec.changes is not None and name in (CHANGE_COLUMN, CHANGED_AT_COLUMN):
            return name
        if name not in ids or ids[name] not in names:
            raise StaleScanToken(f"column {name} of table {now.name} has been dropped; request new scan tokens")
        return names[ids[name]]

    renamed = replace(
        spec,
        columns=tuple(called(name) for name in spec.columns),
        predicates=tuple(_renamed(predicate, called) for predicate in spec.predicates),
    )
    if spec.fragment and renamed.columns != spec.columns:
        raise StaleScanToken(f"columns of table {now.name} have been renamed; request new scan tokens")
    return renamed


def _renamed(predicate: ColumnPredicate, called: Callable[[str], str]) -> ColumnPredicate:
    name = called(predicate.column)
    if isinstance(predicate, AnyOf):
        return AnyOf(name, tuple(replace(member, column=name) for member in predicate.members))
    return replace(predicate, column=name)
