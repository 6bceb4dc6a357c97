"""The function registry: which names exist, what arguments they take, what type and nullability comes out.

`build(name, args)` makes the bound node for a call as written; the executor finds its kernels by the *canonical* names
that come out, which are all listed in `SCALARS` and `AGGREGATES`. Names that are only other spellings (`substr`,
`char_length`, `ceiling`) or shorthands (`nullif`, `concat` of several) never reach it.

Scalars give NULL where any argument is NULL, except coalesce, greatest and least, which skip NULLs. Texts are counted
in characters, from 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

from ..errors import TypeMismatch, UnknownFunction, did_you_mean
from ..storage.types import BIGINT, BOOLEAN, DATE, DECIMAL, DOUBLE, INT, STRING, TIMESTAMP, DataType, Kind
from .arithmetic import MIN_DIVISION_SCALE, decimal_result
from .coercion import as_decimal, cast, convert, fit, is_text_literal, unify
from .expressions import Aggregate, Call, Case, Expr, Literal

Args: TypeAlias = tuple[Expr, ...]
Builder: TypeAlias = Callable[[str, Args], Expr]

OPERATORS = frozenset(
    [
        "add",
        "sub",
        "mul",
        "div",
        "mod",
        "neg",
        "eq",
        "ne",
        "lt",
        "le",
        "gt",
        "ge",
        "is_distinct",
        "and",
        "or",
        "not",
        "is_null",
        "is_true",
        "is_false",
        "like",
        "ilike",
        "concat",
    ]
)
"""What operators are bound into; `like` and `ilike` escape with a backslash, `concat` takes two or more texts."""

DATE_PARTS = ("year", "quarter", "month", "week", "day", "dow", "doy", "hour", "minute", "second")
"""Functions of one DATE or TIMESTAMP that EXTRACT is bound into: BIGINT each. `week` is ISO 8601's, `dow` counts from
Sunday = 0, `doy` from 1, `second` is cut to whole seconds."""

TRUNCATIONS = ("year", "quarter", "month", "week", "day", "hour", "minute", "second")
"""Units of `date_trunc(unit, value)`, in lower case, coarse to fine."""


@dataclass(frozen=True, slots=True)
class Function:
    """One name that a statement may call.

    `signature` is for people; `least` and `most` count arguments (`most` None: any number).
    """

    name: str
    signature: str
    least: int
    most: int | None
    build: Builder
    aggregate: bool = False


def look_up(name: str) -> Function:
    """The function of a name in lower case; `UnknownFunction` lists close ones."""
    try:
        return REGISTRY[name]
    except KeyError:
        raise UnknownFunction(f"there is no function {name}{did_you_mean(name, REGISTRY, 'some are')}") from None


def build(name: str, args: Args) -> Expr:
    """The bound call of a function; `UnknownFunction` or `TypeMismatch` says what it takes instead."""
    function = look_up(name)
    if len(args) < function.least or (function.most is not None and len(args) > function.most):
        raise UnknownFunction(f"{name} was given {_count(len(args))}; it is {function.signature}")
    return function.build(name, args)


def _count(n: int) -> str:
    return "no argument" if n == 0 else f"{n} argument{'s' if n > 1 else ''}"


def call(type_: DataType, name: str, *args: Expr) -> Call:
    """A strict call: NULL where an argument may be NULL."""
    return Call(type_, any(arg.nullable for arg in args), name, args)


# ---- arguments -------------------------------------------------------------------------------------------------------


def _refuse(name: str, arg: Expr, position: int = 0) -> TypeMismatch:
    which = f"argument {position + 1} of {name}" if position else f"the argument of {name}"
    return TypeMismatch(f"{which} cannot be of type {arg.type}; it is {REGISTRY[name].signature}")


def _text(name: str, arg: Expr, position: int = 0) -> Expr:
    if arg.type.kind is Kind.NULL:
        return convert(arg, STRING)
    if arg.type.kind is not Kind.STRING:
        raise _refuse(name, arg, position)
    return arg


def _whole(name: str, arg: Expr, position: int) -> Expr:
    if isinstance(arg, Literal) and (is_text_literal(arg) or arg.value is None):
        arg = fit(arg, BIGINT) or arg
    if not arg.type.is_integer:
        raise _refuse(name, arg, position)
    return cast(arg, BIGINT)


def _number(name: str, arg: Expr) -> Expr:
    if arg.type.kind is Kind.NULL or is_text_literal(arg):
        return convert(arg, DOUBLE)
    if not arg.type.is_numeric:
        raise _refuse(name, arg)
    return arg


def _moment(name: str, arg: Expr, position: int = 0) -> Expr:
    if arg.type.kind is Kind.NULL:
        return convert(arg, TIMESTAMP)
    if arg.type.kind not in (Kind.DATE, Kind.TIMESTAMP):
        raise _refuse(name, arg, position)
    return arg


# ---- scalars ---------------------------------------------------------------------------------------------------------


def _of_text(result: DataType, canonical: str | None = None) -> Builder:
    """All arguments are texts."""
    return lambda name, args: call(result, canonical or name, *(_text(name, a, i) for i, a in enumerate(args)))


def _of_text_and_numbers(canonical: str | None = None) -> Builder:
    """A text, then integers; the result is a text."""

    def builder(name: str, args: Args) -> Expr:
        rest = (_whole(name, arg, i) for i, arg in enumerate(args[1:], 1))
        return call(STRING, canonical or name, _text(name, args[0]), *rest)

    return builder


def _concat(name: str, args: Args) -> Expr:
    """`concat` takes anything and skips NULLs, unlike `||`."""
    texts = [cast(arg, STRING) for arg in args]
    solid = [Call(STRING, False, "coalesce", (t, Literal(STRING, False, ""))) if t.nullable else t for t in texts]
    return solid[0] if len(solid) == 1 else Call(STRING, False, "concat", tuple(solid))


def _same_number(name: str, args: Args) -> Expr:
    arg = _number(name, args[0])
    return call(arg.type, name, arg)


def _whole_number(canonical: str) -> Builder:
    """floor and ceil: a DECIMAL without its fraction, a DOUBLE stays DOUBLE, an integer stays itself."""

    def builder(name: str, args: Args) -> Expr:
        arg = _number(name, args[0])
        if arg.type.is_integer:
            return arg
        return call(_shortened(arg.type, 0), canonical, arg)

    return builder


def _shortened(type_: DataType, scale: int) -> DataType:
    """A DECIMAL after rounding to `scale` digits: one integer digit more, as 9.5 becomes 10."""
    if not type_.is_decimal:
        return type_
    assert type_.precision is not None and type_.scale is not None
    if scale >= type_.scale:
        return type_
    return DECIMAL(min(38, type_.precision - type_.scale + 1 + scale), scale)


def _round(name: str, args: Args) -> Expr:
    """Half away from zero for DECIMALs, half to even for DOUBLEs; the result keeps min(scale, digits) digits."""
    arg = _number(name, args[0])
    digits = _whole(name, args[1], 1) if len(args) > 1 else Literal(BIGINT, False, 0)
    if not isinstance(digits, Literal) or digits.value is None:
        if arg.type.is_float:
            return call(arg.type, "round", arg, digits)
        raise TypeMismatch("the second argument of round must be a constant, for it decides the result's type")
    if arg.type.is_integer and digits.value >= 0:
        return arg
    return call(_shortened(arg.type, max(0, digits.value)), "round", arg, digits)


def _double(name: str, args: Args) -> Expr:
    return call(DOUBLE, {"pow": "power"}.get(name, name), *(cast(_number(name, arg), DOUBLE) for arg in args))


def _sign(name: str, args: Args) -> Expr:
    return call(INT, "sign", _number(name, args[0]))


def _modulo(name: str, args: Args) -> Expr:
    left, right = (_number(name, arg) for arg in args)
    if left.type.is_decimal or (right.type.is_decimal and not left.type.is_float):
        if not right.type.is_float:
            target = decimal_result("mod", as_decimal(left.type), as_decimal(right.type))
            return call(target, "mod", cast(left, target), cast(right, target))
    target, (left, right) = unify([left, right], "mod takes no")
    return call(target, "mod", left, right)


def _coalesce(name: str, args: Args) -> Expr:
    target, found = unify(args, "the arguments of coalesce are of types")
    if len(found) == 1:
        return found[0]
    return Call(target, all(arg.nullable for arg in found), "coalesce", found)


def _extreme(name: str, args: Args) -> Expr:
    target, found = unify(args, f"the arguments of {name} are of types")
    return Call(target, all(arg.nullable for arg in found), name, found)


def _nullif(name: str, args: Args) -> Expr:
    _, (left, right) = unify(args, "nullif cannot compare")
    same = call(BOOLEAN, "eq", left, right)
    kept = args[0] if args[0].type.kind is not Kind.NULL else left
    return Case(kept.type, True, ((same, Literal(kept.type, True, None)),), kept)


def _date_part(name: str, args: Args) -> Expr:
    return date_part(name, args[0])


def date_part(name: str, arg: Expr) -> Expr:
    """`EXTRACT(name FROM arg)`: a BIGINT."""
    arg = convert(arg, DATE) if is_text_literal(arg) else _moment(name, arg)
    if arg.type == DATE and name in ("hour", "minute", "second"):
        raise TypeMismatch(f"a DATE has no {name}; cast it to TIMESTAMP if 0 is meant")
    return call(BIGINT, name, arg)


def _date_part_by_name(name: str, args: Args) -> Expr:
    unit = _unit(name, args[0], DATE_PARTS)
    return date_part(unit, args[1])


def _date_trunc(name: str, args: Args) -> Expr:
    """DATE stays DATE; PostgreSQL would make it a timestamp."""
    unit = _unit(name, args[0], TRUNCATIONS)
    arg = _moment(name, args[1], 1)
    if arg.type == DATE and unit in ("hour", "minute", "second"):
        return arg
    return call(arg.type, "date_trunc", Literal(STRING, False, unit), arg)


def _unit(name: str, arg: Expr, known: tuple[str, ...]) -> str:
    if not isinstance(arg, Literal) or not isinstance(arg.value, str):
        raise TypeMismatch(f"the first argument of {name} must be a quoted unit: {', '.join(known)}")
    unit = arg.value.lower().rstrip("s") if arg.value.lower() not in known else arg.value.lower()
    if unit not in known:
        raise TypeMismatch(f"{name} has no unit '{arg.value}'; it has {', '.join(known)}")
    return unit


# ---- aggregates ------------------------------------------------------------------------------------------------------


def _count_of(name: str, args: Args) -> Expr:
    return Aggregate(BIGINT, False, "count", args)


def _sum(name: str, args: Args) -> Expr:
    arg = _summand(name, args[0])
    return Aggregate(sum_type(arg.type), True, "sum", (arg,))


def sum_type(type_: DataType) -> DataType:
    """BIGINT for TINYINT to INT, DECIMAL(38,0) for BIGINT, DECIMAL(38,s) for DECIMAL(p,s), DOUBLE for floats."""
    if type_.is_float:
        return DOUBLE
    if type_.is_decimal:
        return DECIMAL(38, type_.scale or 0)
    return DECIMAL(38, 0) if type_.kind is Kind.BIGINT else BIGINT


def _avg(name: str, args: Args) -> Expr:
    """Exact for integers and DECIMALs: DECIMAL(38, max(16, scale)), rounded half away from zero."""
    arg = _summand(name, args[0])
    exact = DECIMAL(38, max(MIN_DIVISION_SCALE, arg.type.scale or 0))
    return Aggregate(DOUBLE if arg.type.is_float else exact, True, "avg", (arg,))


def _summand(name: str, arg: Expr) -> Expr:
    if not arg.type.is_numeric:
        raise _refuse(name, arg)
    return arg


def _minmax(name: str, args: Args) -> Expr:
    arg = args[0]
    if arg.type.kind in (Kind.BOOLEAN, Kind.INTERVAL, Kind.NULL):
        raise _refuse(name, arg)
    return Aggregate(arg.type, True, name, (arg,))


def _functions() -> tuple[Function, ...]:
    scalars = [
        Function("upper", "upper(text)", 1, 1, _of_text(STRING)),
        Function("lower", "lower(text)", 1, 1, _of_text(STRING)),
        Function("length", "length(text)", 1, 1, _of_text(INT)),
        Function("char_length", "char_length(text)", 1, 1, _of_text(INT, "length")),
        Function("character_length", "character_length(text)", 1, 1, _of_text(INT, "length")),
        Function("octet_length", "octet_length(text)", 1, 1, _of_text(INT)),
        Function("reverse", "reverse(text)", 1, 1, _of_text(STRING)),
        Function("trim", "trim(text [, characters])", 1, 2, _of_text(STRING)),
        Function("btrim", "btrim(text [, characters])", 1, 2, _of_text(STRING, "trim")),
        Function("ltrim", "ltrim(text [, characters])", 1, 2, _of_text(STRING)),
        Function("rtrim", "rtrim(text [, characters])", 1, 2, _of_text(STRING)),
        Function("replace", "replace(text, from, to)", 3, 3, _of_text(STRING)),
        Function("strpos", "strpos(text, part)", 2, 2, _of_text(INT)),
        Function("starts_with", "starts_with(text, prefix)", 2, 2, _of_text(BOOLEAN)),
        Function("substring", "substring(text, start [, length])", 2, 3, _of_text_and_numbers()),
        Function("substr", "substr(text, start [, length])", 2, 3, _of_text_and_numbers("substring")),
        Function("left", "left(text, length)", 2, 2, _of_text_and_numbers()),
        Function("right", "right(text, length)", 2, 2, _of_text_and_numbers()),
        Function("repeat", "repeat(text, times)", 2, 2, _of_text_and_numbers()),
        Function("concat", "concat(value, ...)", 1, None, _concat),
        Function("abs", "abs(number)", 1, 1, _same_number),
        Function("sign", "sign(number)", 1, 1, _sign),
        Function("floor", "floor(number)", 1, 1, _whole_number("floor")),
        Function("ceil", "ceil(number)", 1, 1, _whole_number("ceil")),
        Function("ceiling", "ceiling(number)", 1, 1, _whole_number("ceil")),
        Function("round", "round(number [, digits])", 1, 2, _round),
        Function("mod", "mod(number, number)", 2, 2, _modulo),
        Function("sqrt", "sqrt(number)", 1, 1, _double),
        Function("exp", "exp(number)", 1, 1, _double),
        Function("ln", "ln(number)", 1, 1, _double),
        Function("log10", "log10(number)", 1, 1, _double),
        Function("power", "power(number, exponent)", 2, 2, _double),
        Function("pow", "pow(number, exponent)", 2, 2, _double),
        Function("coalesce", "coalesce(value, ...)", 1, None, _coalesce),
        Function("greatest", "greatest(value, ...)", 1, None, _extreme),
        Function("least", "least(value, ...)", 1, None, _extreme),
        Function("nullif", "nullif(value, value)", 2, 2, _nullif),
        Function("date_part", "date_part('unit', date or timestamp)", 2, 2, _date_part_by_name),
        Function("date_trunc", "date_trunc('unit', date or timestamp)", 2, 2, _date_trunc),
        *(Function(part, f"{part}(date or timestamp)", 1, 1, _date_part) for part in DATE_PARTS),
    ]
    aggregates = [
        Function("count", "count(*) or count([DISTINCT] value)", 1, 1, _count_of, True),
        Function("sum", "sum([DISTINCT] number)", 1, 1, _sum, True),
        Function("avg", "avg([DISTINCT] number)", 1, 1, _avg, True),
        Function("min", "min(value)", 1, 1, _minmax, True),
        Function("max", "max(value)", 1, 1, _minmax, True),
    ]
    return (*scalars, *aggregates)


REGISTRY: Mapping[str, Function] = MappingProxyType({function.name: function for function in _functions()})
"""Every function that a statement may call, by its name in lower case."""

AGGREGATES = frozenset(name for name, function in REGISTRY.items() if function.aggregate)
"""Canonical names of `Aggregate` nodes."""

SCALARS = (
    OPERATORS
    | frozenset(DATE_PARTS)
    | frozenset(
        [
            "upper",
            "lower",
            "length",
            "octet_length",
            "reverse",
            "trim",
            "ltrim",
            "rtrim",
            "replace",
            "strpos",
            "starts_with",
            "substring",
            "left",
            "right",
            "repeat",
            "abs",
            "sign",
            "floor",
            "ceil",
            "round",
            "sqrt",
            "exp",
            "ln",
            "log10",
            "power",
            "coalesce",
            "greatest",
            "least",
            "date_trunc",
        ]
    )
)
"""Canonical names of `Call` nodes: what an executor must know."""
