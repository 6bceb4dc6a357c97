"""Dates, timestamps and intervals.

A TIMESTAMP is Spark's TIMESTAMP_NTZ. Its microseconds since 1970 are computed through TIMESTAMP, in a session whose
zone is UTC. An INTERVAL is a struct of months, days and microseconds (`tree.py`); the parts of a constant are known
here. To be added to a date or timestamp, it is converted to Spark's own by make_interval().
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from sqlglot import exp

from ....model.types import BIGINT, DATE, INTERVAL, TIMESTAMP, DataType
from ....sql.expressions import Call, Expr, Literal
from .tree import (
    Tree,
    again,
    both,
    call,
    cast,
    closed,
    either,
    equal,
    error,
    infix,
    is_null,
    minus,
    not_supported,
    null,
    number,
    plus,
    string,
    times,
)

Writer = Callable[[Call, list[Tree]], Tree]

DAY: Final = 86_400_000_000
"""Microseconds."""
_SIZES: Final = {
    "hour": 3_600_000_000, "minute": 60_000_000, "second": 1_000_000, "milliseconds": 1000, "microseconds": 1,
}  # fmt: skip
_YEARS: Final = {"decade": (10, 0), "century": (100, 1), "millennium": (1000, 1)}
"""Number of years, and the number of the first one."""
_MONTHS: Final = {"month": 1, "quarter": 3, "year": 12, "decade": 120, "century": 1200, "millennium": 12_000}


def whole(left: Tree, right: Tree) -> Tree:
    """The quotient of BIGINTs, truncated."""
    return infix(exp.IntDiv, left, right)


def remainder(left: Tree, right: Tree) -> Tree:
    return infix(exp.Mod, left, right)


def floored(value: Tree, size: int) -> Tree:
    """The quotient of integers, rounded towards minus infinity."""
    return whole(minus(value, call("pmod", again(value), number(size))), number(size)) if size != 1 else value


def micros(moment: Tree, type_: DataType) -> Tree:
    """Microseconds since 1970-01-01."""
    if type_ == DATE:
        return times(cast(call("unix_date", moment), BIGINT), number(DAY))
    return call("unix_micros", cast(moment, "TIMESTAMP"))


def from_micros(value: Tree) -> Tree:
    return cast(call("timestamp_micros", value), TIMESTAMP)


def as_date(moment: Tree, type_: DataType) -> Tree:
    return moment if type_ == DATE else cast(moment, DATE)


# ---- intervals -------------------------------------------------------------------------------------------------------


def parts(expr: Expr, tree: Tree) -> tuple[Tree, Tree, Tree]:
    """Months, days and microseconds of an INTERVAL."""
    if isinstance(expr, Literal) and expr.value is not None:
        return number(expr.value.months), number(expr.value.days), number(expr.value.microseconds)
    fields = [exp.Dot(this=closed(again(tree)), expression=exp.to_identifier(name)) for name in _FIELDS]
    return fields[0], fields[1], fields[2]


_FIELDS: Final = ("months", "days", "microseconds")


def interval_of(months: Tree, days: Tree, microseconds: Tree, inputs: list[Tree] | None = None) -> Tree:
    """An INTERVAL of three numbers; NULL if an input is NULL."""
    fields: list[Tree] = []
    for name, part in zip(_FIELDS, (months, days, microseconds)):
        fields += [string(name), cast(part, "BIGINT" if name == "microseconds" else "INT")]
    struct = call("named_struct", *fields)
    if not inputs:
        return struct
    return call("if", either(*(is_null(again(tree)) for tree in inputs)), null(INTERVAL), struct)


def spark_interval(expr: Expr, tree: Tree, sign: int = 1) -> Tree:
    """An INTERVAL, or its negation, as Spark's own."""
    if isinstance(expr, Literal) and expr.value is not None:
        months, days, microseconds = (number(sign * part) for part in expr.value)
    else:
        months, days, microseconds = (times(part, number(sign)) if sign < 0 else part for part in parts(expr, tree))
    seconds = times(cast(microseconds, "DECIMAL(18, 0)"), cast(string("0.000001"), "DECIMAL(6, 6)"))
    zero = number(0)
    return call("make_interval", zero, months, again(zero), days, again(zero), again(zero),
                cast(seconds, "DECIMAL(18, 6)"))  # fmt: skip


def arithmetic(expr: Call, args: list[Tree]) -> Tree:
    """add and sub with a DATE or TIMESTAMP on the left."""
    right = expr.args[1]
    if right.type == DATE:
        return call("datediff", args[0], args[1])
    if right.type.is_integer:
        return call("date_add" if expr.function == "add" else "date_sub", *args)
    sign = 1 if expr.function == "add" else -1
    if expr.type == DATE:
        months, days, _ = parts(right, args[1])
        shifted = call("add_months", args[0], times(months, number(sign)))
        return call("date_add", shifted, times(days, number(sign)))
    # Spark would otherwise continue with its other timestamp type.
    return cast(plus(args[0], spark_interval(right, args[1], sign)), TIMESTAMP)


def _sum(sign: int) -> Writer:
    def write(expr: Call, args: list[Tree]) -> Tree:
        pairs = zip(parts(expr.args[0], args[0]), parts(expr.args[1], args[1]))
        added = [infix(exp.Add if sign > 0 else exp.Sub, a, b) for a, b in pairs]
        return interval_of(added[0], added[1], added[2], args)

    return write


def _times(expr: Call, args: list[Tree]) -> Tree:
    if not expr.args[1].type.is_integer:
        raise not_supported("an INTERVAL times a number with a fraction")
    factor = cast(args[1], BIGINT)
    scaled = [times(cast(part, BIGINT), again(factor)) for part in parts(expr.args[0], args[0])]
    return interval_of(scaled[0], scaled[1], scaled[2], args)


def _negative(expr: Call, args: list[Tree]) -> Tree:
    turned = [exp.Neg(this=exp.Paren(this=part)) for part in parts(expr.args[0], args[0])]
    return interval_of(turned[0], turned[1], turned[2], args)


def _between(expr: Call, args: list[Tree]) -> Tree:
    """TIMESTAMP - TIMESTAMP: whole days and the rest, both of one sign."""
    later, earlier = (micros(tree, arg.type) for arg, tree in zip(expr.args, args))
    distance = minus(later, earlier)
    return interval_of(number(0), whole(distance, number(DAY)), remainder(again(distance), number(DAY)), args)


def length(expr: Expr, tree: Tree) -> Tree:
    """The length in microseconds with 30-day months, which comparisons use."""
    months, days, rest = (cast(part, BIGINT) for part in parts(expr, tree))
    return plus(times(plus(times(months, number(30)), days), number(DAY)), rest)


def _make_interval(expr: Call, args: list[Tree]) -> Tree:
    years, months, weeks, days, hours, minutes, seconds = args
    clock = plus(times(hours, number(_SIZES["hour"])), times(minutes, number(_SIZES["minute"])))
    rest = cast(call("rint", times(seconds, number(1_000_000))), BIGINT)
    return interval_of(
        plus(times(years, number(12)), months), plus(times(weeks, number(7)), days), plus(clock, rest), args
    )  # fmt: skip


def _interval_part(name: str, expr: Expr, tree: Tree) -> Tree:
    """EXTRACT of an INTERVAL; months count within the year, hours are not limited to a day."""
    months, days, rest = (cast(part, BIGINT) for part in parts(expr, tree))
    years = whole(months, number(12))
    within = remainder(rest, number(60_000_000))
    if name == "epoch":
        hours = plus(times(years, number(8766)), times(plus(times(remainder(again(months), number(12)), number(30)),
                     days), number(24)))  # fmt: skip
        return _decimal(plus(times(hours, number(_SIZES["hour"])), rest), 6)
    found: dict[str, Tree] = {
        **{unit: whole(again(years), number(size)) for unit, (size, _) in _YEARS.items()},
        "year": years,
        "quarter": plus(whole(remainder(again(months), number(12)), number(3)), number(1)),
        "month": remainder(again(months), number(12)),
        "day": days,
        "hour": whole(again(rest), number(_SIZES["hour"])),
        "minute": remainder(whole(again(rest), number(_SIZES["minute"])), number(60)),
        "second": whole(again(within), number(1_000_000)),
        "seconds": _decimal(within, 6),
        "milliseconds": _decimal(again(within), 3),
        "microseconds": again(within),
    }
    return found[name]


def _decimal(value: Tree, scale: int) -> Tree:
    """A BIGINT as a DECIMAL with `scale` digits after the point."""
    unit = cast(string(f"1e-{scale}"), f"DECIMAL({scale}, {scale})")
    return times(cast(value, "DECIMAL(19, 0)"), unit)


# ---- parts -----------------------------------------------------------------------------------------------------------

_PARTS: Mapping[str, str] = {
    "year": "year", "quarter": "quarter", "month": "month", "week": "weekofyear", "day": "dayofmonth",
    "doy": "dayofyear", "hour": "hour", "minute": "minute", "second": "second",
}  # fmt: skip


def _part(name: str) -> Writer:
    def write(expr: Call, args: list[Tree]) -> Tree:
        arg, tree = expr.args[0], args[0]
        if arg.type == INTERVAL:
            return cast(_interval_part(name, arg, tree), expr.type)
        return cast(_moment_part(name, arg.type, tree), expr.type)

    return write


def _moment_part(name: str, type_: DataType, tree: Tree) -> Tree:
    if name in _PARTS:
        return call(_PARTS[name], tree)
    if name in _YEARS:
        size, first = _YEARS[name]
        return whole(plus(call("year", tree), number(size - 1)) if first else call("year", tree), number(size))
    if name == "epoch":
        return times(cast(call("unix_date", tree), BIGINT), number(86_400)) if type_ == DATE else _decimal(
            micros(tree, type_), 6)  # fmt: skip
    if name in ("seconds", "milliseconds", "microseconds"):
        within = call("pmod", micros(tree, type_), number(60_000_000))
        return {"seconds": _decimal(within, 6), "milliseconds": _decimal(within, 3), "microseconds": within}[name]
    days = as_date(tree, type_)
    return {
        "dow": minus(call("dayofweek", days), number(1)),
        "isodow": plus(call("weekday", days), number(1)),
        "isoyear": call("date_part", string("YEAROFWEEK"), days),
        "julian": plus(call("unix_date", days), number(2_440_588)),
    }[name]


def _unit(expr: Call) -> str:
    unit = expr.args[0]
    assert isinstance(unit, Literal)
    return str(unit.value)


_TRUNCATED: Final = {"milliseconds": "MILLISECOND", "microseconds": "MICROSECOND"}


def _date_trunc(expr: Call, args: list[Tree]) -> Tree:
    unit, type_, tree = _unit(expr), expr.args[1].type, args[1]
    if type_ == INTERVAL:
        return _truncated_interval(unit, expr.args[1], tree)
    if unit in _YEARS:
        size, first = _YEARS[unit]
        year = call("year", tree)
        start = minus(year, remainder(minus(again(year), number(first)), number(size)))
        return cast(call("make_date", start, number(1), number(1)), type_)
    if type_ == DATE:
        return tree if unit == "day" else call("trunc", tree, string(unit.upper()))
    name = _TRUNCATED.get(unit, unit.upper())
    return cast(call("date_trunc", string(name), cast(tree, "TIMESTAMP")), TIMESTAMP)


def _truncated_interval(unit: str, expr: Expr, tree: Tree) -> Tree:
    months, days, rest = parts(expr, tree)
    if unit in _MONTHS:
        return interval_of(minus(months, remainder(again(months), number(_MONTHS[unit]))), number(0), number(0), [tree])
    if unit not in _SIZES:
        return interval_of(months, days, number(0), [tree])
    return interval_of(months, days, minus(rest, remainder(again(rest), number(_SIZES[unit]))), [tree])


# ---- spans -----------------------------------------------------------------------------------------------------------


def _add_months(expr: Call, args: list[Tree]) -> Tree:
    if expr.type == DATE:
        return call("add_months", args[0], cast(args[1], "INT"))
    zero = number(0)
    return cast(plus(args[0], call("make_interval", zero, cast(args[1], "INT"))), TIMESTAMP)


def _months_between(expr: Call, args: list[Tree]) -> Tree:
    (later, earlier), types = args, [arg.type for arg in expr.args]
    a, b = as_date(later, types[0]), as_date(earlier, types[1])
    months = minus(_month_number(a), _month_number(b))
    last = both(equal(call("last_day", again(a)), again(a)), equal(call("last_day", again(b)), again(b)))
    days = minus(call("dayofmonth", again(a)), call("dayofmonth", again(b)))
    clock = minus(*(call("pmod", micros(again(tree), type_), number(DAY)) for tree, type_ in zip(args, types)))
    rest = plus(days, infix(exp.Div, clock, cast(string(str(DAY)), "DOUBLE")))
    even = either(last, equal(again(days), number(0)))
    zero = cast(string("0"), "DOUBLE")
    return plus(months, call("if", even, zero, infix(exp.Div, rest, cast(string("31"), "DOUBLE"))))


def _month_number(date: Tree) -> Tree:
    return plus(times(call("year", again(date)), number(12)), call("month", again(date)))


def _difference(expr: Call, args: list[Tree]) -> Tree:
    unit = _unit(expr)
    start, end = (_ordinal(unit, arg.type, tree) for arg, tree in zip(expr.args[1:], args[1:]))
    return cast(minus(end, start), BIGINT)


def _ordinal(unit: str, type_: DataType, tree: Tree) -> Tree:
    """The number of the unit that holds a moment."""
    if unit in _SIZES:
        return floored(micros(tree, type_), _SIZES[unit])
    date = as_date(tree, type_)
    if unit == "day":
        return call("unix_date", date)
    if unit == "week":
        return floored(plus(call("unix_date", date), number(3)), 7)
    if unit in _YEARS:
        size, first = _YEARS[unit]
        return floored(minus(call("year", date), number(first)), size)
    return whole(minus(_month_number(date), number(1)), number(_MONTHS[unit]))


def _date_bin(expr: Call, args: list[Tree]) -> Tree:
    stride = expr.args[0]
    if not isinstance(stride, Literal) or stride.value is None:
        raise not_supported("date_bin() with a stride that is not constant")
    size = stride.value.days * DAY + stride.value.microseconds
    if stride.value.months or size <= 0:
        return error("date_bin needs a stride above zero, without months", TIMESTAMP)
    moment, origin = (micros(tree, TIMESTAMP) for tree in args[1:])
    return from_micros(minus(moment, call("pmod", minus(again(moment), origin), number(size))))


# ---- making ----------------------------------------------------------------------------------------------------------


def _make_date(expr: Call, args: list[Tree]) -> Tree:
    return call("make_date", *(cast(arg, "INT") for arg in args))


def _make_timestamp(expr: Call, args: list[Tree]) -> Tree:
    numbers = [cast(arg, "INT") for arg in args[:5]]
    return call("make_timestamp_ntz", *numbers, cast(args[5], "DECIMAL(16, 6)"))


def _from_epoch(expr: Call, args: list[Tree]) -> Tree:
    type_ = expr.args[0].type
    if type_.is_float:
        return from_micros(cast(call("rint", times(cast(args[0], "DOUBLE"), number(1_000_000))), BIGINT))
    if type_.is_integer:
        return from_micros(times(cast(args[0], BIGINT), number(1_000_000)))
    exact = times(cast(args[0], f"DECIMAL({min(38, 20 + (type_.scale or 0))}, {type_.scale})"), number(1_000_000))
    return from_micros(cast(call("floor", exact), BIGINT))


def _name(form: str) -> Writer:
    return lambda expr, args: call("date_format", args[0], string(form))


_TEMPLATES: Final = (
    ("YYYY", "yyyy"), ("HH24", "HH"), ("HH12", "hh"), ("MM", "MM"), ("DD", "dd"), ("MI", "mm"), ("SS", "ss"),
    ("US", "SSSSSS"), ("MS", "SSS"), ("-", "-"), ("/", "/"), (":", ":"), (" ", " "), (".", "."), ("_", "_"),
)  # fmt: skip


def _to_char(expr: Call, args: list[Tree]) -> Tree:
    """to_char for templates of numbers and separators only."""
    template = expr.args[1]
    if not isinstance(template, Literal) or template.value is None:
        raise not_supported("to_char() with a template that is not constant")
    rest, form = str(template.value), ""
    while rest:
        for written, java in _TEMPLATES:
            if rest.startswith(written):
                rest, form = rest[len(written) :], form + java
                break
        else:
            raise not_supported(f"to_char() with the template '{template.value}'")
    return call("date_format", args[0], string(form))


WRITERS: Mapping[str, Writer] = {
    **{name: _part(name) for name in (*_PARTS, *_YEARS, "dow", "isodow", "isoyear", "julian", "epoch", "seconds",
                                      "milliseconds", "microseconds")},
    "date_trunc": _date_trunc,
    "dayname": _name("EEEE"),
    "monthname": _name("MMMM"),
    "last_day": lambda expr, args: call("last_day", as_date(args[0], expr.args[0].type)),
    "add_months": _add_months,
    "months_between": _months_between,
    "datediff": _difference,
    "date_bin": _date_bin,
    "make_date": _make_date,
    "make_timestamp": _make_timestamp,
    "make_interval": _make_interval,
    "from_epoch": _from_epoch,
    "to_char_date": _to_char,
    "interval_add": _sum(1),
    "interval_sub": _sum(-1),
    "interval_neg": _negative,
    "interval_mul": _times,
    "interval_between": _between,
    "interval_length": lambda expr, args: length(expr.args[0], args[0]),
}  # fmt: skip

REFUSED: Mapping[str, str] = {
    "age": "Spark has no difference in years, months and days",
    "interval_div": "fractions of months and days are nyala's own",
    "justify_days": "intervals of one sign are nyala's own",
    "justify_hours": "intervals of one sign are nyala's own",
    "justify_interval": "intervals of one sign are nyala's own",
    "to_char_number": "templates are nyala's own",
    "to_date": "templates are nyala's own",
    "to_timestamp": "templates are nyala's own",
    "to_number": "templates are nyala's own",
}
