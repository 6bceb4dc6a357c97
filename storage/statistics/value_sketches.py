"""Sketches of Arrow arrays: what rows in memory, and rows as deltas changed them, add to statistics."""

from __future__ import annotations

import pyarrow as pa

from ...model import arrow_functions as pc
from ...model.schema import ColumnSchema
from ...model.vectors.vector import Array, Wide, vector_from_arrow
from ..columns.sketch import SketchBuilder, hash_decimals, hash_floats, hash_integers, hash_texts


def add_values(builder: SketchBuilder, column: ColumnSchema, values: pa.Array, count_distinct: bool) -> None:
    """Count values of a column (an Arrow array of its type) into a sketch: bounds, NULLs and, optionally, distinct
    ones."""
    present = values.drop_null()
    low = high = None
    if len(present):
        ends = pc.min_max(present)
        low, high = (column.type.to_physical(ends[end].as_py()) for end in ("min", "max"))
        if count_distinct:
            builder.add_hashes(_hashes(column, present))
    builder.add(low, high, values.null_count, len(values))


def _hashes(column: ColumnSchema, present: pa.Array) -> Array:
    if column.type.is_text:
        return hash_texts(present)
    vector = vector_from_arrow(column.type, present)
    if isinstance(vector, Wide):
        return hash_decimals(present)
    return hash_floats(vector.values()) if column.type.is_float else hash_integers(vector.values())
