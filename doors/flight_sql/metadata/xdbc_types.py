"""GetXdbcTypeInfo: the types of columns as JDBC and ODBC describe them."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from ....model.types import MAX_PRECISION
from ..protocol.messages import given
from ..protocol.numbers import XdbcType
from .catalogs import table_of


def _whole(name: str, nullable: bool = True) -> pa.Field:
    return pa.field(name, pa.int32(), nullable)


XDBC_TYPES: Final = pa.schema(
    [
        pa.field("type_name", pa.utf8(), False),
        _whole("data_type", False),
        _whole("column_size"),
        pa.field("literal_prefix", pa.utf8()),
        pa.field("literal_suffix", pa.utf8()),
        pa.field("create_params", pa.list_(pa.field("item", pa.utf8(), False))),
        _whole("nullable", False),
        pa.field("case_sensitive", pa.bool_(), False),
        _whole("searchable", False),
        pa.field("unsigned_attribute", pa.bool_()),
        pa.field("fixed_prec_scale", pa.bool_(), False),
        pa.field("auto_increment", pa.bool_()),
        pa.field("local_type_name", pa.utf8()),
        _whole("minimum_scale"),
        _whole("maximum_scale"),
        _whole("sql_data_type", False),
        _whole("datetime_subcode"),
        _whole("num_prec_radix"),
        _whole("interval_precision"),
    ]
)
_NULLABLE: Final = 1
_SEARCHABLE_BASIC: Final = 2
_SEARCHABLE: Final = 3
_DECIMAL_RADIX: Final = 10
_BINARY_RADIX: Final = 2
_T = XdbcType
# name, type, size, quotes, parameters, radix, scales, generic type, subcode
_TYPES: Final[tuple[tuple[Any, ...], ...]] = (
    ("BOOLEAN", _T.BIT, 1, None, None, None, None, _T.BIT, None),
    ("TINYINT", _T.TINYINT, 3, None, None, _DECIMAL_RADIX, (0, 0), _T.TINYINT, None),
    ("BIGINT", _T.BIGINT, 19, None, None, _DECIMAL_RADIX, (0, 0), _T.BIGINT, None),
    ("BINARY", _T.VARBINARY, None, ("X'", "'"), None, None, None, _T.VARBINARY, None),
    (
        "DECIMAL",
        _T.DECIMAL,
        MAX_PRECISION,
        None,
        ("precision", "scale"),
        _DECIMAL_RADIX,
        (0, MAX_PRECISION),
        _T.DECIMAL,
        None,
    ),
    ("INT", _T.INTEGER, 10, None, None, _DECIMAL_RADIX, (0, 0), _T.INTEGER, None),
    ("SMALLINT", _T.SMALLINT, 5, None, None, _DECIMAL_RADIX, (0, 0), _T.SMALLINT, None),
    ("FLOAT", _T.REAL, 24, None, None, _BINARY_RADIX, None, _T.REAL, None),
    ("DOUBLE", _T.DOUBLE, 53, None, None, _BINARY_RADIX, None, _T.DOUBLE, None),
    ("STRING", _T.VARCHAR, None, ("'", "'"), None, None, None, _T.VARCHAR, None),
    ("VARCHAR", _T.VARCHAR, None, ("'", "'"), ("length",), None, None, _T.VARCHAR, None),
    ("DATE", _T.DATE, 10, ("DATE '", "'"), None, None, None, _T.DATETIME, 1),
    ("TIMESTAMP", _T.TIMESTAMP, 26, ("TIMESTAMP '", "'"), None, None, (6, 6), _T.DATETIME, 3),
)


def xdbc_types(command: Any) -> pa.Table:
    """The types, or those of one number, by number and name."""
    wanted = given(command, "data_type")
    rows = sorted((_row(*entry) for entry in _TYPES), key=lambda row: (row[1], row[0]))
    return table_of(XDBC_TYPES, (row for row in rows if wanted in (None, row[1])))


def _row(
    name: str,
    type_: XdbcType,
    size: int | None,
    quotes: tuple[str, str] | None,
    parameters: tuple[str, ...] | None,
    radix: int | None,
    scales: tuple[int, int] | None,
    generic: XdbcType,
    subcode: int | None,
) -> tuple[Any, ...]:
    is_text = type_ is XdbcType.VARCHAR
    is_number = radix is not None
    low, high = scales or (None, None)
    return (
        *(name, int(type_), size, *(quotes or (None, None)), parameters and list(parameters)),
        *(_NULLABLE, is_text, _SEARCHABLE if is_text else _SEARCHABLE_BASIC),
        *(False if is_number else None, False, False if is_number else None, name, low, high, int(generic)),
        *(subcode, radix, None),
    )
