"""Constants as Spark SQL, each with an explicit type."""

from __future__ import annotations

import math
from typing import Any

from sqlglot import exp

from ....model.types import DataType, Interval, Kind
from ....sql.expressions import Literal
from .tree import Tree, call, cast, null, number, string


def literal(expr: Literal) -> Tree:
    """A constant of the plan."""
    return constant(expr.value, expr.type)


def constant(value: Any, type_: DataType) -> Tree:
    """A physical value of a type."""
    if value is None:
        return null(type_)
    if type_.kind is Kind.INTERVAL:
        return interval(value)
    if type_.kind is Kind.BOOLEAN:
        return exp.true() if value else exp.false()
    if type_.kind is Kind.INT:
        return cast(number(value), type_) if value == -(2**31) else number(value)
    if type_.is_integer:
        # The smallest BIGINT cannot be written with a sign: its digits alone are out of range.
        return cast(string(str(value)) if value == -(2**63) else number(value), type_)
    if type_.is_float:
        return cast(string(_float_text(float(value))), type_)
    if type_.kind is Kind.STRING:
        return string(value)
    if type_.kind is Kind.BINARY:
        return call("unhex", string(value.hex()))
    if type_.is_decimal:
        most = 10 ** (type_.precision or 0) - 1
        value = max(-most, min(most, value))  # a comparison's constant may exceed its type (`coercion.comparand`)
        return cast(string(format(type_.to_python(value), "f")), type_)
    python = type_.to_python(value)
    return cast(string(python.isoformat(" ") if type_.kind is Kind.TIMESTAMP else python.isoformat()), type_)


def _float_text(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return repr(value)


def interval(value: Interval) -> Tree:
    """An INTERVAL as the struct that represents it."""
    months, days, microseconds = (number(part) for part in value)
    return call(
        "named_struct", string("months"), cast(months, "INT"), string("days"), cast(days, "INT"),
        string("microseconds"), cast(microseconds, "BIGINT"),
    )  # fmt: skip
