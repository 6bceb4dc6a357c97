"""Arrow data as every engine takes it."""

from __future__ import annotations

from typing import TypeVar

import pyarrow as pa

_Rows = TypeVar("_Rows", pa.RecordBatch, pa.Table)


def without_string_views(rows: _Rows) -> _Rows:
    """The same rows with texts of Arrow's usual type: of string views, as Parquet files may be read, Arrow itself takes
    no rows and writes no CSV."""
    fields = [field.with_type(pa.string()) if pa.types.is_string_view(field.type) else field for field in rows.schema]
    return rows.cast(pa.schema(fields))
