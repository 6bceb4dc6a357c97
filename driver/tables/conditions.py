"""Conditions of scans as Python expressions: `col("x") >= 3`, `col("name").starts_with("a") & col("y").is_null()`.

    Condition ── bound to a table ──► model.predicates: what tablets evaluate on encoded pages

A condition compares one column with constants; `&` joins conditions of any columns, `|` those of one column. Tablets
evaluate these; other conditions need SQL. A comparison with NULL is not a condition: use `is_null` and `is_not_null`.
Rows whose value is NULL satisfy `is_null` only.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from ...errors import DataError, InterfaceError, NotSupportedError, TypeMismatch, UnknownColumn, did_you_mean
from ...model.lazy_dataclass import dataclass
from ...model.predicates import AnyOf, ColumnPredicate, InList, IsNull, Range, prefix_range
from ...model.python_values import plain_value
from ...model.schema import ColumnSchema
from ...model.types import DataType, Kind

SYMBOLS = {"=": "==", "<>": "!=", "in": "in", "not in": "not in"}
OPERATORS = ("==", "!=", "<", "<=", ">", ">=", "in", "not in", "between", "starts_with", "is_null", "is_not_null")
"""Of conditions as tuples, `("x", ">=", 3)`; `=` and `<>` are understood too."""


@dataclass(frozen=True, slots=True)
class Condition:
    """One column compared with constants, or several such (`members`) of one column of which one must hold."""

    column: str
    operator: str
    values: tuple[Any, ...] = ()
    members: tuple[Condition, ...] = ()

    def __and__(self, other: Condition | Conditions) -> Conditions:
        return Conditions((self,)) & other

    def __or__(self, other: Condition) -> Condition:
        if not isinstance(other, Condition):
            return NotImplemented
        if other.column != self.column:
            raise NotSupportedError(
                f"{self.column} | {other.column}: tablets evaluate OR over one column only; use SQL, or scan twice"
            )
        return Condition(self.column, "or", members=(*(self.members or (self,)), *(other.members or (other,))))

    def __bool__(self) -> bool:
        raise InterfaceError("a condition has no truth value; join conditions with & and |, in parentheses")


@dataclass(frozen=True, slots=True)
class Conditions:
    """Conditions that must all hold."""

    members: tuple[Condition, ...]

    def __and__(self, other: Condition | Conditions) -> Conditions:
        if not isinstance(other, Condition | Conditions):
            return NotImplemented
        return Conditions((*self.members, *(other.members if isinstance(other, Conditions) else (other,))))

    def __or__(self, other: Any) -> Conditions:
        raise NotSupportedError("tablets evaluate OR over one column only; use SQL, or scan twice")

    def __bool__(self) -> bool:
        raise InterfaceError("conditions have no truth of their own; join them with & and |, in parentheses")


Predicates: TypeAlias = Condition | Conditions | tuple[Any, ...] | Iterable[Any] | None
"""A condition, several joined by `&`, a tuple `("x", ">=", 3)`, or a list of these; None: no condition."""


@dataclass(frozen=True, slots=True, eq=False)
class col:  # its name is part of the expressions that it makes
    """A column, to be compared.

    >>> (col("x") >= 3) & col("name").is_in(["a", "b"])
    Conditions(members=(Condition(column='x', operator='>=', values=(3,), members=()),
                        Condition(column='name', operator='in', values=('a', 'b'), members=())))
    """

    name: str

    __hash__ = None  # type: ignore[assignment]  # == makes a condition

    def __eq__(self, value: object) -> Condition:  # type: ignore[override]
        return Condition(self.name, "==", (value,))

    def __ne__(self, value: object) -> Condition:  # type: ignore[override]
        return Condition(self.name, "!=", (value,))

    def __lt__(self, value: Any) -> Condition:
        return Condition(self.name, "<", (value,))

    def __le__(self, value: Any) -> Condition:
        return Condition(self.name, "<=", (value,))

    def __gt__(self, value: Any) -> Condition:
        return Condition(self.name, ">", (value,))

    def __ge__(self, value: Any) -> Condition:
        return Condition(self.name, ">=", (value,))

    def between(self, low: Any, high: Any) -> Condition:
        """`low <= column <= high`."""
        return Condition(self.name, "between", (low, high))

    def is_in(self, values: Iterable[Any]) -> Condition:
        """The value is one of these; none of an empty list."""
        return Condition(self.name, "in", tuple(values))

    def not_in(self, values: Iterable[Any]) -> Condition:
        """True for values that are not NULL and none of these."""
        return Condition(self.name, "not in", tuple(values))

    def starts_with(self, prefix: str | bytes) -> Condition:
        """A text that begins so."""
        return Condition(self.name, "starts_with", (prefix,))

    def is_null(self) -> Condition:
        """There is no value."""
        return Condition(self.name, "is_null")

    def is_not_null(self) -> Condition:
        """There is a value."""
        return Condition(self.name, "is_not_null")


def bound_predicates(table: str, columns: Mapping[str, ColumnSchema], given: Predicates) -> tuple[ColumnPredicate, ...]:
    """The conditions as predicates on a table's columns.

    Raises `UnknownColumn`, `TypeMismatch` where a value is not of the column's type, `InterfaceError` for what is no
    condition.
    """
    predicates: list[ColumnPredicate] = []
    for condition in _conditions(given):
        column = columns.get(condition.column)
        if column is None:
            hint = did_you_mean(str(condition.column), columns, f"table {table} has")
            raise UnknownColumn(f"column {condition.column} does not exist in table {table}{hint}")
        predicates += _bound(column, condition)
    return tuple(predicates)


def _conditions(given: Predicates) -> list[Condition]:
    if given is None:
        return []
    if isinstance(given, Condition):
        return [given]
    if isinstance(given, Conditions):
        return list(given.members)
    if isinstance(given, tuple) and given and isinstance(given[0], str):
        return [_from_tuple(given)]
    if isinstance(given, str | bytes | bool) or not isinstance(given, Iterable):
        raise InterfaceError(f'{given!r} is not a condition; use col("x") >= 3, ("x", ">=", 3), or a list of these')
    return [condition for item in given for condition in _conditions(item)]


def _from_tuple(given: tuple[Any, ...]) -> Condition:
    name, operator, *values = (*given, "") if len(given) == 1 else given
    operator = " ".join(str(operator).lower().split())
    operator = SYMBOLS.get(operator, operator)
    if operator not in OPERATORS:
        operator = operator.replace(" ", "_")
    if operator not in OPERATORS:
        hint = did_you_mean(operator, OPERATORS)
        raise InterfaceError(f"{given!r}: there is no operator {operator!r}{hint}")
    wanted = {"between": 2, "is_null": 0, "is_not_null": 0}.get(operator, 1)
    if len(values) != wanted:
        raise InterfaceError(f"{given!r}: {operator} takes {wanted} values, not {len(values)}")
    if operator in ("in", "not in"):
        if isinstance(values[0], str | bytes) or not isinstance(values[0], Iterable):
            raise InterfaceError(f"{given!r}: {operator} takes a list of values")
        values = list(values[0])
    return Condition(name, operator, tuple(values))


# ---- binding ---------------------------------------------------------------------------------------------------------


def _bound(column: ColumnSchema, condition: Condition) -> list[ColumnPredicate]:
    """The predicates, all of which must hold, that are equivalent to a condition."""
    if condition.members:
        return [AnyOf(column.name, tuple(part for member in condition.members for part in _parts(column, member)))]
    if condition.operator == "not in":
        values = _distinct(column, condition.values)
        return [_other_than(column.name, value) for value in values] or [IsNull(column.name, negated=True)]
    parts = _parts(column, condition)
    return [parts[0] if len(parts) == 1 else AnyOf(column.name, parts)]


def _parts(column: ColumnSchema, condition: Condition) -> tuple[Range | InList | IsNull, ...]:
    """Predicates of which one must hold."""
    name, operator = column.name, condition.operator
    if operator in ("is_null", "is_not_null"):
        return (IsNull(name, negated=operator == "is_not_null"),)
    if operator == "not in":
        raise NotSupportedError(f"{name}: not_in cannot be one side of |; use SQL")
    if operator == "in":
        return (InList(name, _distinct(column, condition.values)),)
    if operator == "starts_with":
        return (_prefix(column, condition.values[0]),)
    values = [_physical(column, value) for value in condition.values]
    if operator == "between":
        return (Range(name, values[0], values[1]),)
    (value,) = values
    if operator == "!=":
        return _other_than(name, value).members
    return (_COMPARISONS[operator](name, value),)


_COMPARISONS: dict[str, Callable[[str, Any], Range]] = {
    "==": Range.equal,
    "<": lambda name, value: Range(name, upper=value, upper_inclusive=False),
    "<=": lambda name, value: Range(name, upper=value),
    ">": lambda name, value: Range(name, lower=value, lower_inclusive=False),
    ">=": lambda name, value: Range(name, lower=value),
}


def _other_than(name: str, value: Any) -> AnyOf:
    below, above = _COMPARISONS["<"](name, value), _COMPARISONS[">"](name, value)
    return AnyOf(name, (below, above))


def _prefix(column: ColumnSchema, prefix: Any) -> Range:
    if not column.type.is_text:
        raise TypeMismatch(f"column {column.name} is {column.type}; starts_with is for STRING and BINARY")
    wanted = str if column.type.kind is Kind.STRING else bytes
    if not isinstance(prefix, wanted):
        raise _mismatch(column, prefix)
    return prefix_range(column.name, plain_value(prefix))


def _distinct(column: ColumnSchema, values: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(sorted({_physical(column, value) for value in values}))


def _physical(column: ColumnSchema, value: Any) -> Any:
    """The physical value of a constant that a column is compared with: exactly that value, or `TypeMismatch`."""
    if value is None:
        raise TypeMismatch(f"column {column.name} is compared with None; use is_null() to test for a missing value")
    type_ = column.type
    try:
        value = plain_value(value)
    except (DataError, InterfaceError):
        raise _mismatch(column, value) from None
    if value is None:
        raise TypeMismatch(f"column {column.name} is compared with a missing value; use is_null() to test for it")
    if not _is_of(type_, value):
        raise _mismatch(column, value)
    try:
        # The declared length limits what is stored, not what it is compared with.
        physical = value if type_.kind is Kind.STRING else type_.to_physical(value)
    except DataError as error:
        raise _mismatch(column, value) from error
    if type_.is_decimal and type_.to_python(physical) != decimal.Decimal(str(value)):
        raise TypeMismatch(f"column {column.name} is {type_}, and {value} has more digits after the point")
    if type_.is_float and physical != physical:
        raise TypeMismatch(f"column {column.name} is compared with NaN; use SQL")
    return physical


def _mismatch(column: ColumnSchema, value: Any) -> TypeMismatch:
    return TypeMismatch(f"column {column.name} is {column.type}; {value!r} is not a value of that type")


_NUMBERS = (int, float, decimal.Decimal)
_CLASSES: dict[Kind, tuple[type, ...]] = {
    Kind.BOOLEAN: (bool,),
    Kind.FLOAT: _NUMBERS,
    Kind.DOUBLE: _NUMBERS,
    Kind.DECIMAL: _NUMBERS,
    Kind.DATE: (datetime.date, str),
    Kind.TIMESTAMP: (datetime.date, str),
    Kind.STRING: (str,),
    Kind.BINARY: (bytes, bytearray, memoryview),
}


def _is_of(type_: DataType, value: Any) -> bool:
    if isinstance(value, bool) or type_.kind is Kind.BOOLEAN:
        return isinstance(value, bool) and type_.kind is Kind.BOOLEAN
    if type_.kind is Kind.DATE and isinstance(value, datetime.datetime):
        return False
    return isinstance(value, _CLASSES.get(type_.kind, _NUMBERS))
