"""Arrow data in the types that every engine accepts."""

from __future__ import annotations

from typing import TypeVar

import pyarrow as pa

_Rows = TypeVar("_Rows", pa.RecordBatch, pa.Table)


def without_string_views(rows: _Rows) -> _Rows:
    """The same rows with string views replaced by Arrow's usual text type.

    Parquet files may be read as string views, from which Arrow itself can neither take rows nor write CSV.
    """
    fields = [field.with_type(pa.string()) if pa.types.is_string_view(field.type) else field for field in rows.schema]
    return rows.cast(pa.schema(fields))
