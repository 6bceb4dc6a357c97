"""Rows of the relations of `nyala_catalog`: who has them, for the binder, which knows neither stores nor sessions.

metrics                        `metrics.collect`, everywhere
statements,                    the sessions of this process: registered here by the driver
statement_operators
tablets, masters, rowsets,     the store of the statement, if it is `Observable`
operations, operation_kinds
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol, TypeAlias, runtime_checkable

from ..errors import TabletGone, UnknownTable
from .metrics import Distribution, collect
from .schema import Table
from .store import TabletDescription

Row: TypeAlias = Mapping[str, Any]
"""Values by column; columns that are absent are NULL."""

_readers: dict[str, Callable[[], Iterable[Row]]] = {}


@runtime_checkable
class Observable(Protocol):
    """A store that can describe its parts."""

    def observations(self, kind: str) -> Iterable[Row]:
        """Rows of `nyala_catalog.<kind>`: "tablets", "masters", "rowsets", "operations" or "operation_kinds". None for
        what it does not have."""


def register(kind: str, reader: Callable[[], Iterable[Row]]) -> None:
    """The rows of `nyala_catalog.<kind>` are those that a function returns."""
    _readers[kind] = reader


def rows_of(kind: str, store: object) -> Iterable[Row]:
    """The current rows of a relation. Timestamps are microseconds since 1970."""
    if kind == "metrics":
        return _metric_rows()
    if kind in _readers:
        return _readers[kind]()
    return store.observations(kind) if isinstance(store, Observable) else ()


def _metric_rows() -> Iterator[Row]:
    for sample in collect():
        metric, value = sample.metric, sample.value
        labels = ", ".join(f"{name}={text}" for name, text in sample.named_labels.items())
        common = {"labels": labels, "kind": metric.kind.value, "help": metric.help}
        if not isinstance(value, Distribution):
            yield {"name": sample.name, "value": float(value), **common}
            continue
        yield {"name": f"{sample.name}_count", "value": float(value.count), **common}
        yield {"name": f"{sample.name}_sum", "value": value.total, **common}
        for share in (0.5, 0.95, 0.99):
            yield {"name": f"{sample.name}_p{round(share * 100)}", "value": value.quantile(share), **common}


class Describing(Protocol):
    """A store whose tablets can be listed."""

    def tables(self) -> Sequence[Table]: ...

    def describe_tablets(self, table: Table) -> Sequence[TabletDescription]: ...


def tablet_rows(store: Describing) -> Iterator[Row]:
    """Rows of `nyala_catalog.tablets`: one for each replica. A table that is dropped meanwhile has none."""
    for table in store.tables():
        with suppress(UnknownTable, TabletGone):
            for tablet in store.describe_tablets(table):
                for replica in tablet.replicas:
                    yield {
                        "table_name": table.name,
                        "tablet_id": tablet.id,
                        "partition": tablet.partition,
                        "rows": tablet.rows,
                        "disk_bytes": tablet.bytes,
                        "host": replica.host,
                        "directory": replica.directory,
                        "role": replica.role,
                        "is_damaged": replica.role == "QUARANTINED",
                    }
