"""Conversion of SQL conditions to the column predicates that a scan evaluates on encoded pages.

A conjunct goes down if it compares one column with literals; its literals become physical values of the column's
type, exactly: `x < 2.5` on an INT column is `x <= 2`, never `x < 2`. Ranges of one column are merged into one.

An OR becomes a union of value sets (`planner.scans.value_sets`) for each column that all its branches restrict. For one
column alone that is the condition itself: `x < 3 OR x IN (7, 9) OR x IS NULL` in one predicate. A condition that a
column predicate only approximates (`LIKE 'a%b'`, an OR of several columns) goes down as the wider one *and* stays in
the residual.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from ...errors import Error
from ...model.lazy_dataclass import dataclass
from ...model.predicates import ColumnPredicate, InList, IsNull, Range, prefix_range
from ...model.types import INTEGER_WIDTHS, DataType, Kind
from ...sql.expressions import Call, Cast, Column, Expr, InValues, Literal, conjuncts
from ..algebra.trees import MIRRORED, disjuncts
from ..fold import MICROSECONDS_PER_DAY, exact_number
from .value_sets import MOST_MEMBERS, Member, Region, as_predicate, hull, intersection, is_everything, merge, union


class Extracted(NamedTuple):
    """Conjuncts of a scan after the split: `predicates` go down, `residual` is evaluated on the rows that come back."""

    predicates: tuple[ColumnPredicate, ...]
    residual: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class _Bound:
    """One comparison of a column with a physical value; `exact` is False where it only approximates the condition."""

    predicate: Member
    exact: bool = True


class _Impossible(Exception):
    """Raised if the value has no counterpart in the column's type, so that the condition is left to the residual."""


def extract(conditions: Iterable[Expr], names: Mapping[int, str]) -> Extracted:
    """Split the conjuncts of a scan; `names` maps each column number to its name in the table.

    >>> from nyala.sql.expressions import Column, Literal
    >>> from nyala.model.types import BOOLEAN, INT
    >>> x = Column(INT, False, 7, "x")
    >>> parts = [Call(BOOLEAN, False, f, (x, Literal(INT, False, v))) for f, v in (("ge", 3), ("lt", 9))]
    >>> extract(parts, {7: "x"}).predicates
    (Range(column='x', lower=3, upper=9, lower_inclusive=True, upper_inclusive=False),)
    """
    predicates: list[ColumnPredicate] = []
    residual: list[Expr] = []
    for condition in conditions:
        if isinstance(condition, Call) and condition.function == "or":
            says = _restriction(condition, names)
            predicates += [as_predicate(name, region) for name, region in says.regions.items()]
            exact = says.exact
        else:
            bound = _bound(condition, names)
            exact = bound is not None and bound.exact
            if bound is not None:
                predicates.append(bound.predicate)
        if not exact:
            residual.append(condition)
    return Extracted(merge(predicates), tuple(residual))


def _bound(condition: Expr, names: Mapping[int, str]) -> _Bound | None:
    """Return the column predicate of one simple condition, None if it has none."""
    try:
        if isinstance(condition, Call):
            return _call_bound(condition, names)
        if isinstance(condition, InValues):
            return _in_bound(condition, names)
        if isinstance(condition, Column) and condition.id in names and condition.type.kind is Kind.BOOLEAN:
            return _Bound(Range.equal(names[condition.id], True))
    except (_Impossible, Error, OverflowError, ValueError):
        pass
    return None


def _call_bound(condition: Call, names: Mapping[int, str]) -> _Bound | None:
    function, args = condition.function, condition.args
    if function in MIRRORED and function != "ne":
        if isinstance(args[0], Literal):
            function, args = MIRRORED[function], (args[1], args[0])
        column, literal = stripped(args[0]), args[1]
        if column is None or column.id not in names or not isinstance(literal, Literal) or literal.value is None:
            return None
        return _Bound(_comparison(names[column.id], column.type, function, literal))
    if function == "is_null" and isinstance(args[0], Column) and args[0].id in names:
        return _Bound(IsNull(names[args[0].id]))
    if function == "not" and isinstance(args[0], Column) and args[0].id in names:
        return _Bound(Range.equal(names[args[0].id], False)) if args[0].type.kind is Kind.BOOLEAN else None
    if function == "not" and isinstance(args[0], Call) and args[0].function == "is_null":
        inner = args[0].args[0]
        return _Bound(IsNull(names[inner.id], True)) if isinstance(inner, Column) and inner.id in names else None
    if function in ("like", "starts_with"):
        return _prefix_bound(function, args, names)
    return None


def stripped(expr: Expr) -> Column | None:
    """Return the column, also below a conversion that keeps all that a comparison needs."""
    if isinstance(expr, Column):
        return expr
    if isinstance(expr, Call) and expr.function == "saturated":
        return expr.args[0] if isinstance(expr.args[0], Column) else None
    if isinstance(expr, Cast) and isinstance(expr.arg, Column) and is_lossless(expr.arg.type, expr.type):
        return expr.arg
    return None


def is_lossless(source: DataType, target: DataType) -> bool:
    """True if a cast maps different values to different values, in the same order."""
    if source == target:
        return True
    if source.is_integer and target.is_integer:
        return INTEGER_WIDTHS[source.kind] <= INTEGER_WIDTHS[target.kind]
    if target.is_decimal and (source.is_integer or source.is_decimal):
        assert target.precision is not None and target.scale is not None
        digits = _INTEGER_DIGITS[source.kind] if source.is_integer else (source.precision or 0) - (source.scale or 0)
        return target.precision - target.scale >= digits and target.scale >= (source.scale or 0)
    if target.kind is Kind.DOUBLE:
        return source.kind in (Kind.TINYINT, Kind.SMALLINT, Kind.INT, Kind.FLOAT)
    if source.kind is Kind.DATE:
        return target.kind is Kind.TIMESTAMP
    return source.kind is target.kind is Kind.STRING and target.length is None


_INTEGER_DIGITS = {Kind.TINYINT: 3, Kind.SMALLINT: 5, Kind.INT: 10, Kind.BIGINT: 19}


# ---- comparisons -------------------------------------------------------------------------------------------------


def _comparison(name: str, type_: DataType, function: str, literal: Literal) -> Member:
    if type_.is_integer or type_.is_decimal or type_.kind in (Kind.DATE, Kind.TIMESTAMP):
        return _integer_comparison(name, type_, function, _scaled(literal, type_))
    value = _plain_value(literal, type_)
    if function == "eq":
        return Range.equal(name, value)
    if function in ("lt", "le"):
        return Range(name, upper=value, upper_inclusive=function == "le")
    return Range(name, lower=value, lower_inclusive=function == "ge")


def _plain_value(literal: Literal, type_: DataType) -> Any:
    value = literal.value
    if type_.is_float:
        if not literal.type.is_numeric:
            raise _Impossible
        number = value / 10 ** (literal.type.scale or 0) if literal.type.is_decimal else float(value)
        with np.errstate(over="ignore"):
            same = type_.kind is not Kind.FLOAT or float(np.float32(number)) == number
        if not math.isfinite(number) or not same:
            raise _Impossible
        return number
    if literal.type.kind is not type_.kind:
        raise _Impossible
    return value


def _scaled(literal: Literal, type_: DataType) -> Fraction:
    """Convert the literal to the column's physical unit, exactly; a fraction if it falls between two values."""
    kind = literal.type.kind
    if type_.kind in (Kind.DATE, Kind.TIMESTAMP):
        if kind is type_.kind:
            return Fraction(literal.value)
        if kind is Kind.TIMESTAMP:
            return Fraction(literal.value, MICROSECONDS_PER_DAY)
        if kind is Kind.DATE:
            return Fraction(literal.value * MICROSECONDS_PER_DAY)
        raise _Impossible
    if literal.type.is_float:
        if not math.isfinite(literal.value):
            raise _Impossible
    elif not literal.type.is_numeric:
        raise _Impossible
    return exact_number(literal.value, literal.type) * Fraction(10) ** (type_.scale or 0)


def _integer_comparison(name: str, type_: DataType, function: str, value: Fraction) -> Member:
    low, high = limits(type_)
    if function == "eq":
        if value.denominator != 1 or not low <= value <= high:
            raise _Impossible
        return Range.equal(name, int(value))
    if function in ("lt", "le"):
        whole = value.denominator == 1
        upper = math.floor(value)
        if upper < low or (function == "lt" and value <= low):
            raise _Impossible
        if upper >= high and (function == "le" or upper > high):
            return IsNull(name, negated=True)
        return Range(name, upper=upper, upper_inclusive=not (whole and function == "lt"))
    whole = value.denominator == 1
    lower = math.ceil(value)
    if lower > high or (function == "gt" and value >= high):
        raise _Impossible
    if lower <= low and (function == "ge" or lower < low):
        return IsNull(name, negated=True)
    return Range(name, lower=lower, lower_inclusive=not (whole and function == "gt"))


def limits(type_: DataType) -> tuple[int, int]:
    """Return the least and the largest physical value of an integer, DECIMAL, DATE or TIMESTAMP column."""
    if type_.is_decimal:
        top = 10 ** (type_.precision or 0) - 1
        return -top, top
    bits = {Kind.DATE: 31, Kind.TIMESTAMP: 63}.get(type_.kind) or 8 * INTEGER_WIDTHS[type_.kind] - 1
    return -(1 << bits), (1 << bits) - 1


def _in_bound(condition: InValues, names: Mapping[int, str]) -> _Bound | None:
    column = stripped(condition.arg)
    if column is None or column.id not in names or not condition.items:
        return None
    values: set[Any] = set()
    for type_, literals in _by_type(condition.items).items():
        if literals is None:
            return None
        values |= _equal_values(column.type, type_, literals)
    if not values:
        return None
    name = names[column.id]
    return _Bound(Range.equal(name, min(values)) if len(values) == 1 else InList(name, tuple(sorted(values))))


def _by_type(items: Sequence[Expr]) -> dict[DataType | None, list[Any] | None]:
    """Return the values of literals by their type, without NULLs; an entry of None if an item is no literal.

    `x IN (1, NULL)` is true for 1 and never false: in a scan the NULL changes nothing.
    """
    lists: dict[int, tuple[DataType, list[Any]]] = {}
    known: tuple[DataType, list[Any]] | None = None
    for item in items:
        if type(item) is not Literal:
            return {None: None}
        if item.value is None:
            continue
        # Comparing and hashing types costs more than all else here; most literals of a list share one object.
        if known is None or known[0] is not item.type:
            known = lists.setdefault(id(item.type), (item.type, []))
        known[1].append(item.value)
    found: dict[DataType | None, list[Any] | None] = {}
    for type_, values in lists.values():
        found[type_] = [*(found.get(type_) or ()), *values]
    return found


def _equal_values(type_: DataType, source: DataType | None, values: list[Any]) -> set[Any]:
    """Return the column's values that equal literals of one type; a literal that equals none is left out."""
    assert source is not None
    exact = type_.is_integer or type_.is_decimal
    if source == type_ and not type_.is_float:
        return set(values)
    if exact and (source.is_integer or source.is_decimal):
        low, high = limits(type_)
        shift = (type_.scale or 0) - (source.scale or 0)
        factor = 10 ** abs(shift)
        scaled = [v * factor for v in values] if shift >= 0 else [v // factor for v in values if v % factor == 0]
        return {value for value in scaled if low <= value <= high}
    if exact or type_.kind in (Kind.DATE, Kind.TIMESTAMP):
        low, high = limits(type_)
        fractions = [_scaled(Literal(source, False, value), type_) for value in values]
        return {int(value) for value in fractions if value.denominator == 1 and low <= value <= high}
    return {_plain_value(Literal(source, False, value), type_) for value in values}


# ---- patterns and disjunctions -----------------------------------------------------------------------------------


def like_prefix(pattern: str) -> tuple[str, str]:
    r"""Split a LIKE pattern into its literal prefix and the rest, with `\` as the escape character.

    >>> like_prefix("forest%")
    ('forest', '%')
    >>> like_prefix(r"50\%_off")
    ('50%', '_off')
    """
    prefix: list[str] = []
    position = 0
    while position < len(pattern) and pattern[position] not in "%_":
        position += pattern[position] == "\\" and position + 1 < len(pattern)
        prefix.append(pattern[position])
        position += 1
    return "".join(prefix), pattern[position:]


def _prefix_bound(function: str, args: Sequence[Expr], names: Mapping[int, str]) -> _Bound | None:
    """Return the predicate of `column LIKE pattern` or `starts_with(column, prefix)`."""
    column, pattern = stripped(args[0]), args[1]
    if column is None or column.id not in names or column.type.kind is not Kind.STRING:
        return None
    if len(args) > 2 or not isinstance(pattern, Literal) or not isinstance(pattern.value, str):
        return None
    prefix, rest = like_prefix(pattern.value) if function == "like" else (pattern.value, "%")
    name, exact = names[column.id], rest.strip("%") == ""
    if not rest:
        return _Bound(Range.equal(name, prefix))
    if not prefix:
        return _Bound(IsNull(name, negated=True)) if exact else None
    return _Bound(prefix_range(name, prefix), exact)


@dataclass(frozen=True, slots=True)
class _Restriction:
    """The value sets to which a condition restricts columns: where it is true, each value is in the region of its
    column.

    If `exact`, the converse holds as well. A region is never empty.
    """

    regions: Mapping[str, Region]
    exact: bool


_SAYS_NOTHING = _Restriction({}, False)


def _restriction(condition: Expr, names: Mapping[int, str]) -> _Restriction:
    if isinstance(condition, Call) and condition.function == "or":
        return _one_of([_conjunction(branch, names) for branch in disjuncts(condition)])
    bound = _bound(condition, names)
    return _SAYS_NOTHING if bound is None else _Restriction({bound.predicate.column: (bound.predicate,)}, bound.exact)


def _conjunction(branch: Expr, names: Mapping[int, str]) -> _Restriction | None:
    """Restriction by one branch of an OR; None if the branch is never true."""
    regions: dict[str, Region] = {}
    exact = True
    for part in conjuncts(branch):
        says = _restriction(part, names)
        exact = exact and says.exact
        for name, region in says.regions.items():
            regions[name] = intersection(name, regions[name], region) if name in regions else union(name, [region])
            if not regions[name]:
                return None
    return _Restriction(regions, exact)


def _one_of(branches: Sequence[_Restriction | None]) -> _Restriction:
    """Union of the branches' value sets, per column that every branch restricts."""
    possible = [branch for branch in branches if branch is not None]
    if not possible:
        return _SAYS_NOTHING
    first = possible[0].regions
    common = [name for name in first if all(name in other.regions for other in possible[1:])]
    # For several columns, the union of each is wider than the condition: (1, 2) or (3, 4) is not {1, 3} x {2, 4}.
    exact = all(branch.exact and len(branch.regions) == 1 for branch in possible) and len(common) == 1
    regions: dict[str, Region] = {}
    for name in common:
        region = union(name, [branch.regions[name] for branch in possible])
        if len(region) > MOST_MEMBERS:
            region, exact = hull(name, region), False
        if not is_everything(region):
            regions[name] = region
    return _Restriction(regions, exact)
