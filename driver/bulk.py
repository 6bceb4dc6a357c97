"""The short road of `executemany`: rows of Python parameters become the columns of one Arrow batch.

Binding a statement costs a hundred times what writing its row does, so `INSERT INTO t VALUES (?, ?)` with many rows is
bound once, and each chunk of rows is one `WriteBatch`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ..errors import DataError
from ..storage.types import DataType, Kind

CHUNK_ROWS = 1 << 14
"""Rows per write: the batch is large enough to hide its fixed costs, small enough to be logged as one record."""


def column_from_values(type_: DataType, values: Sequence[Any], name: str) -> pa.Array:
    """The Arrow array of `type_.arrow` holding Python `values`, one per row.

    Raises `InvalidText` or `NumericOutOfRange` for the first value that does not fit, with the column and the row.
    """
    array = _at_once(type_, values)
    return _one_by_one(type_, values, name) if array is None else array


def _at_once(type_: DataType, values: Sequence[Any]) -> pa.Array | None:
    """Arrow's own conversion where it means the same as ours, else None."""
    try:
        if type_.is_integer or type_.kind in _INFERRED:
            # Told the type, Arrow cuts 1.5 to 1 and takes integers for days: let it find out what the values are.
            array = pa.array(values)
            fitting = _INFERRED.get(type_.kind, pa.types.is_integer)
            return array.cast(type_.arrow) if fitting(array.type) or pa.types.is_null(array.type) else None
        array = pa.array(values, type_.arrow)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError, TypeError, ValueError):
        return None
    if type_.length is not None and (pc.max(pc.utf8_length(array)).as_py() or 0) > type_.length:
        return None
    return array


_INFERRED = {Kind.DATE: pa.types.is_date32, Kind.TIMESTAMP: pa.types.is_timestamp}


def _one_by_one(type_: DataType, values: Sequence[Any], name: str) -> pa.Array:
    converted = []
    for row, value in enumerate(values):
        try:
            converted.append(type_.to_python(type_.to_physical(value)))
        except DataError as error:
            raise type(error)(f"column {name}, row {row + 1}: {error}") from error
    return pa.array(converted, type_.arrow)
