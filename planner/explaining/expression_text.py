"""Expressions as SQL text, for EXPLAIN and errors."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any

from ...model.predicates import AnyOf, BloomFilter, ColumnPredicate, InList, IsNull, Range
from ...model.types import DataType, Interval, Kind
from ...sql.expressions import (
    Aggregate,
    Call,
    Case,
    Cast,
    Column,
    Expr,
    InValues,
    Literal,
    OrderItem,
    Parameter,
    Window,
    WindowFrame,
)
from ...sql.subqueries import Exists, InSubquery, Quantified, ScalarSubquery

_INFIX = {
    "or": ("OR", 1),
    "and": ("AND", 2),
    "eq": ("=", 4),
    "ne": ("<>", 4),
    "lt": ("<", 4),
    "le": ("<=", 4),
    "gt": (">", 4),
    "ge": (">=", 4),
    "is_distinct": ("IS DISTINCT FROM", 4),
    "like": ("LIKE", 4),
    "ilike": ("ILIKE", 4),
    "concat": ("||", 5),
    "add": ("+", 6),
    "sub": ("-", 6),
    "limit_after": ("+", 6),
    "limit_before": ("-", 6),
    "mul": ("*", 7),
    "div": ("/", 7),
    "mod": ("%", 7),
}
_ATOM = 9
_NOT = 3
_TESTS = {"is_null": "IS NULL", "is_true": "IS TRUE", "is_false": "IS FALSE"}
_COMPARISONS = {"eq": "=", "ne": "<>", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}

Names = Mapping[int, str]


def to_sql(expr: Expr, names: Names | None = None) -> str:
    """Return the SQL text of an expression; `names` overrides the names of columns that are not unique."""
    return _text(expr, {} if names is None else names, 0)


def _text(expr: Expr, names: Names, around: int) -> str:
    text, strength = _render(expr, names)
    return f"({text})" if strength < around else text


def _render(expr: Expr, names: Names) -> tuple[str, int]:
    """Return the text, and the precedence of its outermost operator."""
    if isinstance(expr, Column):
        return names.get(expr.id, expr.name), _ATOM
    if isinstance(expr, Literal):
        return literal_text(expr.value, expr.type), _ATOM
    if isinstance(expr, Parameter):
        return (f":{expr.name}" if expr.name else f"${expr.index + 1}"), _ATOM
    if isinstance(expr, Call):
        return _render_call(expr, names)
    if isinstance(expr, Cast):
        return f"{'TRY_CAST' if expr.safe else 'CAST'}({_text(expr.arg, names, 0)} AS {expr.type})", _ATOM
    if isinstance(expr, Case):
        branches = "".join(f" WHEN {_text(c, names, 0)} THEN {_text(v, names, 0)}" for c, v in expr.branches)
        return f"CASE{branches} ELSE {_text(expr.default, names, 0)} END", _ATOM
    if isinstance(expr, InValues):
        items = ", ".join(_text(item, names, 0) for item in expr.items)
        return f"{_text(expr.arg, names, 5)} IN ({items})", 4
    if isinstance(expr, Aggregate):
        return aggregate_text(expr, names), _ATOM
    if isinstance(expr, Window):
        return window_text(expr, names), _ATOM
    return _render_subquery(expr, names)


def _render_call(expr: Call, names: Names) -> tuple[str, int]:
    function, args = expr.function, expr.args
    if function == "saturated":
        return f"CAST({_text(args[0], names, 0)} AS {expr.type})", _ATOM
    if function in _INFIX and len(args) > 1:
        symbol, strength = _INFIX[function]
        # Brackets on the right of equals keep a - (b - c); chains of AND, OR and || need none.
        chained = function in ("and", "or", "concat")
        parts = [_text(a, names, strength if i == 0 else strength + (not chained)) for i, a in enumerate(args)]
        return f" {symbol} ".join(parts), strength
    if function == "not":
        inner = args[0]
        if isinstance(inner, Call) and inner.function in _TESTS:
            test = _TESTS[inner.function].replace("IS ", "IS NOT ")
            return f"{_text(inner.args[0], names, 5)} {test}", 4
        if isinstance(inner, Call) and inner.function in ("like", "ilike"):
            word = _INFIX[inner.function][0]
            return f"{_text(inner.args[0], names, 5)} NOT {word} {_text(inner.args[1], names, 5)}", 4
        if isinstance(inner, InValues):
            return _render(inner, names)[0].replace(" IN (", " NOT IN (", 1), 4
        if isinstance(inner, Call) and inner.function == "is_distinct":
            a, b = (_text(arg, names, 5) for arg in inner.args)
            return f"{a} IS NOT DISTINCT FROM {b}", 4
        return f"NOT {_text(inner, names, _NOT)}", _NOT
    if function in _TESTS:
        return f"{_text(args[0], names, 5)} {_TESTS[function]}", 4
    if function == "neg":
        return f"-{_text(args[0], names, 8)}", 8
    return f"{function}({', '.join(_text(a, names, 0) for a in args)})", _ATOM


def _render_subquery(expr: Expr, names: Names) -> tuple[str, int]:
    if isinstance(expr, ScalarSubquery):
        return "(subquery)", _ATOM
    if isinstance(expr, Exists):
        return "EXISTS (subquery)", _ATOM
    if isinstance(expr, InSubquery):
        args = ", ".join(_text(a, names, 0) for a in expr.args)
        return f"{args if len(expr.args) == 1 else f'({args})'} IN (subquery)", 4
    if isinstance(expr, Quantified):
        word = "ALL" if expr.all else "ANY"
        return f"{_text(expr.arg, names, 5)} {_COMPARISONS[expr.comparison]} {word} (subquery)", 4
    return type(expr).__name__, _ATOM


def aggregate_text(expr: Aggregate, names: Names) -> str:
    """`count(*)`, `sum(DISTINCT x) FILTER (WHERE y)`, `percentile_cont(0.5) WITHIN GROUP (ORDER BY x)`."""
    args = ", ".join(_text(a, names, 0) for a in expr.args) or ("*" if not expr.order else "")
    keys = f"ORDER BY {', '.join(order_text(item, names) for item in expr.order)}" if expr.order else ""
    within = expr.function in ("percentile_cont", "percentile_disc", "mode")
    text = f"{expr.function}({'DISTINCT ' if expr.distinct else ''}{args}{f' {keys}' if keys and not within else ''})"
    text += f" WITHIN GROUP ({keys})" if within else ""
    return text if expr.filter is None else f"{text} FILTER (WHERE {_text(expr.filter, names, 0)})"


def groups_text(groups: Sequence[Expr], sets: Sequence[Sequence[int]] | None, names: Names) -> str:
    """` by a, b` or ` by GROUPING SETS ((a, b), (a), ())`, at most twelve sets of them; nothing without groups."""
    if sets is None:
        return " by " + ", ".join(_text(expr, names, 0) for expr in groups) if groups else ""
    shown = [f"({', '.join(_text(groups[i], names, 0) for i in chosen)})" for chosen in sets[:12]]
    more = [f"... {len(sets)} in all"] if len(sets) > 12 else []
    return f" by GROUPING SETS ({', '.join(shown + more)})"


def window_text(call: Window, names: Names) -> str:
    """`sum(x) FILTER (WHERE y) OVER (PARTITION BY a ORDER BY b ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)`."""
    keys = [window_keys(call, names)] if call.partition or call.order else []
    return f"{_called(call, names)} OVER ({' '.join([*keys, *_frame_text(call, names)])})"


def framed_text(call: Window, names: Names) -> str:
    """Return the same without the keys that all calls of an operator share: `sum(x) ROWS BETWEEN 1 PRECEDING AND
    CURRENT ROW`."""
    return " ".join([_called(call, names), *_frame_text(call, names)])


def _called(call: Window, names: Names) -> str:
    args = ", ".join(_text(a, names, 0) for a in call.args) or ("*" if call.function == "count" else "")
    test = f" FILTER (WHERE {_text(call.filter, names, 0)})" if call.filter is not None else ""
    return f"{call.function}({args}){test}{' IGNORE NULLS' if call.ignore_nulls else ''}"


def window_keys(call: Window, names: Names) -> str:
    """`PARTITION BY a ORDER BY b DESC`."""
    parts = []
    if call.partition:
        parts.append(f"PARTITION BY {', '.join(_text(key, names, 0) for key in call.partition)}")
    if call.order:
        parts.append(f"ORDER BY {', '.join(order_text(item, names) for item in call.order)}")
    return " ".join(parts)


def order_text(item: OrderItem, names: Names) -> str:
    """Return `x DESC NULLS LAST`; the order of NULLs only if it differs from PostgreSQL's default."""
    text = _text(item.expr, names, 0) + (" DESC" if item.descending else "")
    if item.nulls_first != item.descending:
        text += " NULLS FIRST" if item.nulls_first else " NULLS LAST"
    return text


def _frame_text(call: Window, names: Names) -> list[str]:
    """Return the frame, unless it is the default."""
    frame = call.frame
    if frame is None or frame in (WindowFrame(), WindowFrame(end="unbounded following")):
        return []
    sides = []
    for bound, offset in ((frame.start, call.start), (frame.end, call.end)):
        sides.append(f"{_text(offset, names, 5)} {bound.upper()}" if offset is not None else bound.upper())
    exclude = [f"EXCLUDE {frame.exclude.upper()}"] if frame.exclude else []
    return [f"{frame.unit.upper()} BETWEEN {' AND '.join(sides)}", *exclude]


def literal_text(value: Any, type_: DataType) -> str:
    """A physical value as an SQL literal: dates as dates, decimals with their point."""
    if value is None:
        return "NULL"
    if isinstance(value, Interval):
        return _interval_text(value)
    python = type_.to_python(value)
    if type_.kind is Kind.BOOLEAN:
        return "TRUE" if python else "FALSE"
    if type_.kind is Kind.DATE:
        return f"DATE '{python}'"
    if isinstance(python, datetime.datetime):
        return f"TIMESTAMP '{python}'"
    if isinstance(python, str):
        return "'" + python.replace("'", "''") + "'"
    if isinstance(python, bytes):
        return f"X'{python.hex()}'"
    return str(python)


def _interval_text(value: Interval) -> str:
    parts = [f"{n} {unit}" for n, unit in zip(value, ("months", "days", "microseconds"), strict=True) if n]
    return f"INTERVAL '{' '.join(parts) or '0 days'}'"


def predicate_text(predicate: ColumnPredicate, type_: DataType) -> str:
    """A column predicate as SQL."""
    if isinstance(predicate, IsNull):
        return f"{predicate.column} IS {'NOT ' if predicate.negated else ''}NULL"
    if isinstance(predicate, InList):
        return f"{predicate.column} IN ({', '.join(literal_text(v, type_) for v in predicate.values)})"
    if isinstance(predicate, Range):
        return _range_text(predicate, type_)
    if isinstance(predicate, AnyOf):
        return f"({' OR '.join(predicate_text(member, type_) for member in predicate.members)})"
    if isinstance(predicate, BloomFilter):
        return f"{predicate.column} IN Bloom filter of {64 * len(predicate.words):,} bits"
    return f"{predicate.column} IN bitmap of {len(predicate.bits):,}"


def _range_text(predicate: Range, type_: DataType) -> str:
    name, lower, upper = predicate.column, predicate.lower, predicate.upper
    closed = predicate.lower_inclusive and predicate.upper_inclusive
    if lower is not None and lower == upper and closed:
        return f"{name} = {literal_text(lower, type_)}"
    if lower is not None and upper is not None and closed:
        return f"{name} BETWEEN {literal_text(lower, type_)} AND {literal_text(upper, type_)}"
    bounds: list[str] = []
    if lower is not None:
        bounds.append(f"{name} {'>=' if predicate.lower_inclusive else '>'} {literal_text(lower, type_)}")
    if upper is not None:
        bounds.append(f"{name} {'<=' if predicate.upper_inclusive else '<'} {literal_text(upper, type_)}")
    return " AND ".join(bounds)
