"""Binds the operators on bits, `& | # ~ << >>`, and the power `^`."""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from ....errors import TypeMismatch
from ....model.types import INT, INTEGER_WIDTHS, Kind
from ...coercion import cast, fit, is_text_literal
from ...expressions import Expr, Literal
from ...functions import build, call
from ..context import Frame

_NAMES = {exp.BitwiseAnd: ("bitwise_and", "&"), exp.BitwiseOr: ("bitwise_or", "|"),
          exp.BitwiseXor: ("bitwise_xor", "#"), exp.BitwiseNot: ("bitwise_not", "~"),
          exp.BitwiseLeftShift: ("shift_left", "<<"), exp.BitwiseRightShift: ("shift_right", ">>")}  # fmt: skip


def _bits(node: Any, frame: Frame) -> Expr:
    """A bit operator: two integers take the wider type; the distance of a shift is an INT."""
    name, symbol = _NAMES[type(node)]
    sides = [node.this] if isinstance(node, exp.BitwiseNot) else [node.this, node.expression]
    args = [_integer(frame.bind(side), symbol) for side in sides]
    if name.startswith("shift"):
        return call(args[0].type, name, args[0], cast(args[1], INT))
    target = max((arg.type for arg in args), key=lambda type_: INTEGER_WIDTHS[type_.kind])
    return call(target, name, *(cast(arg, target) for arg in args))


def _integer(arg: Expr, symbol: str) -> Expr:
    if isinstance(arg, Literal) and (is_text_literal(arg) or arg.type.kind is Kind.NULL):
        arg = fit(arg, INT) or arg
    if not arg.type.is_integer:
        raise TypeMismatch(f"{symbol} works on integers, not on a value of type {arg.type}")
    return arg


def _power(node: exp.Pow, frame: Frame) -> Expr:
    return build("power", (frame.bind(node.this), frame.bind(node.expression)))


HANDLERS: dict[type, Any] = {**dict.fromkeys(_NAMES, _bits), exp.Pow: _power}
