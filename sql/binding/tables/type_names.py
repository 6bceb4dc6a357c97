"""Resolves SQL's type names."""

from __future__ import annotations

from typing import Any, Final

from sqlglot import exp

from ....errors import NotSupportedError, NumericOutOfRange, TypeMismatch, did_you_mean
from ....model.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DECIMAL,
    DOUBLE,
    FLOAT,
    INT,
    INTERVAL,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TINYINT,
    DataType,
    Kind,
)
from ...functions.arrays import array_of
from ...syntax.not_supported import TYPES
from ..context import Context

_T = exp.DataType.Type
_PLAIN = {
    _T.BOOLEAN: BOOLEAN,
    _T.TINYINT: TINYINT,
    _T.SMALLINT: SMALLINT,
    _T.INT: INT,
    _T.BIGINT: BIGINT,
    _T.FLOAT: FLOAT,
    _T.DOUBLE: DOUBLE,
    _T.DATE: DATE,
    _T.TIMESTAMP: TIMESTAMP,
    _T.DATETIME: TIMESTAMP,
    _T.TIMESTAMPNTZ: TIMESTAMP,
    _T.TEXT: STRING,
    _T.BINARY: BINARY,
    _T.VARBINARY: BINARY,
    _T.BLOB: BINARY,
    _T.INTERVAL: INTERVAL,
}
_TEXTS = (_T.VARCHAR, _T.CHAR, _T.NVARCHAR, _T.NCHAR, _T.BPCHAR)
_NUMBERS = ("TINYINT", "SMALLINT", "INT", "INTEGER", "BIGINT", "FLOAT", "REAL", "DOUBLE", "DECIMAL", "NUMERIC")
_OTHERS = ("BOOLEAN", "DATE", "TIMESTAMP", "STRING", "TEXT", "VARCHAR", "CHAR", "BINARY", "BYTEA")
NAMES = (*_NUMBERS, *_OTHERS)
_PLAIN_BY_NAME = {
    "bool": BOOLEAN, "int2": SMALLINT, "int4": INT, "int8": BIGINT, "float4": FLOAT, "float8": DOUBLE, "text": STRING,
    "varchar": STRING, "bpchar": STRING, "date": DATE, "timestamp": TIMESTAMP, "timestamptz": TIMESTAMP,
    "bytea": BINARY, "interval": INTERVAL,
}  # fmt: skip
"""Types by PostgreSQL's own names, for `pg_catalog.int4`."""
_NUMBERS_BY_NAME = frozenset(
    ("oid", "xid", "cid", "regclass", "regtype", "regproc", "regprocedure", "regoper", "regoperator", "regnamespace",
     "regrole", "regcollation")
)  # fmt: skip
_TEXTS_BY_NAME = frozenset(
    ("name", "char", "cstring", "int2vector", "oidvector", "aclitem", "anyarray", "pg_node_tree", "refcursor", "tid")
)

OPEN_DECIMAL: Final = 38, 9
"""Digits of a cast to DECIMAL that gives none, and of such a column of a client of PostgreSQL, where numeric has any
number: the most there are, and behind the point those of most currencies and rates."""


def bind_type(node: Any, context: Context) -> DataType:
    """The type for a type's syntax.

    Raises `TypeMismatch` for an unknown name or an invalid size, `NotSupportedError` for a type of other databases.
    """
    with context.at(node):
        kind = node.this
        if kind == _T.TIMESTAMPTZ and context.session.of_postgres:
            return TIMESTAMP
        if kind not in _PLAIN and kind not in _TEXTS and kind != _T.DECIMAL:
            raise _foreign(node)
        sizes = _arguments(node)
        if kind == _T.DECIMAL and not sizes and context.session.of_postgres:
            return DECIMAL(*OPEN_DECIMAL)
        return _bind(kind, sizes)


def bind_cast_type(node: Any, context: Context) -> DataType:
    """The type of a cast, which may also be one of the system catalogs: `regclass`, `name`, `int2[]`.

    Raises as `bind_type` does.
    """
    kind = node.this
    if kind == _T.ARRAY and len(node.expressions) == 1:
        return array_of(bind_cast_type(node.expressions[0], context))
    if kind == _T.TIMESTAMPTZ:
        return TIMESTAMP  # timestamps are in UTC
    if kind == _T.DECIMAL and not node.expressions:
        return DECIMAL(*OPEN_DECIMAL)
    name = str(node.args.get("kind") or "").lower().removeprefix("pg_catalog.") if kind == _T.USERDEFINED else ""
    if name in _PLAIN_BY_NAME:
        return _PLAIN_BY_NAME[name]
    if name in _NUMBERS_BY_NAME:
        return DataType(Kind.BIGINT, alias=name)
    if name in _TEXTS_BY_NAME:
        return DataType(Kind.STRING, alias=name)
    if name.startswith("_") and name[1:] in _PLAIN_BY_NAME:
        return array_of(_PLAIN_BY_NAME[name[1:]])
    return bind_type(node, context)


def _arguments(node: Any) -> list[int]:
    sizes = []
    for part in node.args.get("expressions") or []:
        value = part.this if isinstance(part, exp.DataTypeParam) and not part.expression else part
        if not isinstance(value, exp.Literal) or value.is_string or not str(value.this).isdigit():
            raise TypeMismatch("a type's size must be a plain number")
        sizes.append(int(value.this))
    return sizes


def _bind(kind: Any, sizes: list[int]) -> DataType:
    if kind == _T.DECIMAL:
        return _decimal(sizes)
    if kind in _TEXTS:
        if len(sizes) > 1 or sizes == [0]:
            raise TypeMismatch("VARCHAR takes one length of at least 1")
        return DataType(Kind.STRING, length=sizes[0]) if sizes else STRING
    if not sizes or (sizes == [6] and _PLAIN[kind] == TIMESTAMP):
        return _PLAIN[kind]
    if kind == _T.FLOAT and len(sizes) == 1:
        return FLOAT if sizes[0] <= 24 else DOUBLE  # FLOAT(bits), as the standard counts them
    if _PLAIN[kind] == TIMESTAMP:
        raise NotSupportedError("TIMESTAMP keeps microseconds; no other precision is supported")
    raise TypeMismatch(f"{_PLAIN[kind]} takes no size")


def _foreign(node: Any) -> Exception:
    """The error for a type that nyala does not have."""
    kind = node.this
    if kind == _T.TIMESTAMPTZ:
        return NotSupportedError("TIMESTAMP WITH TIME ZONE is not supported; TIMESTAMP is in UTC")
    if kind == _T.USERDEFINED:
        name = str(node.args.get("kind") or "")
        if name.upper() in TYPES:
            return NotSupportedError(f"type {name.upper()} is not supported; {TYPES[name.upper()]}")
        return TypeMismatch(f"type {name} does not exist{did_you_mean(name, NAMES, 'there are')}")
    name = str(kind.value if isinstance(kind, _T) else kind)
    instead = f"; {TYPES[name.upper()]}" if name.upper() in TYPES else ""
    return NotSupportedError(f"type {name} is not supported{instead}")


def _decimal(sizes: list[int]) -> DataType:
    if not sizes:
        raise TypeMismatch("DECIMAL needs its digits, for instance DECIMAL(15,2): 15 in all, 2 after the point")
    if len(sizes) > 2:
        raise TypeMismatch("DECIMAL takes a precision and a scale")
    try:
        return DECIMAL(*sizes)
    except NumericOutOfRange as error:
        raise TypeMismatch(str(error)) from None
