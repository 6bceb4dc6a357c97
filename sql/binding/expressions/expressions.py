"""Binds expressions: columns, literals, operators, CASE, CAST, function calls. Subqueries are in
`expressions.subqueries`.

Each kind of syntax node has one handler; `HANDLERS` lists all node kinds that an expression may contain.
"""

from __future__ import annotations

import decimal
from collections.abc import Sequence
from typing import Any

from sqlglot import exp

from ....errors import InvalidText, NotSupportedError, SqlSyntaxError, TypeMismatch, UnknownColumn, WindowError
from ....model.clock import wall_time
from ....model.types import BINARY, BOOLEAN, DATE, INTERVAL, STRING, TIMESTAMP, Kind
from ... import arithmetic, functions, literals
from ...coercion import cast, convert, is_cut, meeting_type, unify
from ...deferred_parameters import DeferredParameter
from ...expressions import Call, Case, Column, Expr, InValues, Literal
from ..context import Frame, Handler, name_of, only, unsupported
from ..names import schema_of
from ..tables.type_names import bind_cast_type
from . import bit_operators, catalog_syntax, patterns
from .comparisons import SYMBOLS as SYMBOLS
from .comparisons import boolean, compare, connect, negation
from .row_comparisons import check_lengths, distinct_rows, junction, ordered_rows
from .row_comparisons import operands as _operands

COMPARISONS = {exp.EQ: "eq", exp.NEQ: "ne", exp.LT: "lt", exp.LTE: "le", exp.GT: "gt", exp.GTE: "ge"}
_ARITHMETIC = {exp.Add: "add", exp.Sub: "sub", exp.Mul: "mul", exp.Div: "div", exp.Mod: "mod"}


# ---- leaves ----------------------------------------------------------------------------------------------------------


def _column(node: exp.Column, frame: Frame) -> Expr:
    only(node, "this", "table", "db", "catalog")
    schema = schema_of(node, frame.context)
    if isinstance(node.this, exp.Star):
        raise SqlSyntaxError(f"* is not allowed in {frame.clause} like this")
    qualifier = node.args.get("table")
    if qualifier is not None:
        return frame.scope.resolve(name_of(node.this), name_of(qualifier), schema)
    try:
        return frame.scope.resolve(name_of(node.this))
    except UnknownColumn:
        # A function without parentheses, unless a column has its name.
        if str(node.this.this).lower() not in _WITHOUT_PARENTHESES or node.this.args.get("quoted"):
            raise
    return call(exp.Anonymous(this=str(node.this.this)), frame)


_WITHOUT_PARENTHESES = ("current_user", "session_user", "current_role", "user", "current_catalog", "current_schema")


def _identifier(node: exp.Identifier, frame: Frame) -> Expr:
    return frame.scope.resolve(name_of(node))


def _literal(node: exp.Literal, frame: Frame) -> Expr:
    return Literal(STRING, False, str(node.this)) if node.is_string else literals.number(str(node.this))


def _hex(node: exp.HexString, frame: Frame) -> Expr:
    try:
        return Literal(BINARY, False, bytes.fromhex(str(node.this)))
    except ValueError:
        raise InvalidText(f"x'{node.this}' is not a BINARY: it needs pairs of hexadecimal digits") from None


def _interval(node: exp.Interval, frame: Frame) -> Expr:
    value, unit = node.this, node.args.get("unit")
    if isinstance(value, exp.Placeholder | exp.Parameter):
        return _given_interval(_parameter(value, frame), _qualifier(unit), frame)
    if not isinstance(value, exp.Literal) or (unit is not None and not isinstance(unit, exp.Var | exp.IntervalSpan)):
        raise NotSupportedError("an INTERVAL must be a constant, for instance INTERVAL '3' MONTH")
    return literals.interval(str(value.this), _qualifier(unit))


def _given_interval(value: Expr, unit: str | None, frame: Frame) -> Expr:
    """An INTERVAL whose value is a parameter: `INTERVAL ? DAY`.

    The statement is bound again for other values, because the type of DATE plus the interval depends on the value: DATE
    for days, TIMESTAMP for hours.
    """
    if isinstance(value, DeferredParameter):
        frame.context.momentary.append("INTERVAL ?")
        value = value.sample
    assert isinstance(value, Literal)
    if value.value is None:
        return Literal(INTERVAL, True, None)
    if value.type != STRING and not value.type.is_numeric:
        advice = "; give it without INTERVAL" if value.type == INTERVAL else ""
        raise TypeMismatch(f"INTERVAL takes a text or a number, such as '3' or 3, not {value.type}{advice}")
    given = value.type.to_python(value.value)
    return literals.interval(given if value.type == STRING else f"{decimal.Decimal(str(given)):f}", unit)


def _qualifier(unit: Any) -> str | None:
    """The qualifier in words: `DAY`, `DAY TO SECOND`."""
    if isinstance(unit, exp.IntervalSpan):
        return f"{unit.this.name} TO {unit.expression.name}"
    return None if unit is None else str(unit.this)


def _parameter(node: Any, frame: Frame) -> Expr:
    return frame.context.parameters[id(node)]


def _star(node: exp.Star, frame: Frame) -> Expr:
    raise SqlSyntaxError(f"* is not allowed in {frame.clause} like this")


# ---- logic -----------------------------------------------------------------------------------------------------------


def condition(node: Any, frame: Frame) -> Expr:
    """A bound expression that must be BOOLEAN."""
    with frame.context.at(node):
        return boolean(frame.bind(node), frame.clause)


def _connector(node: Any, frame: Frame) -> Expr:
    # A long chain of ANDs is a deep left spine; it is walked iteratively, not by recursion.
    kind, word = (exp.And, "and") if isinstance(node, exp.And) else (exp.Or, "or")
    operands: list[Any] = []
    spine = node
    while isinstance(spine, kind):
        operands.append(spine.expression)
        spine = spine.this
    operands.append(spine)
    bound = []
    for operand in reversed(operands):
        with frame.context.at(operand):
            bound.append(boolean(frame.bind(operand), word.upper()))
    return connect(word, tuple(bound))


def _not(node: exp.Not, frame: Frame) -> Expr:
    return negation(frame.bind(node.this))


def _paren(node: exp.Paren, frame: Frame) -> Expr:
    return frame.bind(node.this)


# ---- comparisons -----------------------------------------------------------------------------------------------------


def _comparison(node: Any, frame: Frame) -> Expr:
    return _compared(COMPARISONS[type(node)], _operand(node.this, frame), _operand(node.expression, frame))


_Operand = Expr | tuple[Expr, ...]
"""A value, or the parts of a row."""


def _operand(node: Any, frame: Frame) -> _Operand:
    row = _operands(node)
    return frame.bind(node) if row is None else frame.bind_all(row)


def _compared(function: str, left: _Operand, right: _Operand) -> Expr:
    """A comparison of two values, or of two rows."""
    if isinstance(left, Expr) and isinstance(right, Expr):
        return compare(function, left, right)
    if isinstance(left, Expr) or isinstance(right, Expr):
        raise TypeMismatch("a row of values can only be compared with a row")
    if function == "is_distinct":
        return distinct_rows(compare, left, right)
    if function not in ("eq", "ne"):
        return ordered_rows(compare, function, left, right)
    equal = equal_rows(left, right)
    return equal if function == "eq" else negation(equal)


def equal_rows(left: tuple[Expr, ...], right: tuple[Expr, ...]) -> Expr:
    """`(a, b) = (c, d)`."""
    check_lengths(left, right)
    parts = tuple(compare("eq", a, b) for a, b in zip(left, right))
    return parts[0] if len(parts) == 1 else connect("and", parts)


def _between(node: exp.Between, frame: Frame) -> Expr:
    value = _operand(node.this, frame)
    low, high = _operand(node.args["low"], frame), _operand(node.args["high"], frame)
    inside = connect("and", (_compared("ge", value, low), _compared("le", value, high)))
    if not node.args.get("symmetric"):
        return inside
    return connect("or", (inside, connect("and", (_compared("ge", value, high), _compared("le", value, low)))))


def _in(node: exp.In, frame: Frame) -> Expr:
    only(node, "this", "expressions")
    if not node.expressions:
        raise SqlSyntaxError("IN needs a list of values or a query in parentheses")
    return in_list(node.this, node.expressions, frame)


def in_list(left: Any, items: Sequence[Any], frame: Frame) -> Expr:
    """`left IN (items)`, all of them syntax nodes."""
    row = _operands(left)
    if row is not None:
        parts = frame.bind_all(row)
        rows = [frame.bind_all(_operands(item) or [item]) for item in items]
        matches = tuple(equal_rows(parts, right) for right in rows)
        return matches[0] if len(matches) == 1 else connect("or", matches)
    bound = [frame.bind(left), *frame.bind_all(items)]
    target, settled = meeting_type(bound, "IN cannot compare")
    if any(is_cut(each.type, target) for each in bound):
        # Saturated numbers equal each other, so each pair is compared at its own common type.
        pairs = tuple(compare("eq", bound[0], item) for item in bound[1:])
        return pairs[0] if len(pairs) == 1 else connect("or", pairs)
    converted = tuple(functions.comparable(convert(each, target, settled)) for each in bound)
    return InValues(BOOLEAN, any(e.nullable for e in converted), converted[0], converted[1:])


def _is(node: exp.Is, frame: Frame) -> Expr:
    right, negated = node.expression, bool(node.args.get("negate"))
    if isinstance(node.this, exp.Tuple) and isinstance(right, exp.Null):
        # A row is NULL if all its parts are, and NOT NULL if none is; if only some are, it is neither.
        tests = tuple(Call(BOOLEAN, False, "is_null", (part,)) for part in frame.bind_all(node.this.expressions))
        return junction("and", tuple(negation(test) for test in tests) if negated else tests)
    arg = frame.bind(node.this)
    if isinstance(right, exp.Null):
        test = Call(BOOLEAN, False, "is_null", (arg,))
    elif isinstance(right, exp.Boolean):
        test = Call(BOOLEAN, False, "is_true" if right.this else "is_false", (boolean(arg, "IS TRUE"),))
    else:
        raise unsupported(node)
    return negation(test) if negated else test


def _distinct_from(node: Any, frame: Frame) -> Expr:
    test = _compared("is_distinct", _operand(node.this, frame), _operand(node.expression, frame))
    return test if isinstance(node, exp.NullSafeNEQ) else negation(test)


# ---- arithmetic and texts --------------------------------------------------------------------------------------------


def _binary(node: Any, frame: Frame) -> Expr:
    return arithmetic.operate(_ARITHMETIC[type(node)], frame.bind(node.this), frame.bind(node.expression))


def _negative(node: exp.Neg, frame: Frame) -> Expr:
    return arithmetic.negate(frame.bind(node.this))


def _concatenation(node: exp.DPipe, frame: Frame) -> Expr:
    left, right = frame.bind(node.this), frame.bind(node.expression)
    joined = catalog_syntax.concatenated_arrays(left, right)
    if joined is not None:
        return joined
    if Kind.STRING not in (left.type.kind, right.type.kind):
        raise TypeMismatch(f"|| joins texts; there is no {left.type} || {right.type}")
    parts: list[Expr] = []
    for side in (left, right):
        text = cast(side, STRING) if side.type.kind is not Kind.STRING else side
        parts.extend(text.args if isinstance(text, Call) and text.function == "concat" and side is left else (text,))
    return Call(STRING, any(p.nullable for p in parts), "concat", tuple(parts))


# ---- CASE, CAST, calls -----------------------------------------------------------------------------------------------


def _case(node: exp.Case, frame: Frame) -> Expr:
    subject = _operand(node.this, frame) if node.this is not None else None
    conditions, values = [], []
    for branch in node.args["ifs"]:
        test = frame.bind(branch.this) if subject is None else _operand(branch.this, frame)
        with frame.context.at(branch.this):
            if subject is not None:
                conditions.append(_compared("eq", subject, test))
            else:
                assert isinstance(test, Expr)
                conditions.append(boolean(test, "WHEN"))
        values.append(frame.bind(branch.args["true"]))
    if not conditions:
        raise SqlSyntaxError("CASE needs at least one WHEN")
    default = node.args.get("default")
    values.append(frame.bind(default) if default is not None else literals.NULL_LITERAL)
    type_, found = unify(values, "the branches of CASE are of types")
    branches = tuple(zip(conditions, found))
    return Case(type_, any(value.nullable for value in found), branches, found[-1])


def _cast(node: Any, frame: Frame) -> Expr:
    only(node, "this", "to", "safe")
    target = bind_cast_type(node.args["to"], frame.context)
    if isinstance(node, exp.TryCast):
        return cast(frame.bind(node.this), target, safe=True)
    value = frame.bind(node.this)
    if target.alias is not None or value.type.alias is not None:
        of_catalogs = catalog_syntax.cast_to(value, target, frame)
        if of_catalogs is not None:
            return of_catalogs
    if isinstance(value, Column) and frame.aggregates is not None:
        value = frame.aggregates.averaged_as(value, target, frame.context)
    return cast(arithmetic.divided_as(value, target), target)


def _extract(node: exp.Extract, frame: Frame) -> Expr:
    part = str(node.this.name).lower()
    part = functions.field_name(part)
    if part not in functions.FIELDS:
        raise TypeMismatch(f"EXTRACT has no field {part}; it has {', '.join(functions.FIELDS)}")
    return functions.date_part(part, frame.bind(node.expression))


def call(node: exp.Anonymous, frame: Frame) -> Expr:
    """A call of a scalar function; `expressions.aggregates` has extracted the others."""
    only(node, "this", "expressions")
    name = name_of(node.this) if isinstance(node.this, exp.Identifier) else str(node.this).lower()
    args = list(node.expressions)
    if name in functions.CLOCKS:
        if args:
            raise TypeMismatch(f"{name}() takes no arguments")
        return cast(_now(node, frame), functions.CLOCKS[name])
    if functions.look_up(name).kind == "window":
        raise WindowError(f"{name} is a window function: OVER (...) must follow it")
    for arg in args:
        if isinstance(arg, exp.Distinct | exp.Star | exp.Order):
            raise TypeMismatch(f"{name} is not an aggregate function: it takes no {generate_word(arg)}")
    function = functions.look_up(name)
    if function.category == "system":
        found = _system_call(name, function, frame.bind_all(args), frame)
        if found is not None:
            return found
    bound = functions.build(name, frame.bind_all(args))
    for place, check in functions.pattern_checks(bound):
        with frame.context.at(args[place]):
            check()
    return bound


def _system_call(name: str, function: functions.Function, args: tuple[Expr, ...], frame: Frame) -> Expr | None:
    """A function that reads the catalog or the session; None for one that does not."""
    from ..system.functions import bind_system, is_bound_here

    if not is_bound_here(name, function):
        return None
    functions.check_count(function, name, args)
    return bind_system(frame.context, name, function, args)


def _now(node: Any, frame: Frame) -> Expr:
    """`now()`: the statement's time."""
    if frame.clause in ("DEFAULT", "RANGE"):
        if frame.clause == "DEFAULT":
            raise NotSupportedError("DEFAULT needs a constant: INSERT ... VALUES (now()) gives a row its time")
        raise TypeMismatch(f"{frame.clause} needs a constant; now() is another time in each statement")
    if frame.context.deferred_now is not None:
        return frame.context.deferred_now
    return Literal(TIMESTAMP, False, wall_time(frame.context.now()))


def generate_word(node: Any) -> str:
    """A misplaced part of a call, in words."""
    return {"Distinct": "DISTINCT", "Star": "*", "Order": "ORDER BY"}[type(node).__name__]


def _null(node: exp.Null, frame: Frame) -> Expr:
    return literals.NULL_LITERAL


def _truth(node: exp.Boolean, frame: Frame) -> Expr:
    return literals.TRUE if node.this else literals.FALSE


HANDLERS: dict[type, Handler] = {
    exp.Column: _column,
    exp.Identifier: _identifier,
    exp.Literal: _literal,
    exp.HexString: _hex,
    exp.Interval: _interval,
    exp.Placeholder: _parameter,
    exp.Parameter: _parameter,
    exp.Null: _null,
    exp.Boolean: _truth,
    exp.Star: _star,
    exp.Paren: _paren,
    exp.And: _connector,
    exp.Or: _connector,
    exp.Not: _not,
    **dict.fromkeys(COMPARISONS, _comparison),
    exp.Between: _between,
    exp.In: _in,
    exp.Is: _is,
    exp.NullSafeEQ: _distinct_from,
    exp.NullSafeNEQ: _distinct_from,
    **patterns.HANDLERS,
    **catalog_syntax.HANDLERS,
    **bit_operators.HANDLERS,
    **dict.fromkeys(_ARITHMETIC, _binary),
    exp.Neg: _negative,
    exp.DPipe: _concatenation,
    exp.Case: _case,
    exp.Cast: _cast,
    exp.TryCast: _cast,
    exp.Extract: _extract,
    exp.Anonymous: call,
    exp.CurrentTimestamp: _now,
    exp.CurrentDate: lambda node, frame: cast(_now(node, frame), DATE),
    exp.Localtimestamp: _now,
}
