"""A small batch of one tablet, written row by row: `rows_write` for callers that have a `WriteBatch`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...model.store import WriteBatch
from ..log.tablet_log import WriteContext
from ..tablet.tablet import Tablet
from ..writing.tablet_part import are_few
from .row_changes import rows_of
from .row_codec import RowCodec
from .row_rules import BatchPathNeeded
from .rows_write import RowsWrite


def few_rows(
    tablet: Tablet,
    codec: RowCodec,
    batch: WriteBatch,
    check_key: Callable[[list[Any]], None],
    context: WriteContext,
) -> RowsWrite:
    """Returns the write of a small batch, not checked yet. `check_key` is called with each key's physical values.
    Raises `BatchPathNeeded` for many rows, and for rows that must go as a batch."""
    if not are_few(0, batch.rows.num_rows):
        raise BatchPathNeeded
    rows = rows_of(codec, batch)
    for row in rows:
        check_key(list(row.key))
    return RowsWrite(tablet, codec, rows, unchanged_since=batch.unchanged_since, context=context)
