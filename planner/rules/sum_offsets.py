"""Compute sums that differ in a constant only from one sum.

sum(x + c) is sum(x) + c * count(x), so several of them need one pass over x. Integers only: sums of floats depend on
their order. `x + c` may leave its type for some row, which is an error; the greatest x, or the least, shows it.

>>> from nyala.planner.testing import show
>>> print(show("SELECT sum(b + 1) AS x, sum(b - 2) AS y FROM (SELECT a::SMALLINT AS b FROM t) q", ["sum_offsets"]))
Project sum, sum
  Project sum + count * 1, sum + count * -2
    Aggregate: count(b), sum(b)
      Project b
        Project CAST(a AS SMALLINT)
          Scan t: k, a
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace

from ...model.lazy_dataclass import dataclass
from ...model.types import BIGINT, INTEGER_WIDTHS, integer_bounds
from ...sql.arithmetic import operate
from ...sql.coercion import cast
from ...sql.expressions import Aggregate as AggregateCall
from ...sql.expressions import Call, Case, Cast, Column, Expr, Literal
from ...sql.functions import is_volatile
from ..algebra.logical import Aggregate, Node, Project
from ..algebra.trees import all_of, is_null, negate, rewrite_nodes
from ..context import Context

MOST = 2**31
"""Constants are less than this, so that their products with a number of rows have 64 bits."""
PROVEN, CHECKED = 2, 4
"""Number of sums from which on one is enough: with the greatest or least x as well, if the type does not show that no
row overflows, it replaces more."""


@dataclass(frozen=True, slots=True)
class _Offset:
    """A sum of `x + constant`, or of `constant - x`."""

    x: Expr
    constant: Literal
    is_negated: bool

    @property
    def source(self) -> Expr:
        """x without conversions to a wider integer that change no sum."""
        source = self.x
        while isinstance(source, Cast) and source.arg.type.is_integer and source.type != BIGINT:
            if INTEGER_WIDTHS[source.arg.type.kind] > INTEGER_WIDTHS[source.type.kind]:
                break
            source = source.arg
        return source

    @property
    def is_proven(self) -> bool:
        """True if no value of x's type overflows."""
        given, allowed = integer_bounds(self.source.type.dtype), integer_bounds(self.x.type.dtype)
        assert given is not None and allowed is not None
        sign = -1 if self.is_negated else 1
        return all(allowed[0] <= sign * bound + self.constant.value <= allowed[1] for bound in given)


def sum_offsets(root: Node, context: Context) -> Node:
    """Replace several sums of x plus a constant by one sum of x."""
    return rewrite_nodes(root, lambda node: _replace(node, context) if isinstance(node, Aggregate) else node)


def _replace(node: Aggregate, context: Context) -> Node:
    alike: dict[tuple[Expr, Expr | None], dict[int, _Offset]] = defaultdict(dict)
    for column, call in node.aggregates:
        if (offset := _offset_of(call)) is not None:
            alike[offset.source, call.filter][column.id] = offset
    chosen: dict[int, _Offset] = {}
    for offsets in alike.values():
        if len(offsets) >= (PROVEN if all(offset.is_proven for offset in offsets.values()) else CHECKED):
            chosen |= offsets
    if not chosen:
        return node
    calls = {call: column for column, call in node.aggregates if column.id not in chosen}

    def column_of(call: AggregateCall, function: str, x: Expr) -> Column:
        made = _call_of(call, function, x)
        if made not in calls:
            calls[made] = context.numbers.column(made, function)
        return calls[made]

    items: list[tuple[Column, Expr]] = [(column, column) for column, _ in node.groups]
    for column, call in node.aggregates:
        given = chosen.get(column.id)
        items.append((column, column if given is None else _total(given, call, column_of)))
    if node.set_number is not None:
        items.append((node.set_number, node.set_number))
    return Project(replace(node, aggregates=tuple((column, call) for call, column in calls.items())), tuple(items))


def _offset_of(call: AggregateCall) -> _Offset | None:
    if call.function != "sum" or call.distinct or not isinstance(arg := call.args[0], Call):
        return None
    if arg.function not in ("add", "sub") or not arg.type.is_integer or is_volatile(arg):
        return None
    left, right = arg.args
    if isinstance(left, Literal) == isinstance(right, Literal):
        return None
    x, constant = (right, left) if isinstance(left, Literal) else (left, right)
    assert isinstance(constant, Literal)
    if constant.value is None or x.type != arg.type or not -MOST < constant.value < MOST:
        return None
    if arg.function == "add" or x is right:
        return _Offset(x, constant, is_negated=arg.function == "sub")
    negated = replace(constant, value=-constant.value)
    return _Offset(x, negated, is_negated=False)


def _call_of(call: AggregateCall, function: str, x: Expr) -> AggregateCall:
    """A call over x of the rows that `call` reads."""
    type_, nullable = {"sum": (call.type, True), "count": (BIGINT, False)}.get(function, (x.type, True))
    return AggregateCall(type_, nullable, function, (x,), filter=call.filter)


def _total(given: _Offset, call: AggregateCall, column_of: Callable[[AggregateCall, str, Expr], Column]) -> Expr:
    """The value of the call, computed from one sum of x."""
    x, constant = given.source, given.constant
    added = operate("mul", column_of(call, "count", x), Literal(BIGINT, False, constant.value))
    own = column_of(call, "sum", x)
    total = cast(operate("sub", added, own) if given.is_negated else operate("add", own, added), call.type)
    if given.is_proven:
        return total
    checks: list[Expr] = []
    for function in ("min", "max"):
        # Of x + c only one end may overflow.
        if given.is_negated or (constant.value > 0) == (function == "max"):
            end = cast(column_of(call, function, x), given.x.type)
            checks.append(operate("sub", constant, end) if given.is_negated else operate("add", end, constant))
    condition = all_of([negate(is_null(check)) for check in checks])
    assert condition is not None
    return Case(total.type, True, ((condition, total),), Literal(total.type, True, None))
