"""The request of a single row's write: its tablet, its values, and the result in its reply."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from ....model.codec.values import map_to_plain
from ....model.store import Op, Timestamp, WriteResult
from ....storage.single_rows.row_codec import LONG_TEXT, MISSING
from ....storage.single_rows.row_rules import LONG_CELL
from ...wire.messages.methods import Call, WriteReply, WriteRow
from ..catalog.catalog_cache import KnownTable
from .row_errors import row_errors

_INSERTS: Final = frozenset((Op.INSERT, Op.INSERT_IGNORE))
_FIRST: Final = np.zeros(1, np.intp)


def place_of(known: KnownTable, op: Op, physical: list[Any]) -> int:
    """Returns the place of the row's tablet; -1 if the row needs the batch path, for its errors or its size."""
    codec = known.codec
    for place in codec.key_places:
        value = physical[place]
        if place == codec.number:
            if (value is MISSING or value is None) is not (op in _INSERTS):
                return -1
        elif value is MISSING:
            default = codec.columns[place].default_physical
            if default is None:
                return -1
            physical[place] = default
        elif value is None:
            return -1
    if None in physical and any(physical[place] is None for place in codec.not_null):
        return -1
    for place in codec.long_texts:
        value = physical[place]
        if value is None or value is MISSING or len(value) <= LONG_TEXT:
            continue
        if place < codec.key_columns or len(value) > LONG_CELL:
            return -1
    return known.partitioner.route_one(physical)


def plain_values(known: KnownTable, op: Op, row: Mapping[str, Any], physical: list[Any]) -> dict[str, Any]:
    """Returns the values of a row that are sent, by column, in the form of messages; after `place_of`."""
    if len(row) == len(physical):
        values = dict(zip(known.table.schema.names, physical))
    else:
        position = known.codec.place
        values = {name: physical[position(name)] for name in row}
    for column in known.table.schema.key:
        if column.auto_increment and op in _INSERTS:
            values.pop(column.name, None)
        elif column.name not in values:
            values[column.name] = column.default  # it has decided the tablet
    return map_to_plain(values)


def write_request(known: KnownTable, tablet_id: str, op: Op, plain: dict[str, Any], call: Call) -> WriteRow:
    """Returns the request to write a row of these values, in the form of messages."""
    return WriteRow(tablet_id=tablet_id, schema_version=known.table.version, op=int(op), row=plain, call=call)


def write_result(reply: WriteReply) -> WriteResult:
    """Returns the result of a write of one row."""
    errors = tuple(row_errors(reply.errors, _FIRST)) if reply.errors else ()
    return WriteResult(reply.applied, errors, Timestamp(reply.timestamp))
