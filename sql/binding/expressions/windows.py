"""Binds window calls: `function(...) OVER (...)`, named windows, frames; QUALIFY and DISTINCT ON.

A window call may stand in the select list, in QUALIFY and in ORDER BY. Like an aggregate call, it is extracted from the
expression around it and replaced by a column (`context.Windows` collects the calls). Unlike one, it is computed after
HAVING, so in a query that groups, its arguments and its window may contain aggregate calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sqlglot import exp

from ....errors import (
    NotSupportedError,
    SqlSyntaxError,
    StatementError,
    TypeMismatch,
    WindowError,
    did_you_mean,
)
from ....model.lazy_dataclass import dataclass
from ....model.types import BIGINT, DOUBLE, INTERVAL, STRING, DataType, Kind
from ... import arithmetic, functions
from ...coercion import as_decimal, cast, common_type, comparand, convert, fit, is_text_literal
from ...expressions import (
    Aggregate,
    Call,
    Column,
    Expr,
    Literal,
    OrderItem,
    Window,
    WindowFrame,
    columns_of,
    conjunction,
    transform,
    walk,
)
from ...functions.windows import check_offset
from ...subqueries import SUBQUERIES
from ..context import Context, Frame, Handler, Windows, name_of, only
from ..scope import Field, Scope
from .expressions import condition

_INSTEAD = {
    "WHERE": "; use QUALIFY for conditions on window calls",
    "HAVING": "; use QUALIFY for conditions on window calls",
    "GROUP BY": "; compute it in a query in FROM",
}


@dataclass(frozen=True, slots=True)
class _Definition:
    """A bound window; `frame` is the syntax node of its frame clause, None if it has none."""

    partition: tuple[Expr, ...]
    order: tuple[OrderItem, ...]
    frame: exp.WindowSpec | None


# ---- calls -----------------------------------------------------------------------------------------------------------


def _window(node: exp.Window, frame: Frame) -> Expr:
    only(node, "this", "partition_by", "order", "spec", "alias", "over")
    call, nulls, test = _parts(node)
    name = name_of(call.this) if isinstance(call.this, exp.Identifier) else str(call.this).lower()
    function = functions.look_up(name)
    if function.kind not in ("aggregate", "window"):
        raise TypeMismatch(f"{name} is neither a window function nor an aggregate function, so it takes no OVER")
    if frame.windows is None:
        raise _misplaced(name, frame)
    if nulls is not None and not function.takes_ignore_nulls:
        words = "IGNORE NULLS" if isinstance(nulls, exp.IgnoreNulls) else "RESPECT NULLS"
        names = [each.name for each in functions.FUNCTIONS if each.takes_ignore_nulls]
        raise WindowError(f"{name} takes no {words}; {', '.join(names)} do")
    if test is not None and function.kind != "aggregate":
        raise WindowError(f"{name} takes no FILTER: only aggregate functions do")
    inner = replace(frame, windows=None, clause=f"the arguments of {name} OVER")
    bound = _called(name, call, inner)
    kept = condition(test, replace(inner, clause="FILTER")) if test is not None else None
    definition = _definition(node, frame, frame.windows)
    ignore = isinstance(nulls, exp.IgnoreNulls)
    windows = frame.windows

    def over(part: Expr) -> Expr:
        tests = [kept] if kept is not None else []
        if isinstance(part, Aggregate):
            if part.order:
                raise NotSupportedError(f"{name} with OVER is not supported; group in a query in FROM and join")
            tests += [part.filter] if part.filter is not None else []  # that of count_if
            part = Window(part.type, part.nullable or part.function != "count", part.function, part.args)
        if not isinstance(part, Window):
            return part
        whole = _framed(part, definition, frame)
        return windows.column(replace(whole, filter=conjunction(tests), ignore_nulls=ignore), node, frame.context)

    return transform(bound, over)


def _parts(node: exp.Window) -> tuple[exp.Anonymous, Any, Any]:
    """The call itself, its IGNORE or RESPECT NULLS, the condition of its FILTER."""
    call, nulls, test = node.this, None, None
    if isinstance(call, exp.IgnoreNulls | exp.RespectNulls):
        nulls, call = call, call.this
    if isinstance(call, exp.Filter):
        test, call = call.expression.this, call.this
    if isinstance(call, exp.WithinGroup):
        raise NotSupportedError("WITHIN GROUP with OVER is not supported; group in a query in FROM and join")
    if not isinstance(call, exp.Anonymous):
        raise SqlSyntaxError("OVER must follow the call of a window function or an aggregate function")
    return call, nulls, test


def _misplaced(name: str, frame: Frame) -> WindowError:
    if frame.within is not None:
        return WindowError(
            f"window call {name} OVER is not allowed inside the aggregate {frame.within}; compute it in a query in FROM"
        )
    if "OVER" in frame.clause:
        return WindowError(f"window calls cannot be nested: {name} OVER stands in {frame.clause}")
    return WindowError(f"window call {name} OVER is not allowed in {frame.clause}{_INSTEAD.get(frame.clause, '')}")


def _called(name: str, call: exp.Anonymous, frame: Frame) -> Expr:
    """The call without its window."""
    only(call, "this", "expressions")
    args = list(call.expressions)
    for arg in args:
        if isinstance(arg, exp.Distinct | exp.Order):
            word = "DISTINCT" if isinstance(arg, exp.Distinct) else "ORDER BY"
            with frame.context.at(call):
                hint = "a subquery with GROUP BY can compute it before the window does"
                raise NotSupportedError(f"{word} in the arguments of a window call is not supported; {hint}")
    if name == "count" and len(args) == 1 and isinstance(args[0], exp.Star):
        only(args[0])
        count = functions.look_up("count")
        return count.build(count, ())
    return functions.build(name, frame.bind_all(args))


# ---- windows ---------------------------------------------------------------------------------------------------------


def bind_definitions(frame: Frame) -> None:
    """Binds the WINDOW clause to report its errors, also those of unused windows."""
    assert frame.windows is not None
    for name, node in frame.windows.definitions.items():
        definition = _named(name, node.this, frame, frame.windows)
        with frame.context.at(node):
            _framed(Window(BIGINT, True, "sum"), definition, frame)


def definitions_of(nodes: Sequence[Any], frame: Frame) -> dict[str, Any]:
    """The windows of a WINDOW clause by name, unbound."""
    found: dict[str, Any] = {}
    for node in nodes:
        only(node, "this", "partition_by", "order", "spec", "alias")
        name = name_of(node.this)
        with frame.context.at(node.this):
            if name in found:
                raise WindowError(f"WINDOW names {name} twice")
        found[name] = node
    return found


def _definition(node: exp.Window, frame: Frame, windows: Windows) -> _Definition:
    """The window of a call's OVER."""
    alias = node.args.get("alias")
    if alias is not None and not _has_parentheses(node, frame):
        return _named(name_of(alias), alias, frame, windows)
    return _own(node, frame, windows)


def _has_parentheses(node: exp.Window, frame: Frame) -> bool:
    """True for `OVER (w)`, which differs from `OVER w` if w has a frame: only the latter inherits it."""
    return bool(node.args.get("partition_by") or node.args.get("order") or node.args.get("spec"))


def _named(name: str, place: Any, frame: Frame, windows: Windows) -> _Definition:
    """A window of the WINDOW clause; only those before it are visible to it."""
    with frame.context.at(place):
        if name not in windows.definitions:
            raise WindowError(f"there is no window {name}{did_you_mean(name, windows.definitions, 'WINDOW has')}")
    if name not in windows.bound:
        names = list(windows.definitions)
        before = {n: windows.definitions[n] for n in names[: names.index(name)]}
        visible = replace(windows, definitions=before)
        windows.bound[name] = _own(windows.definitions[name], frame, visible)
    found: _Definition = windows.bound[name]
    return found


def _own(node: exp.Window, frame: Frame, windows: Windows) -> _Definition:
    """The contents of a window's parentheses, added to the window that it begins with."""
    inner = replace(frame, windows=None, clause="the definition of a window (OVER)")
    partition = tuple(dict.fromkeys(_key(part, inner) for part in node.args.get("partition_by") or ()))
    order = _order(node.args.get("order"), inner)
    spec = node.args.get("spec")
    alias = node.args.get("alias")
    if alias is not None:
        base = _named(name_of(alias), alias, frame, windows)
        with frame.context.at(alias):
            if partition:
                raise WindowError(f"PARTITION BY of window {name_of(alias)} cannot be overridden")
            if order and base.order:
                raise WindowError(f"ORDER BY of window {name_of(alias)} cannot be overridden")
            if base.frame is not None:
                raise WindowError(
                    f"window {name_of(alias)} has a frame, so it cannot be extended; write it without parentheses"
                )
        partition, order = base.partition, order or base.order
    return _Definition(partition, order, spec)


def _key(node: Any, frame: Frame) -> Expr:
    key = frame.bind(node)
    return convert(key, STRING) if key.type.kind is Kind.NULL else key


def _order(clause: Any, frame: Frame) -> tuple[OrderItem, ...]:
    if clause is None:
        return ()
    only(clause, "expressions")
    found = []
    for node in clause.expressions:
        only(node, "this", "desc", "nulls_first")
        key = _key(node.this, frame)
        found.append(OrderItem(key, bool(node.args.get("desc")), bool(node.args.get("nulls_first"))))
    return tuple(found)


# ---- frames ----------------------------------------------------------------------------------------------------------


def _framed(call: Window, definition: _Definition, frame: Frame) -> Window:
    """The call with its window."""
    call = replace(call, partition=definition.partition, order=definition.order)
    spec = definition.frame
    if spec is None:
        end = "current row" if definition.order else "unbounded following"
        found = replace(call, frame=WindowFrame(end=end))
    else:
        with frame.context.at(spec):
            found = _with_frame(call, spec, frame)
    function = functions.look_up(call.function)
    if function.reads_frame or function.kind == "aggregate":
        return found
    return call


def _with_frame(call: Window, spec: exp.WindowSpec, frame: Frame) -> Window:
    only(spec, "kind", "start", "start_side", "end", "end_side", "exclude")
    unit = str(spec.args["kind"]).lower()
    start, end = _bound(spec, "start"), _bound(spec, "end")
    _check_bounds(start, end)
    if unit == "groups" and not call.order:
        raise WindowError("GROUPS counts groups of peers, so it needs an ORDER BY in its window")
    exclude = spec.args.get("exclude")
    words = exclude.name.lower() if exclude is not None else ""
    shape = WindowFrame(unit, start, end, "" if words == "no others" else words)
    framed = replace(call, frame=shape)
    offsets = [_offset(spec, side, unit, frame) for side in ("start", "end")]
    framed = replace(framed, start=offsets[0], end=offsets[1])
    if unit == "range" and any(offset is not None for offset in offsets):
        return _with_range(framed)
    return framed


def _bound(spec: exp.WindowSpec, side: str) -> str:
    value, direction = spec.args.get(side), spec.args.get(f"{side}_side")
    if value == "CURRENT ROW":
        return "current row"
    return f"{'unbounded ' if value == 'UNBOUNDED' else ''}{str(direction).lower()}"


_ORDER = ("unbounded preceding", "preceding", "current row", "following", "unbounded following")


def _check_bounds(start: str, end: str) -> None:
    if start == "unbounded following":
        raise WindowError("a frame cannot begin with UNBOUNDED FOLLOWING")
    if end == "unbounded preceding":
        raise WindowError("a frame cannot end with UNBOUNDED PRECEDING")
    if _ORDER.index(start) > _ORDER.index(end):
        raise WindowError(f"a frame that begins with {_shown(start)} cannot end with {_shown(end)}")


def _shown(bound: str) -> str:
    return f"n {bound.upper()}" if bound in ("preceding", "following") else bound.upper()


def _offset(spec: exp.WindowSpec, side: str, unit: str, frame: Frame) -> Expr | None:
    """The bound offset of one side: a constant, for ROWS and GROUPS a whole number."""
    node = spec.args.get(side)
    if not isinstance(node, exp.Expression):
        return None
    clause = f"the offset of {unit.upper()}"
    with frame.context.at(node):
        offset = replace(frame, windows=None, aggregates=None, clause=clause).bind(node)
        if columns_of(offset) or any(isinstance(part, SUBQUERIES) for part in walk(offset)):
            raise WindowError(f"{clause} must be constant: it cannot depend on a row or on a query")
        if unit != "range":
            offset = _whole(offset, unit)
        if isinstance(offset, Literal):
            check_offset(offset.value)
        return offset


def _whole(offset: Expr, unit: str) -> Expr:
    if isinstance(offset, Literal) and (offset.value is None or is_text_literal(offset)):
        offset = fit(offset, BIGINT) or offset
    if not offset.type.is_integer:
        raise TypeMismatch(f"{unit.upper()} takes a whole number as offset, not a value of type {offset.type}")
    return cast(offset, BIGINT)


def _with_range(call: Window) -> Window:
    """Adds the order key and the values at which the frame of each row begins and ends."""
    if len(call.order) != 1:
        count = f"there are {len(call.order)}" if call.order else "there is none"
        raise WindowError(f"RANGE with an offset needs exactly one ORDER BY expression; {count}")
    assert call.frame is not None
    item = call.order[0]
    sides = {"range_start": (call.start, call.frame.start), "range_end": (call.end, call.frame.end)}
    given = {name: (offset, bound) for name, (offset, bound) in sides.items() if offset is not None}
    offsets = {name: _distance(item.expr, offset) for name, (offset, _) in given.items()}
    target = item.expr.type
    for offset in offsets.values():
        sum_type = _sum_type(item.expr.type, offset)
        target = common_type(target, sum_type) or sum_type
    key = cast(item.expr, target)
    values: dict[str, Any] = {
        name: _limit(key, offsets[name], (bound == "preceding") != item.descending)
        for name, (_, bound) in given.items()
    }
    return replace(call, range_key=key, **values)


def _distance(key: Expr, offset: Expr) -> Expr:
    """The offset as an INTERVAL or a number, depending on the key."""
    moment = key.type.kind in (Kind.DATE, Kind.TIMESTAMP)
    if not (key.type.is_numeric or moment):
        raise TypeMismatch(f"RANGE with an offset needs an ORDER BY of numbers, dates or timestamps, not {key.type}")
    if is_text_literal(offset):
        offset = convert(offset, INTERVAL if moment else key.type)
        check_offset(offset.value if isinstance(offset, Literal) else 0)
    if (offset.type == INTERVAL) if moment else offset.type.is_numeric:
        return offset
    needed = "an INTERVAL" if moment else "a number"
    raise TypeMismatch(f"RANGE over an ORDER BY of type {key.type} takes {needed} as offset, not {offset.type}")


def _sum_type(key: DataType, offset: Expr) -> DataType:
    """The type of a key plus an offset."""
    if key.kind in (Kind.DATE, Kind.TIMESTAMP):
        return arithmetic.operate("add", Literal(key, True, None), offset).type
    if key.is_float or offset.type.is_float:
        return DOUBLE
    # As decimals, which gain a digit where integers would overflow.
    return arithmetic.decimal_result("add", as_decimal(key), as_decimal(offset.type))


def _limit(key: Expr, offset: Expr, down: bool) -> Expr:
    """The key minus (`down`) or plus an offset; results outside their type are saturated just beyond its values."""
    offset = offset if offset.type == INTERVAL else comparand(offset, key.type)
    nullable = key.nullable or offset.nullable
    return Call(key.type, nullable, "limit_before" if down else "limit_after", (key, offset))


# ---- QUALIFY and DISTINCT ON -----------------------------------------------------------------------------------------


def with_outputs(scope: Scope, items: Sequence[Any], node: Any) -> Scope:
    """The scope in which an expression may also name output columns (`items`); columns of FROM come first."""
    known = {field.name for field in scope.fields}
    columns = [column for column in node.find_all(exp.Column) if isinstance(column.this, exp.Identifier)]
    wanted = {name_of(column.this) for column in columns} - known
    named = [Field(item.name, item.expr, None, hidden=True) for item in items if item.name in wanted]
    return replace(scope, fields=(*scope.fields, *named)) if named else scope


def bind_qualify(node: Any, items: Sequence[Any], frame: Frame) -> Expr | None:
    """The condition of QUALIFY, which may also name output columns (`items`); columns of FROM come first."""
    clause = node.args.get("qualify")
    if clause is None:
        return None
    scope = with_outputs(frame.scope, items, clause)
    test = condition(clause.this, replace(frame, scope=scope, clause="QUALIFY"))
    assert frame.windows is not None
    if not frame.windows.found:
        with frame.context.at(clause):
            raise WindowError("QUALIFY needs a window call; conditions on rows belong in WHERE, on groups in HAVING")
    return test


def check_distinct_on(distinct: Sequence[Column], order: Sequence[tuple[Column, Any]], context: Context) -> None:
    """Rejects DISTINCT ON whose expressions are not the first keys of ORDER BY; `order` has their syntax nodes."""
    wanted = {column.id for column in distinct}
    begun: set[int] = set()
    for column, node in order:
        if column.id in wanted:
            begun.add(column.id)
        elif begun != wanted:
            with context.at(node):
                raise StatementError("ORDER BY must begin with the expressions of DISTINCT ON")


HANDLERS: dict[type, Handler] = {exp.Window: _window}
