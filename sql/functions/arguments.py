"""Checks and conversions of arguments for builders: text, whole number, number, truth value, moment, quoted unit.

Each takes the function, the argument and its position (from 0), and returns the argument, with a bare NULL or a quoted
text converted. `TypeMismatch` names the argument and shows the function's signature.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import TypeMismatch
from ...model.types import BIGINT, BOOLEAN, DATE, DOUBLE, STRING, TIMESTAMP, DataType, Kind
from ..coercion import cast, convert, fit, is_text_literal
from ..expressions import Expr, Literal
from .function import Args, Builder, Function, call


def refuse(function: Function, arg: Expr, position: int = 0) -> TypeMismatch:
    """The error for an argument of a wrong type."""
    which = f"the argument of {function.name}" if function.most == 1 else f"argument {position + 1} of {function.name}"
    return TypeMismatch(f"{which} cannot be of type {arg.type}; it is {function.signature}")


def text(function: Function, arg: Expr, position: int = 0) -> Expr:
    """A STRING."""
    if arg.type.kind is Kind.NULL:
        return convert(arg, STRING)
    if arg.type.kind is not Kind.STRING:
        raise refuse(function, arg, position)
    return arg


def whole(function: Function, arg: Expr, position: int = 0) -> Expr:
    """An integer, as BIGINT."""
    if isinstance(arg, Literal) and (is_text_literal(arg) or arg.value is None):
        arg = fit(arg, BIGINT) or arg
    if not arg.type.is_integer:
        raise refuse(function, arg, position)
    return cast(arg, BIGINT)


def number(function: Function, arg: Expr, position: int = 0) -> Expr:
    """A number of any type; a quoted one is a DOUBLE."""
    if arg.type.kind is Kind.NULL or is_text_literal(arg):
        return convert(arg, DOUBLE)
    if not arg.type.is_numeric:
        raise refuse(function, arg, position)
    return arg


def truth(function: Function, arg: Expr, position: int = 0) -> Expr:
    """A BOOLEAN; a quoted one is converted."""
    if arg.type.kind is Kind.NULL or is_text_literal(arg):
        return convert(arg, BOOLEAN)
    if arg.type != BOOLEAN:
        raise refuse(function, arg, position)
    return arg


def moment(function: Function, arg: Expr, position: int = 0) -> Expr:
    """A DATE or TIMESTAMP; a quoted text is a DATE if it has the form of one, else a TIMESTAMP."""
    if arg.type.kind is Kind.NULL:
        return convert(arg, TIMESTAMP)
    if is_text_literal(arg):
        assert isinstance(arg, Literal)
        return convert(arg, DATE if len(str(arg.value).strip()) <= len("2026-01-31") else TIMESTAMP)
    if arg.type.kind not in (Kind.DATE, Kind.TIMESTAMP):
        raise refuse(function, arg, position)
    return arg


def unit(function: Function, arg: Expr, known: Sequence[str]) -> str:
    """A quoted unit out of `known`, which are in the singular; a plural is accepted too."""
    if not isinstance(arg, Literal) or not isinstance(arg.value, str):
        raise TypeMismatch(f"the first argument of {function.name} must be a quoted unit: {', '.join(known)}")
    word = arg.value.lower()
    found = word if word in known else word.removesuffix("s")
    if found not in known:
        raise TypeMismatch(f"{function.name} has no unit '{arg.value}'; it has {', '.join(known)}")
    return found


def of_texts(result: DataType) -> Builder:
    """A builder: all arguments are texts."""
    return lambda function, args: call(
        result, function.name, *(text(function, arg, position) for position, arg in enumerate(args))
    )


def of_text_and_integers(result: DataType = STRING) -> Builder:
    """A builder: a text, then integers."""

    def build(function: Function, args: Args) -> Expr:
        rest = (whole(function, arg, position) for position, arg in enumerate(args[1:], 1))
        return call(result, function.name, text(function, args[0]), *rest)

    return build


def of_doubles(function: Function, args: Args) -> Expr:
    """Numbers, computed with as DOUBLEs."""
    doubles = (cast(number(function, arg, position), DOUBLE) for position, arg in enumerate(args))
    return call(DOUBLE, function.name, *doubles)
