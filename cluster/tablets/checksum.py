"""Checksum of a tablet's rows as of a timestamp, compared between replicas.

    row     word of its 1st column ─┬─► running hash ─► ... ─► hash of the row (`model.keys.hashing`)
            word of its 2nd column ─┘
    sum     of the rows' hashes, modulo 2^64

It does not depend on the order of rows or on their storage, and covers every cell.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from ...model.keys.hashing import hash64_text, hash64_words
from ...model.store import ScanCounters, ScanSpec, Timestamp
from ...model.vectors.vector import Array, Batch, Vector, Wide, decimal_limbs
from ...storage.reading.tablet_scan import cut, scan_view
from ...storage.tablet.tablet import TabletView
from ..wire.messages.methods import ChecksumReply

_NULL = np.uint64(0x9AE16A3B2F90404F)
"""Stands for NULL; as likely as any other word."""
_PRESENT = np.uint64(1)


def checksum(view: TabletView, watch: Callable[[int], None] | None = None) -> ChecksumReply:
    """Returns the number of rows of a view and their sum; reads everything. `watch` as for `ScanCounters`."""
    spec = ScanSpec(tuple(view.table.schema.names), snapshot=Timestamp(view.timestamp))
    rows, total = 0, 0
    for pieces in cut(view, spec):
        for batch in scan_view(view, pieces, spec, ScanCounters(watch=watch)):
            rows += batch.length
            total += int(row_hashes(batch).sum(dtype=np.uint64))
    return ChecksumReply(rows=rows, checksum=f"{total % (1 << 64):016x}")


def row_hashes(batch: Batch) -> Array:
    """Returns a hash of each row's values: ndarray of uint64, shape (n_rows,)."""
    hashes = np.zeros(batch.length, np.uint64)
    for column in batch.columns():
        for word in _words(column):
            hash64_words(hashes, word)
    return hashes


def _words(column: Vector) -> list[Array]:
    """Returns words that distinguish the values of a column: ndarrays of uint64, shape (n_rows,)."""
    array = column.to_arrow()
    words = _present_words(column, array)
    if array.null_count:
        is_null = array.is_null().to_numpy(zero_copy_only=False)
        # NULL has a word of its own, so no value hashes like NULL.
        words = [np.where(is_null, _NULL, word) for word in words]
        return [*words, np.where(is_null, np.uint64(0), _PRESENT)]
    return [*words, np.full(len(array), _PRESENT)]


def _present_words(column: Vector, array: pa.Array) -> list[Array]:
    type_ = column.type
    if type_.is_text:
        return [hash64_text(array.fill_null("" if pa.types.is_string(array.type) else b""))]
    if isinstance(column, Wide):
        return [np.ascontiguousarray(limb).view(np.uint64) for limb in decimal_limbs(array)]
    values = np.ascontiguousarray(column.values())
    if values.dtype.kind == "f":
        return [values.astype(np.float64).view(np.uint64)]
    return [values.astype(np.int64).view(np.uint64)]
