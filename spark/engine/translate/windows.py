"""Translates windows, orders and row limits.

frames in GROUPS    Spark has none: a RANGE over the numbers of the peer groups, from dense_rank()
EXCLUDE             rejected
RANGE with offsets  over one key; the offset is a constant of the key's type, or Spark's interval
FILTER              a CASE around the argument
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from sqlglot import exp

from ....errors import DataError
from ....model.types import DATE, INTERVAL, Interval, Kind
from ....planner.algebra.logical import Series, TopRows, Window
from ....sql.expressions import Expr, Literal, OrderItem
from ....sql.expressions import Window as WindowCall
from . import aggregates, expressions
from .block import Aliases, Block
from .dates import DAY, spark_interval
from .tree import (
    Tree,
    again,
    both,
    call,
    cast,
    closed,
    column,
    either,
    error,
    infix,
    named,
    not_supported,
    number,
)

_RANKS: Final = ("row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile")
_NEIGHBOURS: Final = ("lag", "lead")
_EDGES: Final = ("first_value", "last_value", "nth_value")


def windowed(node: Window, source: Block, aliases: Aliases) -> Block:
    """The source's rows, each with the values of the window calls."""
    source = aliases.opened(source)
    calls = node.windows
    place = None
    if any(of.frame is not None and of.frame.unit == "groups" for _, of in calls):
        place = aliases.next()
        numbered = _over(calls[0][1], _keys(calls[0][1]) or [_any_order()], None)(call("dense_rank"))
        kept = [*(column(of) for of in source.columns), exp.alias_(numbered, place)]
        source = aliases.nested(Block(source.columns, finished=source.selecting(kept)))
    items: list[Tree] = [column(of) for of in source.columns]
    items += [named(_window_call(of, place), out.id) for out, of in calls]
    return Block(node.columns, finished=source.selecting(items))


def _window_call(of: WindowCall, place: str | None) -> Tree:
    for part in (*of.partition, *(item.expr for item in of.order)):
        if part.type.kind is Kind.INTERVAL:
            raise not_supported("a window over intervals")
    if of.function in _RANKS:
        return cast(_over(of, _keys(of) or [_any_order()], None)(_rank(of)), of.type)
    if of.function in _NEIGHBOURS:
        return _over(of, _keys(of) or [_any_order()], None)(_respecting(of, _neighbour(of)))
    keys, frame = _keys(of), _frame(of)
    if of.frame is not None and of.frame.unit == "groups":
        assert place is not None
        keys = [exp.Ordered(this=exp.column(place), desc=False, nulls_first=True)]
    elif of.range_key is not None and of.frame is not None and (of.start is not None or of.end is not None):
        item = of.order[0]
        keys = [exp.Ordered(this=_range_key(of), desc=item.descending, nulls_first=item.nulls_first)]
    if not keys and frame is not None:
        keys = [_any_order()]
    over = _over(of, keys, frame)
    if of.function in _EDGES:
        return over(_respecting(of, call(of.function, *_edge_arguments(of))))
    return aggregates.write_over(of, over)


def _over(of: WindowCall, keys: list[exp.Ordered], frame: exp.WindowSpec | None) -> Callable[[Tree], Tree]:
    """Adds OVER to a call."""

    def add(made: Tree) -> Tree:
        order = exp.Order(expressions=[again(key) for key in keys]) if keys else None
        partition = [expressions.write(part) for part in of.partition]
        return exp.Window(this=made, partition_by=partition, order=order, spec=None if frame is None else again(frame))

    return add


def _keys(of: WindowCall) -> list[exp.Ordered]:
    return order_keys(of.order)


def _any_order() -> exp.Ordered:
    """A constant order: Spark requires one where nyala does not, and all rows are then peers."""
    return exp.Ordered(this=exp.null(), desc=False, nulls_first=True)


def _rank(of: WindowCall) -> Tree:
    if of.function != "ntile":
        return call(of.function)
    count = of.args[0]
    if not isinstance(count, Literal) or count.value is None:
        raise not_supported("ntile() of a number that is not constant")
    if count.value <= 0:
        return error("ntile needs a number of buckets above 0", of.type)
    return call("ntile", number(int(count.value)))


def _neighbour(of: WindowCall) -> Tree:
    value, distance, *default = of.args
    if not isinstance(distance, Literal) or distance.value is None:
        raise not_supported(f"{of.function}() by a number of rows that is not constant")
    args = [expressions.write(value), number(int(distance.value))]
    if default:
        if not isinstance(default[0], Literal):
            raise not_supported(f"{of.function}() with a default that is not constant")
        args.append(expressions.write(default[0]))
    return call(of.function, *args)


def _edge_arguments(of: WindowCall) -> list[Tree]:
    args = [expressions.write(of.args[0])]
    if of.function == "nth_value":
        place = of.args[1]
        if not isinstance(place, Literal) or place.value is None:
            raise not_supported("nth_value() of a number that is not constant")
        if place.value <= 0:
            return [error("nth_value counts from 1", of.type), number(1)]
        args.append(number(int(place.value)))
    return args


def _respecting(of: WindowCall, made: Tree) -> Tree:
    return exp.IgnoreNulls(this=made) if of.ignore_nulls else made


# ---- frames ----------------------------------------------------------------------------------------------------------


def _frame(of: WindowCall) -> exp.WindowSpec | None:
    frame = of.frame
    if frame is None:
        return None
    if frame.exclude:
        raise not_supported(f"a frame with EXCLUDE {frame.exclude.upper()}")
    if frame.unit == "range" and not _keys(of):
        # All rows are peers, and Spark does not accept RANGE without an order.
        return None
    start, start_side = _bound(of, frame.start, of.start)
    end, end_side = _bound(of, frame.end, of.end)
    unit = "ROWS" if frame.unit == "rows" else "RANGE"
    return exp.WindowSpec(kind=unit, start=start, start_side=start_side, end=end, end_side=end_side)


def _bound(of: WindowCall, bound: str, offset: Expr | None) -> tuple[Any, str | None]:
    if offset is None:
        word, _, side = bound.upper().rpartition(" ") if bound != "current row" else ("CURRENT ROW", "", "")
        return word, side or None
    if not isinstance(offset, Literal) or offset.value is None:
        raise not_supported("a frame whose offset is not constant")
    if not isinstance(offset.value, Interval) and offset.value < 0:
        raise DataError("the offset of a frame must not be negative")
    assert of.frame is not None
    if of.frame.unit != "range":
        return number(int(offset.value)), bound.upper()
    return _range_offset(of, offset), bound.upper()


def _range_key(of: WindowCall) -> Tree:
    """The key, in the type of the offsets."""
    assert of.range_key is not None
    key, original = of.range_key, of.order[0].expr
    return expressions.write(original if original.type == DATE and _whole_days(of) else key)


def _whole_days(of: WindowCall) -> bool:
    """True if all offsets of a key of dates are numbers of days."""
    offsets = [each for each in (of.start, of.end) if isinstance(each, Literal)]
    return all(_days(each) is not None for each in offsets)


def _days(offset: Literal) -> int | None:
    value = offset.value
    if not isinstance(value, Interval):
        return int(value)
    return value.days if not value.months and not value.microseconds else None


def _range_offset(of: WindowCall, offset: Literal) -> Tree:
    assert of.range_key is not None
    if of.order[0].expr.type == DATE and _whole_days(of):
        return number(_days(offset) or 0)
    if offset.type == INTERVAL:
        months, days, microseconds = offset.value
        if months and (days or microseconds):
            raise not_supported("a frame whose offset has both months and days")
        if months:
            return exp.Interval(this=exp.Literal.string(str(months)), unit=exp.Var(this="MONTH"))
        total = days * DAY + microseconds
        seconds = f"{total // 1_000_000}.{total % 1_000_000:06d}"
        return exp.Interval(this=exp.Literal.string(seconds), unit=exp.Var(this="SECOND"))
    return cast(expressions.write(offset), of.range_key.type)


# ---- orders and counts -----------------------------------------------------------------------------------------------


def order_keys(order: Sequence[OrderItem]) -> list[exp.Ordered]:
    """The keys of ORDER BY with an explicit position of NULLs; constants, which Spark would read as positions, are
    left out."""
    for item in order:
        if item.expr.type.kind is Kind.INTERVAL:
            raise not_supported("an order by intervals")
    return [
        exp.Ordered(this=expressions.write(item.expr), desc=item.descending, nulls_first=item.nulls_first)
        for item in order
        if not isinstance(item.expr, Literal)
    ]


def constant_count(expr: Expr | None, what: str) -> int | None:
    """The value of LIMIT or OFFSET; None for NULL and if there is none."""
    if expr is None:
        return None
    if not isinstance(expr, Literal):
        raise not_supported(f"a {what} that is not constant")
    if expr.value is not None and expr.value < 0:
        raise DataError(f"{what} must not be negative")
    return None if expr.value is None else int(expr.value)


def top_rows(node: TopRows, source: Block, aliases: Aliases) -> Block:
    """The first rows of each group, selected by row_number."""
    most, skipped = constant_count(node.limit, "LIMIT"), constant_count(node.offset, "OFFSET") or 0
    place, rank = aliases.next(), aliases.next()
    items: list[Tree] = [column(of) for of in node.columns]
    items.append(exp.alias_(_place(node, "row_number"), place))
    if node.ties:
        items.append(exp.alias_(_place(node, "rank"), rank))
    block = aliases.nested(Block(node.columns, finished=aliases.opened(source).selecting(items)))
    tests = [infix(exp.GT, exp.column(place), number(skipped))] if skipped else []
    if most is not None:
        tests.append(infix(exp.LTE, exp.column(rank if node.ties else place), number(skipped + most)))
    return block.filtered(both(*tests)) if tests else block


def _place(node: TopRows, function: str) -> Tree:
    keys = order_keys(node.order) or [_any_order()]
    partition = [column(of) for of in node.groups]
    return exp.Window(this=call(function), partition_by=partition, order=exp.Order(expressions=keys))


# ---- series ----------------------------------------------------------------------------------------------------------


def series(node: Series, source: Block, aliases: Aliases) -> Block:
    """Each row once for every value of a series; Spark's sequence() rejects bounds in the wrong order."""
    type_ = node.column.type
    if not (type_.is_integer or type_.kind in (Kind.DATE, Kind.TIMESTAMP)):
        raise not_supported(f"generate_series() of {type_}")
    start, stop = expressions.write(node.start), expressions.write(node.stop)
    up, down = infix(exp.LTE, start, stop), infix(exp.GTE, again(start), again(stop))
    if node.step.type == INTERVAL:
        step, ahead, zero = _interval_step(node.step)
    else:
        step = expressions.write(node.step)
        ahead, zero = infix(exp.GT, step, number(0)), infix(exp.EQ, again(step), number(0))
    right_way = either(both(ahead, up), both(exp.Not(this=closed(again(ahead))), down))
    values = call("sequence", again(start), again(stop), again(step))
    none = call("array")
    checked = call("if", zero, call("raise_error", exp.Literal.string("the step of generate_series must not be 0")),
                   call("if", right_way, values, none))  # fmt: skip
    source = aliases.opened(source)
    items = [*(column(of) for of in source.columns), named(call("explode", checked), node.column.id)]
    return Block(node.columns, finished=source.selecting(items))


def _interval_step(step: Expr) -> tuple[Tree, Tree, Tree]:
    """The step as Spark's interval, a condition that it is positive, and one that it is zero."""
    if not isinstance(step, Literal) or step.value is None:
        raise not_supported("generate_series() with an interval that is not constant")
    signs = {part > 0 for part in step.value if part}
    if len(signs) > 1:
        raise not_supported("generate_series() with an interval of two signs")
    ahead = exp.true() if signs == {True} else exp.false()
    return spark_interval(step, exp.null()), ahead, exp.false() if signs else exp.true()
