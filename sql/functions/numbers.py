"""Functions of numbers."""

from __future__ import annotations

import math

from ...errors import TypeMismatch
from ...model.types import BIGINT, BOOLEAN, DECIMAL, DOUBLE, INT, INTEGER_WIDTHS, MAX_PRECISION, DataType, Kind
from ..arithmetic import decimal_result, operate
from ..coercion import as_decimal, cast, convert, unify
from ..expressions import Call, Expr, Literal
from .arguments import number, of_doubles, refuse, whole
from .function import Args, Function, call


def _same(function: Function, args: Args) -> Expr:
    arg = number(function, args[0])
    return call(arg.type, function.name, arg)


def _to_whole(function: Function, args: Args) -> Expr:
    """floor and ceil: a DECIMAL without its fraction; DOUBLEs and integers keep their type."""
    arg = number(function, args[0])
    if arg.type.is_integer:
        return arg
    return call(_shortened(arg.type, 0), function.name, arg)


def _shortened(type_: DataType, scale: int) -> DataType:
    """A DECIMAL after rounding to `scale` digits: one integer digit more, as 9.5 becomes 10."""
    if not type_.is_decimal:
        return type_
    assert type_.precision is not None and type_.scale is not None
    if scale >= type_.scale:
        return type_
    return DECIMAL(min(MAX_PRECISION, type_.precision - type_.scale + 1 + scale), scale)


def _round(function: Function, args: Args) -> Expr:
    """Half away from zero for DECIMALs, half to even for DOUBLEs; the result keeps min(scale, digits) digits."""
    arg = number(function, args[0])
    digits = whole(function, args[1], 1) if len(args) > 1 else Literal(BIGINT, False, 0)
    if not isinstance(digits, Literal) or digits.value is None:
        if arg.type.is_float:
            return call(arg.type, "round", arg, digits)
        return call(_with_room(arg.type), "round_per_row", arg, digits)
    if arg.type.is_integer and digits.value >= 0:
        return arg
    return call(_shortened(arg.type, max(0, digits.value)), "round", arg, digits)


def _with_room(type_: DataType) -> DataType:
    """The type with one more integer digit, for the carry of rounding up."""
    exact = as_decimal(type_)
    assert exact.precision is not None and exact.scale is not None
    return DECIMAL(min(MAX_PRECISION, exact.precision + 1), exact.scale)


def _trunc(function: Function, args: Args) -> Expr:
    arg = number(function, args[0])
    if len(args) == 1:
        return arg if arg.type.is_integer else call(_shortened(arg.type, 0), "trunc", arg)
    digits = whole(function, args[1], 1)
    if not isinstance(digits, Literal) or digits.value is None:
        if arg.type.is_float:
            return call(arg.type, "trunc", arg, digits)
        raise TypeMismatch("the second argument of trunc must be a constant, for it decides the result's type")
    if arg.type.is_integer and digits.value >= 0:
        return arg
    return call(_shortened(arg.type, max(0, digits.value)), "trunc", arg, digits)


def _quotient(function: Function, args: Args) -> Expr:
    """`div`: integers divide as with /; exact numbers give a whole DECIMAL."""
    left, right = (number(function, arg, position) for position, arg in enumerate(args))
    if left.type.is_integer and right.type.is_integer:
        return operate("div", left, right)
    if left.type.is_float or right.type.is_float:
        return call(DOUBLE, "trunc", operate("div", left, right))
    common = decimal_result("mod", as_decimal(left.type), as_decimal(right.type))
    return call(DECIMAL(MAX_PRECISION, 0), "whole_quotient", cast(left, common), cast(right, common))


def _logarithm(function: Function, args: Args) -> Expr:
    """`log(x)` is to base 10, `log(b, x)` to base b."""
    if len(args) == 1:
        return call(DOUBLE, "log10", cast(number(function, args[0]), DOUBLE))
    return of_doubles(function, args)


def _same_integers(function: Function, args: Args) -> Expr:
    """A function of two integers, in the wider type."""
    for position, arg in enumerate(args):
        if not (arg.type.is_integer or (isinstance(arg, Literal) and arg.value is None)):
            raise refuse(function, arg, position)
    known = [arg.type for arg in args if arg.type.is_integer] or [INT]
    target = max(known, key=lambda type_: INTEGER_WIDTHS[type_.kind])
    return call(target, function.name, *(cast(arg, target) for arg in args))


def _factorial(function: Function, args: Args) -> Expr:
    return call(DECIMAL(MAX_PRECISION, 0), "factorial", whole(function, args[0]))


def _bucket(function: Function, args: Args) -> Expr:
    bounds = (cast(number(function, arg, position), DOUBLE) for position, arg in enumerate(args[:3]))
    return call(INT, "width_bucket", *bounds, whole(function, args[3], 3))


def _hash_bucket(function: Function, args: Args) -> Expr:
    """The rule is of constants, and the types of the values are part of it: none of them is converted."""
    numbers = []
    for position, (what, least) in enumerate((("number of buckets", 1), ("seed", 0))):
        arg = whole(function, args[position], position)
        if not isinstance(arg, Literal) or arg.value is None or not least <= arg.value < 1 << 31:
            raise TypeMismatch(f"the {what} of hash_bucket must be a constant from {least} to 2147483647")
        numbers.append(arg)
    for position, arg in enumerate(args[2:], 2):
        if arg.type.is_float or arg.type.kind in (Kind.BOOLEAN, Kind.INTERVAL):
            raise refuse(function, arg, position)
    values = (convert(arg, INT) if arg.type.kind is Kind.NULL else arg for arg in args[2:])
    return call(INT, "hash_bucket", *numbers, *values)


def _pi(function: Function, args: Args) -> Expr:
    return Literal(DOUBLE, False, math.pi)


def _random(function: Function, args: Args) -> Expr:
    return Call(DOUBLE, False, "random", ())


def _of_float(function: Function, args: Args) -> Expr:
    return call(BOOLEAN, function.name, cast(number(function, args[0]), DOUBLE))


def _function_of_double(name: str, description: str, example: str, result: str, fallible: bool = False) -> Function:
    return Function(
        name, f"{name}(number)", 1, 1, of_doubles, fallible=fallible,
        description=description, example=example, result=result,
    )  # fmt: skip


def _sign(function: Function, args: Args) -> Expr:
    return call(INT, "sign", number(function, args[0]))


def _modulo(function: Function, args: Args) -> Expr:
    left, right = (number(function, arg, position) for position, arg in enumerate(args))
    if left.type.is_decimal or (right.type.is_decimal and not left.type.is_float):
        if not right.type.is_float:
            target = decimal_result("mod", as_decimal(left.type), as_decimal(right.type))
            return call(target, "mod", cast(left, target), cast(right, target))
    target, (left, right) = unify([left, right], "mod takes no")
    return call(target, "mod", left, right)


NUMBERS = (
    Function(
        "abs", "abs(number)", 1, 1, _same, fallible=True, fails_at_limits_only=True, null_with_arguments=True,
        description="The number without its sign", example="abs(-17.4)", result="17.4",
    ),
    Function(
        "sign", "sign(number)", 1, 1, _sign,
        description="The sign of the number: -1, 0 or 1", example="sign(-8.4)", result="-1",
    ),
    Function(
        "floor", "floor(number)", 1, 1, _to_whole, fallible=True, null_with_arguments=True,
        description="The nearest integer that is not greater than the number", example="floor(-42.8)", result="-43",
    ),
    Function(
        "ceil", "ceil(number)", 1, 1, _to_whole, fallible=True, null_with_arguments=True, aliases=("ceiling",),
        description="The nearest integer that is not less than the number", example="ceil(-42.8)", result="-42",
    ),
    Function(
        "round", "round(number [, digits])", 1, 2, _round, calls=("round", "round_per_row"),
        fallible=True, null_with_arguments=True,
        description="The number rounded to n digits after the point (by default 0; a negative n rounds to tens or "
            "hundreds); exact numbers are rounded half away from zero, DOUBLEs half to even",
        example="round(42.4382, 2)", result="42.44",
    ),
    Function(
        "mod", "mod(number, number)", 2, 2, _modulo,
        description="The remainder, with the sign of the first number; also %", example="mod(-9, 4)", result="-1",
    ),
    Function(
        "sqrt", "sqrt(number)", 1, 1, of_doubles, fallible=True,
        description="The square root", example="sqrt(2)", result="1.4142135623730951",
    ),
    Function(
        "exp", "exp(number)", 1, 1, of_doubles, fallible=True,
        description="e to the power of the number", example="exp(1)", result="2.718281828459045",
    ),
    Function(
        "ln", "ln(number)", 1, 1, of_doubles, fallible=True,
        description="The natural logarithm", example="ln(2)", result="0.6931471805599453",
    ),
    Function(
        "log10", "log10(number)", 1, 1, of_doubles, fallible=True,
        description="The logarithm to base 10", example="log10(100)", result="2",
    ),
    Function(
        "power", "power(number, exponent)", 2, 2, of_doubles, fallible=True, aliases=("pow",),
        description="The number raised to a power", example="power(9, 3)", result="729",
    ),
    Function(
        "trunc", "trunc(number [, digits])", 1, 2, _trunc, fallible=True, aliases=("truncate",),
        description="The number truncated, not rounded, to n digits after the point (by default 0)",
        example="trunc(42.4382, 2)", result="42.43",
    ),
    Function(
        "div", "div(number, number)", 2, 2, _quotient, calls=("div", "whole_quotient", "trunc"),
        description="The quotient, truncated to an integer", example="div(9.5, 4)", result="2",
    ),
    _function_of_double("cbrt", "The cube root", "cbrt(64.0)", "4"),
    Function(
        "log", "log([base,] number)", 1, 2, _logarithm, fallible=True, calls=("log", "log10"),
        description="The logarithm to base 10, or to the base given first", example="log(2, 64)", result="6",
    ),
    _function_of_double("log2", "The logarithm to base 2", "log2(8)", "3", fallible=True),
    _function_of_double("sin", "The sine of an angle in radians", "sin(1)", "0.8414709848078965", fallible=True),
    _function_of_double("cos", "The cosine of an angle in radians", "cos(0)", "1", fallible=True),
    _function_of_double("tan", "The tangent of an angle in radians", "tan(1)", "1.5574077246549023", fallible=True),
    _function_of_double("cot", "The cotangent of an angle in radians", "cot(0.5)", "1.830487721712452", fallible=True),
    _function_of_double(
        "asin", "The inverse sine, in radians", "asin(1)", "1.5707963267948966", fallible=True
    ),
    _function_of_double("acos", "The inverse cosine, in radians", "acos(1)", "0", fallible=True),
    _function_of_double("atan", "The inverse tangent, in radians", "atan(1)", "0.7853981633974483"),
    Function(
        "atan2", "atan2(y, x)", 2, 2, of_doubles,
        description="The angle of the point (x, y), in radians", example="atan2(1, 0)", result="1.5707963267948966",
    ),
    _function_of_double("sinh", "The hyperbolic sine", "sinh(1)", "1.1752011936438014", fallible=True),
    _function_of_double("cosh", "The hyperbolic cosine", "cosh(0)", "1", fallible=True),
    _function_of_double("tanh", "The hyperbolic tangent", "tanh(1)", "0.7615941559557649"),
    _function_of_double("asinh", "The inverse hyperbolic sine", "asinh(1)", "0.881373587019543"),
    _function_of_double("acosh", "The inverse hyperbolic cosine", "acosh(1)", "0", fallible=True),
    _function_of_double("atanh", "The inverse hyperbolic tangent", "atanh(0)", "0", fallible=True),
    _function_of_double("degrees", "Radians converted to degrees", "degrees(0.5)", "28.64788975654116", fallible=True),
    _function_of_double("radians", "Degrees converted to radians", "radians(45.0)", "0.7853981633974483"),
    Function(
        "pi", "pi()", 0, 0, _pi, calls=(),
        description="The number pi", example="pi()", result="3.141592653589793",
    ),
    Function(
        "gcd", "gcd(integer, integer)", 2, 2, _same_integers, fallible=True,
        description="The greatest common divisor", example="gcd(1071, 462)", result="21",
    ),
    Function(
        "lcm", "lcm(integer, integer)", 2, 2, _same_integers, fallible=True,
        description="The least common multiple", example="lcm(1071, 462)", result="23562",
    ),
    Function(
        "factorial", "factorial(integer)", 1, 1, _factorial, fallible=True,
        description="The factorial, up to 33!", example="factorial(5)", result="120",
    ),
    Function(
        "width_bucket", "width_bucket(number, low, high, count)", 4, 4, _bucket, fallible=True,
        description="The bucket of the number, if low to high is divided into count equal buckets: 0 below, "
            "count + 1 above",
        example="width_bucket(5.35, 0.024, 10.06, 5)", result="3",
    ),
    Function(
        "hash_bucket", "hash_bucket(buckets, seed, column, ...)", 3, None, _hash_bucket,
        description="The bucket of a HASH partition, as nyala_catalog.partitions writes it: a scan under "
            "hash_bucket(...) = n reads the tablets of that bucket",
        example="hash_bucket(4, 0, 'h1')", result="3",
    ),
    Function(
        "random", "random()", 0, 0, _random, volatile=True,
        description="A random DOUBLE of at least 0 and less than 1, a different one in each row",
        example="random() < 1", result="true",
    ),
    Function(
        "isnan", "isnan(number)", 1, 1, _of_float,
        description="True if the number is NaN", example="isnan(CAST('NaN' AS DOUBLE))", result="true",
    ),
    Function(
        "isinf", "isinf(number)", 1, 1, _of_float,
        description="True if the number is infinite", example="isinf(CAST('-Infinity' AS DOUBLE))", result="true",
    ),
    Function(
        "isfinite", "isfinite(number)", 1, 1, _of_float,
        description="True if the number is neither infinite nor NaN", example="isfinite(1.5)", result="true",
    ),
)  # fmt: skip
