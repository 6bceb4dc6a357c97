"""Tablets as a client sees them: what each holds, where it is served, and at which keys a large one may be cut."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import replace
from heapq import merge
from typing import Any

from ...errors import TabletGone
from ...model.store import Replica, TabletDescription
from ..tablet.tablet import Pin
from .table_layout import TableLayout


def describe_tablets(layout: TableLayout, directory: str | None) -> list[TabletDescription]:
    """The tablets of a table, in the order of partitions. `directory` is where their store is, None: in memory."""
    replica = Replica(socket.gethostname(), directory)
    damaged = replace(replica, role="QUARANTINED")
    descriptions = []
    for tablet, partition in zip(layout.tablets, layout.partitioner.partitions, strict=True):
        if tablet.damage is not None:
            descriptions.append(TabletDescription(tablet.id, partition.describe(), 0, 0, (damaged,)))
            continue
        size = sum(stored.metadata.data_bytes for stored in tablet.state.rowsets)
        descriptions.append(TabletDescription(tablet.id, partition.describe(), tablet.row_count, size, (replica,)))
    return descriptions


def sampled_keys(pin: Pin) -> list[tuple[Any, ...]]:
    """The keys of every 4,096th row of each DiskRowSet, all together ascending, as physical values."""
    return list(merge(*(stored.rowset.key_samples for stored in pin.state.rowsets)))


def key_samples(layout: TableLayout, tablet_id: str) -> Sequence[tuple[Any, ...]]:
    """The keys of every 4,096th row of each DiskRowSet of a tablet, all together ascending, as physical values; what
    the footers of the key columns know. `TabletGone` where the table has no such tablet."""
    for tablet in layout.tablets:
        if tablet.id == tablet_id:
            return sampled_keys(tablet.pin())
    raise TabletGone(f"table {layout.table.name} has no tablet {tablet_id}: its range partition was dropped")
