"""Binds table functions of FROM: `generate_series(start, stop [, step])`, over integers and over time."""

from __future__ import annotations

from sqlglot import exp

from ....errors import NotSupportedError, TypeMismatch, UnknownFunction, did_you_mean
from ....model.types import BIGINT, DATE, INT, INTERVAL, TIMESTAMP, DataType, Kind
from ...bound import SeriesRef
from ...coercion import convert, is_text_literal, unify
from ...expressions import Expr, Literal
from ..context import Context, Frame, only
from ..scope import Scope
from .external_files import READERS

TABLE_FUNCTIONS = ("generate_series",)
_FORM = "generate_series(start, stop [, step])"


def bind_series(call: exp.Anonymous, alias: str, scope: Scope, context: Context, nullable: bool) -> SeriesRef:
    """A call in FROM; its arguments are resolved in `scope`.

    `nullable` is True if an outer join may fill its column with NULLs.
    """
    only(call, "this", "expressions")
    name = str(call.this.this if isinstance(call.this, exp.Identifier) else call.this).lower()
    if name not in TABLE_FUNCTIONS:
        hint = did_you_mean(name, (*TABLE_FUNCTIONS, *READERS), "FROM has")
        raise UnknownFunction(f"function {name} that returns rows does not exist{hint}")
    if len(call.expressions) not in (2, 3):
        raise TypeMismatch(f"{_FORM} takes two or three arguments, not {len(call.expressions)}")
    start, stop, *rest = Frame(context, scope, "FROM").bind_all(call.expressions)
    if any(arg.type.kind in (Kind.DATE, Kind.TIMESTAMP, Kind.INTERVAL) for arg in (start, stop, *rest)):
        start, stop, step = _in_time(start, stop, rest)
    else:
        start, stop, step = _in_numbers(start, stop, rest)
    return SeriesRef(start, stop, step, alias, (context.column(alias, start.type, nullable),))


def _in_numbers(start: Expr, stop: Expr, rest: list[Expr]) -> tuple[Expr, Expr, Expr]:
    args = [start, stop, *(rest or [Literal(INT, False, 1)])]
    type_, found = unify(args, "generate_series cannot count from, to and by values of types")
    if type_.kind is Kind.NULL:
        type_, found = INT, tuple(convert(arg, INT) for arg in args)
    if not type_.is_integer:
        raise TypeMismatch(f"generate_series counts whole numbers or moments, not {type_}")
    # A sum of small integers may need a wider type than the bounds.
    wide = type_ if type_ == BIGINT else INT
    found = tuple(convert(arg, wide) for arg in found)
    if isinstance(found[2], Literal) and found[2].value == 0:
        raise TypeMismatch("the step of generate_series must not be zero")
    return found[0], found[1], found[2]


def _in_time(start: Expr, stop: Expr, rest: list[Expr]) -> tuple[Expr, Expr, Expr]:
    if not rest:
        raise TypeMismatch("generate_series over moments needs a step, for instance INTERVAL '1' DAY")
    step = rest[0]
    if is_text_literal(step):
        step = convert(step, INTERVAL)
    if not isinstance(step, Literal) or step.type != INTERVAL or step.value is None:
        raise NotSupportedError("the step of generate_series over moments must be a constant INTERVAL")
    months, days, microseconds = step.value
    if not (months or days or microseconds):
        raise TypeMismatch("the step of generate_series must not be zero")
    type_ = _moment_type(start, stop, bool(microseconds))
    return convert(start, type_), convert(stop, type_), step


def _moment_type(start: Expr, stop: Expr, has_time: bool) -> DataType:
    """The type of the moments: DATE plus days or months is DATE, as in `date + interval`."""
    for arg in (start, stop):
        if arg.type.kind not in (Kind.DATE, Kind.TIMESTAMP, Kind.NULL) and not is_text_literal(arg):
            raise TypeMismatch(
                f"the start and end of generate_series must be timestamps if its step is an INTERVAL, not {arg.type}"
            )
    dates = all(arg.type.kind in (Kind.DATE, Kind.NULL) for arg in (start, stop))
    return DATE if dates and not has_time else TIMESTAMP
