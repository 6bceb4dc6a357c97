"""Converts Spark's filters to predicates that tablets evaluate.

Only equivalent or weaker predicates are pushed down: Spark evaluates its filters again. Conditions on FLOAT and DOUBLE
stay with Spark, which treats NaN as equal to itself and as the greatest number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from ...driver.tables.conditions import Condition, bound_predicates
from ...errors import DatabaseError
from ...model.predicates import ColumnPredicate
from .relation import TabletScan

_OPERATORS: Final[dict[type[Filter], str]] = {
    EqualTo: "==",
    GreaterThan: ">",
    GreaterThanOrEqual: ">=",
    LessThan: "<",
    LessThanOrEqual: "<=",
    StringStartsWith: "starts_with",
}
_NEGATED: Final[dict[type[Filter], Callable[[Any], tuple[str, tuple[Any, ...]]]]] = {
    EqualTo: lambda filter_: ("!=", (filter_.value,)),
    In: lambda filter_: ("not in", tuple(filter_.value)),
    IsNull: lambda filter_: ("is_not_null", ()),
}


def pushed(scan: TabletScan, filters: Iterable[Filter]) -> tuple[ColumnPredicate, ...]:
    """The predicates for those filters that are on columns of the scan's table."""
    columns = {
        name: column
        for name, source in scan.sources.items()
        if (column := scan.table.schema.column(source)) and not column.type.is_float
    }
    found: list[ColumnPredicate] = []
    for filter_ in filters:
        condition = _condition(filter_)
        if condition is None or condition.column not in columns:
            continue
        column = columns[condition.column]
        named = Condition(column.name, condition.operator, condition.values)
        try:
            found += bound_predicates(scan.table.name, {column.name: column}, named)
        except DatabaseError:  # a value outside the column's type: left to Spark
            continue
    return tuple(found)


def _condition(filter_: Any) -> Condition | None:
    if isinstance(filter_, Not):
        child = filter_.child
        said = _NEGATED[type(child)](child) if type(child) in _NEGATED else None
        return None if said is None else _of(child, *said)
    if isinstance(filter_, IsNull | IsNotNull):
        return _of(filter_, "is_null" if isinstance(filter_, IsNull) else "is_not_null", ())
    if isinstance(filter_, EqualNullSafe):
        return _of(filter_, "is_null", ()) if filter_.value is None else _of(filter_, "==", (filter_.value,))
    if isinstance(filter_, In):
        return _of(filter_, "in", tuple(value for value in filter_.value if value is not None))
    operator = _OPERATORS.get(type(filter_))
    return None if operator is None else _of(filter_, operator, (filter_.value,))


def _of(filter_: Any, operator: str, values: tuple[Any, ...]) -> Condition | None:
    """The condition; None for a field within a column, and for NULL among values that must not be equal."""
    if len(filter_.attribute) != 1 or any(value is None for value in values):
        return None
    return Condition(filter_.attribute[0], operator, values)
