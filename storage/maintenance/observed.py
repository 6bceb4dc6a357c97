"""Tablets, memory and maintenance of a store as samples of metrics, and as rows of `nyala_catalog`.

All of it is read on request, from numbers that exist for other reasons. The cost is that of a walk over tablets and
rowsets: some microseconds for each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from ...model.metrics import Sample
from ..files.page_cache import PageCache
from ..inspect.layout.table_layout import key_places
from ..inspect.text import key_text
from ..tablet.tablet import Tablet
from .manager import MaintenanceManager
from .memory import MemoryStatus
from .status import KindStatus, MaintenanceStatus


def tablet_samples(tablets: Iterable[Tablet]) -> Iterator[Sample]:
    """Tablets, rowsets, rows, bytes and logs."""
    rows: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    quotas: dict[str, int] = {}
    count = rowsets = log_bytes = 0
    for tablet in tablets:
        stored = tablet.state.rowsets
        count += 1
        rowsets += len(stored)
        log_bytes += tablet.log.size
        rows[tablet.table.name] += tablet.row_count
        sizes[tablet.table.name] += sum(each.metadata.data_bytes for each in stored)
        if tablet.table.quota_bytes is not None:
            quotas[tablet.table.name] = tablet.table.quota_bytes
    yield Sample("nyala_tablets", count)
    yield Sample("nyala_rowsets", rowsets)
    yield Sample("nyala_log_bytes", log_bytes)
    yield from (Sample("nyala_table_rows", number, (name,)) for name, number in rows.items())
    yield from (Sample("nyala_table_disk_bytes", number, (name,)) for name, number in sizes.items())
    yield from (Sample("nyala_table_quota_bytes", number, (name,)) for name, number in quotas.items())


def work_samples(memory: MemoryStatus, cache: PageCache, manager: MaintenanceManager) -> Iterator[Sample]:
    """Memory, page cache and maintenance operations."""
    yield Sample("nyala_memory_bytes", memory.own, ("rows",))
    yield Sample("nyala_memory_bytes", cache.size, ("pages",))
    yield Sample("nyala_memory_limit_bytes", memory.limit)
    yield Sample("nyala_writes_delayed_total", memory.delayed_writes)
    yield Sample("nyala_writes_waited_total", memory.waited_writes)
    yield Sample("nyala_write_wait_seconds_total", memory.waited_seconds)
    yield Sample("nyala_page_cache_hits_total", cache.hits)
    yield Sample("nyala_page_cache_insertions_total", cache.insertions)
    yield Sample("nyala_page_cache_evictions_total", cache.evictions)
    for each in manager.kinds():
        yield from _kind_samples(each)


def _kind_samples(status: KindStatus) -> Iterator[Sample]:
    kind, totals, queue = (status.kind,), status.totals, status.queue
    yield Sample("nyala_maintenance_running", status.running, kind)
    yield Sample("nyala_maintenance_queued", queue.queued, kind)
    yield Sample("nyala_maintenance_best_score", queue.best_score, kind)
    yield Sample("nyala_maintenance_queued_bytes", queue.memory_bytes, (*kind, "memory"))
    yield Sample("nyala_maintenance_queued_bytes", queue.log_bytes, (*kind, "log"))
    yield Sample("nyala_maintenance_queued_bytes", queue.disk_bytes, (*kind, "disk"))
    yield Sample("nyala_maintenance_operations_total", totals.done, kind)
    yield Sample("nyala_maintenance_failures_total", totals.failed, kind)
    yield Sample("nyala_maintenance_seconds_total", totals.seconds, kind)
    yield Sample("nyala_maintenance_written_bytes_total", totals.written_bytes, kind)


def kind_rows(status: MaintenanceStatus) -> Iterator[dict[str, Any]]:
    """Rows of `nyala_catalog.operation_kinds`."""
    for each in status.kinds:
        yield {"kind": each.kind, "running": each.running, **asdict(each.queue), **asdict(each.totals)}


def operation_rows(status: MaintenanceStatus) -> Iterator[dict[str, Any]]:
    """Rows of `nyala_catalog.operations`: the running operation, possible ones by falling score, the last ones."""
    if status.running is not None:
        yield {"state": "RUNNING", **_record(status.running)}
    for candidate in sorted(status.candidates, key=lambda each: -each.score):
        found = asdict(candidate)
        yield {
            "state": "POSSIBLE",
            "table_name": found.pop("table"),
            "memory_bytes": found.pop("ram_bytes"),
            **found,
        }
    for record in status.completed:
        yield {"state": "FAILED" if record.error else "DONE", **_record(record)}


def _record(record: Any) -> dict[str, Any]:
    found = asdict(record)
    return {
        **found,
        "table_name": found["table"],
        "started": round(record.started * 1e6),
        "error": record.error or None,
    }


def rowset_rows(tablets: Iterable[Tablet]) -> Iterator[dict[str, Any]]:
    """Rows of `nyala_catalog.rowsets`, by least key in each tablet. `key_start` and `key_stop` are the places of the
    keys between the least and the greatest of the tablet, from 0 to 1."""
    for tablet in tablets:
        found = sorted((each.metadata for each in tablet.state.rowsets), key=lambda m: (m.min_key, m.max_key, m.id))
        starts, stops = key_places([each.min_key for each in found], [each.max_key for each in found])
        types = [column.type for column in tablet.table.schema.key]
        yield from _spans(tablet, found, starts, stops, types)


def _spans(
    tablet: Tablet,
    found: Sequence[Any],
    starts: np.ndarray[Any, Any],
    stops: np.ndarray[Any, Any],
    types: Sequence[Any],
) -> Iterator[dict[str, Any]]:
    for metadata, start, stop in zip(found, starts, stops, strict=True):
        yield {
            "table_name": tablet.table.name,
            "tablet_id": tablet.id,
            "rowset_id": metadata.id,
            "rows": metadata.row_count,
            "disk_bytes": metadata.data_bytes,
            "min_key": key_text(types, metadata.min_key),
            "max_key": key_text(types, metadata.max_key),
            "key_start": float(start),
            "key_stop": float(stop),
        }
