"""Conditions of a scan that hold parameters, and their form once the values are bound.

    l_shipdate >= ?        a *slot*: the value goes straight into a column predicate
    l_comment LIKE ?       rebuilt as an expression; `scans.scan_predicates.extract` decides for each value
    l_tax <> l_discount    decided once for all values

The result equals what `extract` and `merge` would return for all conditions with the values in them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, TypeAlias

from ...model.lazy_dataclass import dataclass
from ...model.predicates import ColumnPredicate, Range
from ...model.types import DataType, Kind
from ...sql.expressions import Call, Column, Expr, Literal, Parameter, conjuncts
from ..algebra.physical import TableScan
from ..algebra.trees import MIRRORED, all_of
from ..fold import fold
from .scan_predicates import extract, limits, stripped
from .value_sets import merge


@dataclass(slots=True)
class Binding:
    """One binding: the physical values by their parameters' numbers, and the nodes built so far."""

    values: Sequence[Any]
    done: dict[int, Any] = field(default_factory=dict)


ExpressionMaker: TypeAlias = Callable[[Binding], Expr]
"""Rebuilds an expression with values in it, folded."""
Pushed: TypeAlias = tuple[tuple[ColumnPredicate, ...], Expr | None]
"""Column predicates of a scan, and its residual condition."""
Slot: TypeAlias = Callable[[Any], Range | None]
"""Makes the column predicate of a comparison with a physical value; None if the general path must decide."""


@dataclass(frozen=True, slots=True)
class _Slotted:
    """A comparison of `column` with the parameter of number `number`."""

    column: str
    number: int
    slot: Slot


def pushed_conditions(
    scan: TableScan, maker_of: Callable[[Expr], ExpressionMaker | None], number_of: Callable[[Parameter], int]
) -> Callable[[Binding], Pushed]:
    """Return a function that produces the conditions of a scan with values in them.

    `maker_of` returns the function that rebuilds an expression, None if the expression holds no parameter. `number_of`
    returns a parameter's place in a binding.
    """
    names = {column.id: name for column, name in zip(scan.fetched, scan.names, strict=True)}
    slotted: list[_Slotted] = []
    settled: list[Expr] = []
    every: list[tuple[Expr, ExpressionMaker | None]] = []
    rest: list[tuple[Expr, ExpressionMaker | None]] = []
    for part in conjuncts(scan.residual):
        maker = maker_of(part)
        expr = part if maker is not None else fold(part)
        every.append((expr, maker))
        bound_predicates = _slotted(part, names, number_of)
        if bound_predicates is not None:
            slotted.append(bound_predicates)
        else:
            rest.append((expr, maker))
            settled += [] if maker is not None else [expr]
    fixed = extract(settled, names)
    rest = [(expr, maker) for expr, maker in rest if maker is not None or any(expr is kept for kept in fixed.residual)]
    before = merge((*scan.predicates, *fixed.predicates))
    columns = [predicate.column for predicate in before] + [slot.column for slot in slotted]
    # The order is that of `merge`: ranges first.
    ranges = tuple(predicate for predicate in before if isinstance(predicate, Range))
    others = before[len(ranges) :]
    needs_merging = len(set(columns)) < len(columns)
    fixed_residual = all_of(fixed.residual)
    makers = [maker for _, maker in rest if maker is not None]
    slots = [(slot.slot, slot.number) for slot in slotted]

    def all_anew(binding: Binding) -> Pushed:
        made = all_of([expr if maker is None else maker(binding) for expr, maker in every])
        parts = extract(conjuncts(None if made is None else fold(made)), names)
        return merge((*scan.predicates, *parts.predicates)), all_of(parts.residual)

    def pushed(binding: Binding) -> Pushed:
        values = binding.values
        bound_predicates: list[Any] = [slot(values[number]) for slot, number in slots]
        if None in bound_predicates:
            return all_anew(binding)
        if not makers:
            if needs_merging:
                return merge((*before, *bound_predicates)), fixed_residual
            return (*ranges, *bound_predicates, *others), fixed_residual
        residual: list[Expr] = []
        for expr, maker in rest:
            if maker is None:
                residual.append(expr)
                continue
            made = maker(binding)
            if isinstance(made, Literal):
                return all_anew(binding)
            parts = extract(conjuncts(made), names)
            bound_predicates += parts.predicates
            residual += parts.residual
        return merge((*before, *bound_predicates)), all_of(residual)

    return pushed


def _slotted(condition: Expr, names: Mapping[int, str], number_of: Callable[[Parameter], int]) -> _Slotted | None:
    """Return the slot of `column comparison parameter`, either way round; None for anything else."""
    if not isinstance(condition, Call) or condition.function not in MIRRORED or condition.function == "ne":
        return None
    function, (first, second) = condition.function, condition.args
    if isinstance(first, Parameter):
        function, first, second = MIRRORED[function], second, first
    column = stripped(first)
    if column is None or column.id not in names or not isinstance(second, Parameter) or second.type != column.type:
        return None
    slot = _slot(names[column.id], column, function)
    return None if slot is None else _Slotted(names[column.id], number_of(second), slot)


def _slot(name: str, column: Column, function: str) -> Slot | None:
    type_: DataType = column.type
    inclusive = function in ("le", "ge")
    if type_.kind in (Kind.STRING, Kind.BINARY):
        return _text_slot(name, function, inclusive)
    if not (type_.is_integer or type_.is_decimal or type_.kind in (Kind.DATE, Kind.TIMESTAMP)):
        return None
    # At the limits of a type's range, some comparisons are always or never true.
    low, high = limits(type_)

    def equal(value: Any) -> Range | None:
        return Range(name, value, value) if value is not None and low < value < high else None

    def at_most(value: Any) -> Range | None:
        return Range(name, None, value, True, inclusive) if value is not None and low < value < high else None

    def at_least(value: Any) -> Range | None:
        return Range(name, value, None, inclusive) if value is not None and low < value < high else None

    return equal if function == "eq" else at_most if function in ("lt", "le") else at_least


def _text_slot(name: str, function: str, inclusive: bool) -> Slot:
    if function == "eq":
        return lambda value: None if value is None else Range(name, value, value)
    if function in ("lt", "le"):
        return lambda value: None if value is None else Range(name, None, value, True, inclusive)
    return lambda value: None if value is None else Range(name, value, None, inclusive)
