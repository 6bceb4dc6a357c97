r"""Arithmetic and functions of numbers.

Integers: Spark's own operators in ANSI mode, where overflow and division by zero are errors; both operands have the
result's type already. `/` is `DIV`.

DECIMALs: the result is cast to nyala's type. Spark computes in its own type, which must hold nyala's result to the last
digit; with `spark.sql.decimalOperations.allowPrecisionLoss=false` it does for + - * %. For a quotient, Spark derives
the scale by a rule (`_quotient_scale`); rounding to it and again to fewer digits would round twice. So the operands are
first cast to precisions for which the rule gives exactly nyala's scale:

    DECIMAL(38,4) / DECIMAL(38,4) -> DECIMAL(38,16)      CAST(a AS DECIMAL(38,4)) / CAST(b AS DECIMAL(29,4))

If that leaves an operand too few integer digits, both are made whole numbers first, by removing the points from their
texts. That changes the rule's outcome, but not the quotient. (Spark's type of a product with a power of ten is too
narrow for it.)

    DECIMAL(38,16) / DECIMAL(38,16) -> DECIMAL(38,16)    ... / CAST(b AS DECIMAL(17,16)): one digit before the point
                                                         a * 10^16 / b * 10^16 as DECIMAL(38,0) / DECIMAL(33,0)

If an operand is narrowed all the same, a value that does not fit is an error, never a wrong result.

Floats: in Spark, + - * / overflow to Infinity, while nyala raises an error. For a whole tree of such operators the
result is checked once, and the leaves only if the result is not finite.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache

from sqlglot import exp

from ....model.lazy_dataclass import dataclass
from ....model.types import DECIMAL, DOUBLE, MAX_PRECISION, STRING, DataType
from ....sql.expressions import Call, Cast, Expr, Literal
from .tree import (
    Tree,
    again,
    both,
    call,
    case,
    cast,
    closed,
    either,
    error,
    infix,
    less,
    negated,
    not_supported,
    number,
    string,
)

Writer = Callable[[Call, list[Tree]], Tree]

INFINITY = "Infinity"
_INFIX: Mapping[str, type[exp.Binary]] = {
    "add": exp.Add,
    "sub": exp.Sub,
    "mul": exp.Mul,
    "div": exp.Div,
    "mod": exp.Mod,
}


# ---- exact numbers ---------------------------------------------------------------------------------------------------


def _arithmetic(expr: Call, args: list[Tree]) -> Tree:
    """add, sub, mul, mod, div of numbers; those of dates are in `dates`."""
    from . import dates

    if not expr.type.is_numeric or not all(arg.type.is_numeric for arg in expr.args):
        return dates.arithmetic(expr, args)
    name = expr.function
    if expr.type.is_decimal:
        if name == "div":
            return quotient(args[0], expr.args[0].type, args[1], expr.args[1].type, expr.type)
        return cast(infix(_INFIX[name], *args), expr.type)
    if name == "div" and expr.type.is_integer:
        return cast(infix(exp.IntDiv, *args), expr.type)
    return infix(_INFIX[name], *args)


def quotient(left: Tree, left_type: DataType, right: Tree, right_type: DataType, result: DataType) -> Tree:
    """left / right with nyala's rounding: once, at the result's scale."""
    assert result.scale is not None
    operands = operand_types(left_type, right_type, result.scale)
    if operands is None:
        raise not_supported(f"{left_type} / {right_type}")
    divided = infix(
        exp.Div, _operand(left, operands.left, operands.shift), _operand(right, operands.right, operands.shift)
    )
    return cast(divided, result)


def _operand(operand: Tree, type_: DataType, shift: int) -> Tree:
    """An operand in its type, multiplied by 10 to the power of `shift`."""
    if not shift:
        return cast(operand, type_)
    assert type_.precision is not None
    text = cast(cast(operand, DECIMAL(type_.precision, shift)), STRING)
    return cast(call("replace", text, string("."), string("")), type_)


def _quotient_scale(left: DataType, right: DataType) -> int:
    """The scale of left / right in Spark without precision loss (`DecimalPrecision` in its source)."""
    assert left.precision and right.precision and left.scale is not None and right.scale is not None
    whole = min(MAX_PRECISION, left.precision - left.scale + right.scale)
    scale = min(MAX_PRECISION, max(6, left.scale + right.precision + 1))
    surplus = whole + scale - MAX_PRECISION
    return scale - (surplus // 2 + 1) if surplus > 0 else scale


@dataclass(frozen=True, slots=True)
class Operands:
    """The types of a quotient's operands; with a `shift`, both are whole numbers, multiplied by 10 to its power."""

    left: DataType
    right: DataType
    shift: int = 0


@lru_cache(maxsize=1024)
def operand_types(left: DataType, right: DataType, scale: int) -> Operands | None:
    """The operand types whose quotient has exactly `scale` digits after the point in Spark.

    Those that narrow an operand least are chosen; scales are kept if nothing is lost by that.
    """
    assert left.scale is not None and right.scale is not None
    best, least = None, (math.inf, math.inf)
    for shift in (0, max(left.scale, right.scale)):
        for candidate in _operands(left.scale, right.scale, shift, scale):
            lost = _lost(left, candidate.left, shift), _lost(right, candidate.right, shift)
            if (max(lost), sum(lost)) < least:
                best, least = candidate, (max(lost), sum(lost))
        if least == (0, 0):
            break
    return best


def _operands(left: int, right: int, shift: int, scale: int) -> Iterator[Operands]:
    """All precisions of operands with these scales whose quotient has `scale`."""
    one, other = (0, 0) if shift else (left, right)
    for p in range(MAX_PRECISION, max(one, shift, 1) - 1, -1):
        for q in range(MAX_PRECISION, max(other, shift, 1) - 1, -1):
            if _quotient_scale(DECIMAL(p, one), DECIMAL(q, other)) == scale:
                yield Operands(DECIMAL(p, one), DECIMAL(q, other), shift)


def _lost(type_: DataType, narrowed: DataType, shift: int) -> int:
    """The number of integer digits that an operand loses."""
    assert type_.precision and narrowed.precision and type_.scale is not None and narrowed.scale is not None
    return max(0, (type_.precision - type_.scale) - (narrowed.precision - narrowed.scale - shift))


# ---- floats ----------------------------------------------------------------------------------------------------------


def guard(expr: Call, write: Callable[[Expr], Tree]) -> Tree | None:
    """A tree of + - * / over floats, with an error if finite numbers give an infinite one; None for other calls."""
    if not _is_float_arithmetic(expr):
        return None
    leaves: list[Tree] = []

    def plain(part: Expr) -> Tree:
        if isinstance(part, Call) and _is_float_arithmetic(part):
            return infix(_INFIX[part.function], *(plain(arg) for arg in part.args))
        tree = write(part)
        if not _is_finite(part):
            leaves.append(tree)
        return tree

    tree = plain(expr)
    return checked(tree, leaves, expr.type)


def checked(tree: Tree, inputs: list[Tree], type_: DataType) -> Tree:
    """The float, or an error if it is infinite or NaN although the inputs are finite."""
    overflow = [infix(exp.GTE, call("abs", again(tree)), _infinity())]
    overflow += [less(call("abs", again(one)), _infinity()) for one in inputs]
    return call("if", both(*overflow), error(f"the result is out of range for {type_}", type_), tree)


def _is_float_arithmetic(expr: Call) -> bool:
    return expr.function in ("add", "sub", "mul", "div") and expr.type.is_float


def _is_finite(expr: Expr) -> bool:
    if isinstance(expr, Literal):
        return expr.value is None or math.isfinite(expr.value)
    return isinstance(expr, Cast) and not expr.arg.type.is_float and not expr.arg.type.is_text


def _infinity() -> Tree:
    return cast(string(INFINITY), DOUBLE)


# ---- rounding --------------------------------------------------------------------------------------------------------


def _digits(expr: Call) -> int:
    """The constant number of digits of round and trunc; by default 0."""
    if len(expr.args) < 2:
        return 0
    digits = expr.args[1]
    if not isinstance(digits, Literal) or digits.value is None:
        raise not_supported(f"{expr.function}() to a number of digits that is not constant")
    return max(-38, min(38, int(digits.value)))


def _scaled(tree: Tree, digits: int, whole: Callable[[Tree], Tree]) -> Tree:
    """A function to whole numbers, applied at `digits` digits after the point of a DOUBLE."""
    if digits == 0:
        return whole(tree)
    factor = cast(string(f"1e{abs(digits)}"), DOUBLE)
    if digits < 0:
        return infix(exp.Mul, whole(infix(exp.Div, tree, factor)), again(factor))
    large = infix(exp.Mul, tree, factor)
    rounded = infix(exp.Div, whole(large), again(factor))
    return call("if", less(call("abs", again(large)), _infinity()), rounded, again(tree))


def _as_double(expr: Expr, tree: Tree) -> Tree:
    return tree if expr.type == DOUBLE else cast(tree, DOUBLE)


def _whole(name: str) -> Writer:
    """floor and ceil, which return BIGINTs for floats in Spark."""

    def write(expr: Call, args: list[Tree]) -> Tree:
        if not expr.type.is_float:
            return cast(call(name, args[0]), expr.type)
        return cast(_within_integers(args[0], lambda tree: call(name, tree)), expr.type)

    return write


def _within_integers(tree: Tree, whole: Callable[[Tree], Tree]) -> Tree:
    """A float whose fraction is removed through BIGINT; from 2**53 on there is none."""
    few = less(call("abs", again(tree)), cast(string("9007199254740992"), DOUBLE))
    return call("if", few, cast(whole(tree), DOUBLE), again(tree))


def _round(expr: Call, args: list[Tree]) -> Tree:
    digits = _digits(expr)
    if expr.type.is_float:
        tree = _as_double(expr.args[0], args[0])
        return cast(_scaled(tree, digits, lambda part: call("rint", part)), expr.type)
    return cast(call("round", args[0], number(digits)), expr.type)


def _trunc(expr: Call, args: list[Tree]) -> Tree:
    digits = _digits(expr)
    if expr.type.is_float:
        tree = _as_double(expr.args[0], args[0])
        return cast(_scaled(tree, digits, _cut), expr.type)
    up, down = call("ceil", again(args[0]), number(digits)), call("floor", again(args[0]), number(digits))
    return cast(call("if", less(args[0], number(0)), up, down), expr.type)


def _cut(tree: Tree) -> Tree:
    return _within_integers(tree, lambda part: cast(part, "BIGINT"))


def _whole_quotient(expr: Call, args: list[Tree]) -> Tree:
    """whole_quotient: the dividend without its remainder, divided exactly."""
    left, right = args
    rest = infix(exp.Sub, left, infix(exp.Mod, again(left), again(right)))
    return cast(infix(exp.Div, rest, right), expr.type)


# ---- functions of floats ---------------------------------------------------------------------------------------------


def _double(
    name: str, refused: Callable[[Tree], Tree] | None = None, what: str = "", overflows: bool = False
) -> Writer:
    """A function of a DOUBLE, with an error if it is undefined or overflows."""

    def write(expr: Call, args: list[Tree]) -> Tree:
        result = call(name, again(args[0]))
        if overflows:
            result = checked(result, [args[0]], expr.type)
        if refused is None:
            return result
        return call("if", refused(args[0]), error(f"{what} is not defined", expr.type), result)

    return write


def _constant(value: str) -> Tree:
    return cast(string(value), DOUBLE)


def _not_positive(tree: Tree) -> Tree:
    return infix(exp.LTE, again(tree), number(0))


def _outside_one(tree: Tree) -> Tree:
    return both(infix(exp.GT, call("abs", again(tree)), number(1)), negated(call("isnan", again(tree))))


def _not_inside_one(tree: Tree) -> Tree:
    return both(infix(exp.GTE, call("abs", again(tree)), number(1)), negated(call("isnan", again(tree))))


def _is_infinite(tree: Tree) -> Tree:
    return infix(exp.EQ, call("abs", again(tree)), _infinity())


_LOG = (_not_positive, "the logarithm of zero or a negative number")
_ANGLE = (_is_infinite, "an angle function of infinity")


def _log(expr: Call, args: list[Tree]) -> Tree:
    """log to a base: the quotient of two natural logarithms."""
    base, of = (_double("ln", *_LOG)(expr, [arg]) for arg in args)
    return checked(infix(exp.Div, of, base), args, expr.type)


def _power(expr: Call, args: list[Tree]) -> Tree:
    base, exponent = args
    bad = either(
        both(infix(exp.EQ, again(base), number(0)), less(again(exponent), number(0))),
        both(less(again(base), number(0)), infix(exp.NEQ, again(exponent), call("rint", again(exponent)))),
    )
    power = checked(call("power", again(base), again(exponent)), [base, exponent], expr.type)
    return call("if", bad, error("such a power is not defined", expr.type), power)


def _width_bucket(expr: Call, args: list[Tree]) -> Tree:
    value, low, high, count = args
    missing = either(*(exp.Is(this=closed(again(arg)), expression=exp.null()) for arg in args))
    up = less(again(low), again(high))
    below = call("if", again(up), less(again(value), again(low)), infix(exp.GT, again(value), again(low)))
    beyond = call("if", up, infix(exp.GTE, again(value), again(high)), infix(exp.LTE, again(value), again(high)))
    distance = call("abs", infix(exp.Sub, value, again(low)))
    size = call("abs", infix(exp.Sub, again(high), again(low)))
    place = call("floor", infix(exp.Div, infix(exp.Mul, distance, count), size))
    last = infix(exp.Add, again(count), number(1))
    found = case(
        (missing, exp.null()),
        (infix(exp.LTE, again(count), number(0)), error("width_bucket needs a number of buckets above 0", "BIGINT")),
        (infix(exp.EQ, again(low), again(high)), error("width_bucket needs bounds that differ", "BIGINT")),
        (below, number(0)),
        (beyond, again(last)),
        default=call("least", infix(exp.Add, place, number(1)), last),
    )
    return cast(found, expr.type)


# ---- bits and whole numbers ------------------------------------------------------------------------------------------


def _shift(name: str) -> Writer:
    """A shift within the width of the type; the distance is taken modulo the width."""

    def write(expr: Call, args: list[Tree]) -> Tree:
        bits = 8 * expr.type.dtype.itemsize
        steps = cast(call("pmod", args[1], number(bits)), "INT")
        value = args[0] if bits >= 32 else cast(args[0], "INT")
        shifted = call("shiftleft" if name == "shift_left" else "shiftright", value, steps)
        if bits >= 32 or name == "shift_right":
            return cast(shifted, expr.type)
        half = 1 << (bits - 1)
        wrapped = call("pmod", infix(exp.Add, shifted, number(half)), number(2 * half))
        return cast(infix(exp.Sub, wrapped, number(half)), expr.type)

    return write


_EXACT_DIGITS = 34
"""Precision to which Spark's unary minus and abs() round DECIMALs (`scala.math.BigDecimal.unary_-`)."""


def _is_rounded(expr: Call) -> bool:
    return expr.args[0].type.is_decimal and (expr.args[0].type.precision or 0) > _EXACT_DIGITS


def _neg(expr: Call, args: list[Tree]) -> Tree:
    if not _is_rounded(expr):
        return exp.Neg(this=exp.Paren(this=args[0]))
    digits = cast(args[0], STRING)
    return _signed(digits, call("concat", string("-"), again(digits)), expr.type)


def _abs(expr: Call, args: list[Tree]) -> Tree:
    if not _is_rounded(expr):
        return call("abs", args[0])
    digits = cast(args[0], STRING)
    return _signed(digits, again(digits), expr.type)


def _signed(digits: Tree, other: Tree, type_: DataType) -> Tree:
    """A number from its digits: without the sign if it is negative, else from `other`."""
    bare = call("substring", again(digits), number(2))
    return cast(call("if", call("startswith", digits, string("-")), bare, other), type_)


def _factorial(expr: Call, args: list[Tree]) -> Tree:
    """factorial, by table up to 33!: Spark's own ends at 20!."""
    known = call("array", *(string(str(math.factorial(n))) for n in range(34)))
    wrong = either(less(again(args[0]), number(0)), infix(exp.GT, again(args[0]), number(33)))
    place = cast(infix(exp.Add, again(args[0]), number(1)), "INT")
    refused = error("the factorial of a number below 0 or above 33 has no value", expr.type)
    return call("if", wrong, refused, cast(call("element_at", known, place), expr.type))


def _bitwise(kind: type[exp.Binary]) -> Writer:
    return lambda expr, args: infix(kind, *args)


WRITERS: Mapping[str, Writer] = {
    **dict.fromkeys(_INFIX, _arithmetic),
    "neg": _neg,
    "abs": _abs,
    "sign": lambda expr, args: cast(
        call("signum", call("nanvl", args[0], number(0)) if expr.args[0].type.is_float else args[0]), expr.type
    ),
    "floor": _whole("floor"),
    "ceil": _whole("ceil"),
    "round": _round,
    "trunc": _trunc,
    "whole_quotient": _whole_quotient,
    "sqrt": _double("sqrt", lambda tree: less(again(tree), number(0)), "the square root of a negative number"),
    "cbrt": _double("cbrt"),
    "exp": _double("exp", overflows=True),
    "ln": _double("ln", *_LOG),
    "log10": _double("log10", *_LOG),
    "log2": _double("log2", *_LOG),
    "log": _log,
    "power": _power,
    "sin": _double("sin", *_ANGLE),
    "cos": _double("cos", *_ANGLE),
    "tan": _double("tan", *_ANGLE),
    "cot": _double("cot", *_ANGLE, overflows=True),
    "asin": _double("asin", _outside_one, "the arc sine of a number outside -1 to 1"),
    "acos": _double("acos", _outside_one, "the arc cosine of a number outside -1 to 1"),
    "atan": _double("atan"),
    "atan2": lambda expr, args: call("atan2", *args),
    "sinh": _double("sinh", overflows=True),
    "cosh": _double("cosh", overflows=True),
    "tanh": _double("tanh"),
    "asinh": _double("asinh"),
    "acosh": _double(
        "acosh", lambda tree: less(again(tree), number(1)), "the inverse hyperbolic cosine of a number below 1"
    ),
    "atanh": _double("atanh", _not_inside_one, "the inverse hyperbolic tangent of a number outside -1 to 1"),
    "degrees": _double("degrees", overflows=True),
    "radians": _double("radians"),
    "isnan": lambda expr, args: infix(exp.EQ, args[0], _constant("NaN")),
    "isinf": lambda expr, args: _is_infinite(args[0]),
    "isfinite": lambda expr, args: less(call("abs", args[0]), _infinity()),
    "bitwise_and": _bitwise(exp.BitwiseAnd),
    "bitwise_or": _bitwise(exp.BitwiseOr),
    "bitwise_xor": _bitwise(exp.BitwiseXor),
    "bitwise_not": lambda expr, args: exp.BitwiseNot(this=closed(args[0])),
    "shift_left": _shift("shift_left"),
    "shift_right": _shift("shift_right"),
    "factorial": _factorial,
    "width_bucket": _width_bucket,
    "random": lambda expr, args: call("rand"),
}

REFUSED: Mapping[str, str] = {
    "gcd": "Spark has none",
    "hash_bucket": "Spark hashes by another encoding of the values",
    "limit_after": "Spark has it in frames alone, where windows writes it",
    "limit_before": "Spark has it in frames alone, where windows writes it",
    "lcm": "Spark has none",
    "round_per_row": "Spark rounds to a constant number of digits",
}
