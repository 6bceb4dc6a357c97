"""Aggregate calls in two steps: partial values over some of a join's rows, and aggregates above the join that merge
them.

Rows of one side of a join have the same partners if they agree in all columns that the rest of the query reads. They
may be aggregated before the join: each partner then meets one partial value instead of many rows.

    count(x)   partial count(x)               sum of the counts
    sum(x)     partial sum(x)                 sum of the sums
    avg(x)     partial sum(x) and count(x)    sum of the sums / sum of the counts, rounded as avg rounds
    min(x)     partial min(x)                 min of the minima; likewise any_value, max, bool_and, bit_or, ...

A CASE whose conditions read the other side is the same for all rows behind one partial value, and so is a FILTER:

    sum(CASE WHEN d = 1 THEN x ELSE 0 END)    partial sum(x)    sum(CASE WHEN d = 1 THEN partial ELSE 0 END)
"""

from __future__ import annotations

from dataclasses import replace

from ...model.types import BIGINT, DECIMAL, DOUBLE, DataType
from ...sql.expressions import Aggregate as AggregateCall
from ...sql.expressions import Call, Case, Cast, Column, Expr, InValues, Literal, Parameter
from ...sql.functions import AGGREGATES, OPERATIONS, is_volatile
from ...sql.functions.aggregates import sum_type
from ..algebra.trees import Numbers, columns_in, is_null, negate, subexpressions
from .inject_domain import over_no_rows

_COUNTED = DECIMAL(38, 0)


class Split:
    """Splits the calls of one aggregation; `inside` are the columns of the rows that are aggregated first.

    Attributes
    ----------
    partials : dict of AggregateCall to Column
        Calls computed first, each once.
    merging : list of (Column, AggregateCall)
        Calls computed over the partial values.
    values : list of (Column, Expr)
        The calls' own columns, over those of `merging`.
    """

    def __init__(self, inside: frozenset[int], numbers: Numbers):
        self.partials: dict[AggregateCall, Column] = {}
        self.merging: list[tuple[Column, AggregateCall]] = []
        self.values: list[tuple[Column, Expr]] = []
        self._inside = inside
        self._numbers = numbers

    def add(self, column: Column, call: AggregateCall, never_empty: bool) -> bool:
        """Split one call; False if that is impossible. `never_empty`: every group has a row."""
        if call.distinct or call.order or is_volatile(call):
            return False
        reads = columns_in(call)
        if _computed_above(call) and not reads <= self._inside:
            self.merging.append((column, call))
            self.values.append((column, column))
            return True
        within, above = (call.filter, None) if columns_in(call.filter) <= self._inside else (None, call.filter)
        if within is not None and not never_fails(within):
            return False
        arg = call.args[0] if call.args else None
        if call.function == "avg" and arg is not None:
            return self._add_average(column, call, arg, within, above)
        if call.function == "count" and len(call.args) < 2:
            value = self._partial("count", BIGINT, arg, within)
            if value is None:
                return False
            if never_empty and above is None and not value.nullable:
                self.merging.append((column, AggregateCall(BIGINT, False, "sum", (value,))))
                self.values.append((column, column))
            else:
                total = self._merge("sum", BIGINT, value, above, column.name)
                self.values.append((column, over_no_rows(total, call)))
            return True
        if not AGGREGATES[call.function].merges or arg is None or len(call.args) > 1:
            return False
        value = self._partial(call.function, call.type, arg, within)
        if value is None:
            return False
        self.merging.append((column, AggregateCall(call.type, True, call.function, (value,), filter=above)))
        self.values.append((column, column))
        return True

    def _add_average(
        self, column: Column, call: AggregateCall, arg: Expr, within: Expr | None, above: Expr | None
    ) -> bool:
        summed = sum_type(arg.type)
        sums, counts = self._partial("sum", summed, arg, within), self._partial("count", BIGINT, arg, within)
        if sums is None or counts is None:
            return False
        total = self._merge("sum", sum_type(summed), sums, above, "sum")
        count: Expr = self._merge("sum", _COUNTED, counts, above, "count")
        if call.type.is_float:
            count = Cast(DOUBLE, count.nullable, count)
        self.values.append((column, Call(call.type, True, "div", (total, count))))
        return True

    def _merge(self, function: str, type_: DataType, value: Expr, above: Expr | None, name: str) -> Column:
        """Make a fresh column of an aggregate over partial values."""
        call = AggregateCall(type_, True, function, (value,), filter=above)
        known = next((column for column, other in self.merging if other == call), None)
        if known is None:
            known = self._numbers.column(call, name)
            self.merging.append((known, call))
        return known

    def _partial(self, function: str, type_: DataType, arg: Expr | None, within: Expr | None) -> Expr | None:
        """Value of a call for the rows behind one row of partial values; None if it differs among them."""
        if isinstance(arg, Literal) and arg.value is None:
            return Literal(type_, True, None)
        if isinstance(arg, Literal) and function == "sum" and not arg.value and within is None:
            # Summing only zeros needs no column.
            return Literal(type_, False, 0.0 if type_.is_float else 0)
        if columns_in(arg) <= self._inside:
            if arg is not None and not never_fails(arg):
                return None
            is_every_row = arg is None or (function == "count" and not arg.nullable)
            args = () if arg is None or is_every_row else (arg,)
            call = AggregateCall(type_, function != "count", function, args, filter=within)
            if call not in self.partials:
                self.partials[call] = self._numbers.column(call, function)
            return self.partials[call]
        if isinstance(arg, Cast) and isinstance(arg.arg, Case):
            cast, choice = arg, arg.arg
            branches = tuple((condition, replace(cast, arg=value)) for condition, value in choice.branches)
            arg = replace(choice, type=cast.type, branches=branches, default=replace(cast, arg=choice.default))
        if isinstance(arg, Case):
            return self._chosen(function, type_, arg, within)
        if function == "count" and arg is not None:
            counted = self._partial("count", BIGINT, None, within)
            assert counted is not None, "rows can always be counted"
            return Case(BIGINT, True, ((negate(is_null(arg)), counted),), Literal(BIGINT, True, None))
        return None

    def _chosen(self, function: str, type_: DataType, arg: Case, within: Expr | None) -> Expr | None:
        """Make a CASE between the partial values of a CASE's branches."""
        found: list[Expr] = []
        for value in (*(value for _, value in arg.branches), arg.default):
            partial = self._partial(function, type_, value, within)
            if partial is None:
                return None
            found.append(partial)
        conditions = [condition for condition, _ in arg.branches]
        nullable = any(value.nullable for value in found)
        return Case(type_, nullable, tuple(zip(conditions, found[:-1], strict=True)), found[-1])


def never_fails(expr: Expr) -> bool:
    """True if an expression can be computed for rows that do not need it, without an unexpected error.

    The rows that are aggregated first may have no partner in the join, or none for which a CASE chooses the value.
    """
    if isinstance(expr, Cast):
        widens = expr.arg.type.is_numeric and (expr.type.is_float or expr.type.is_decimal or expr.type == BIGINT)
        return (expr.safe or widens) and never_fails(expr.arg)
    if isinstance(expr, Call) and expr.function in ("div", "mod"):
        divisor = expr.args[1]
        return isinstance(divisor, Literal) and divisor.value not in (0, -1) and never_fails(expr.args[0])
    if isinstance(expr, Call):
        operation = OPERATIONS[expr.function]
        if operation.volatile or (operation.fallible and not operation.fails_at_limits_only):
            return False
    return isinstance(expr, (Column, Literal, Parameter, Call, Case, InValues)) and all(
        map(never_fails, subexpressions(expr))
    )


def summed_columns(call: AggregateCall) -> frozenset[int]:
    """Numbers of the columns that must be among the rows that are aggregated first, if the call is to be split."""
    if _computed_above(call) or call.function == "count" or not call.args:
        return frozenset()
    return frozenset().union(*(_chosen_columns(arg) for arg in call.args))


def _chosen_columns(arg: Expr) -> frozenset[int]:
    """Columns of an expression, without those that a CASE at its top reads only in its conditions."""
    if isinstance(arg, Cast) and isinstance(arg.arg, Case):
        arg = arg.arg
    if not isinstance(arg, Case):
        return columns_in(arg)
    return frozenset().union(*(_chosen_columns(v) for v in (*(value for _, value in arg.branches), arg.default)))


def _computed_above(call: AggregateCall) -> bool:
    """True if the aggregate may be computed over repeated rows, and over partial values."""
    function = AGGREGATES[call.function]
    return function.ignores_duplicates and function.merges
