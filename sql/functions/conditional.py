"""Functions that select among values."""

from __future__ import annotations

from ...model.types import BOOLEAN, Kind
from ..coercion import comparands, unify
from ..expressions import Call, Case, Expr, Literal
from .arguments import refuse, truth
from .function import Args, Function, call, comparable


def _coalesce(function: Function, args: Args) -> Expr:
    target, found = unify(args, f"the arguments of {function.name} are of types")
    if len(found) == 1:
        return found[0]
    return Call(target, all(arg.nullable for arg in found), "coalesce", found)


def _extreme(function: Function, args: Args) -> Expr:
    target, found = unify(args, f"the arguments of {function.name} are of types")
    if target.kind is Kind.INTERVAL:
        raise refuse(function, found[0])
    return Call(target, all(arg.nullable for arg in found), function.name, found)


def _if(function: Function, args: Args) -> Expr:
    target, (then, otherwise) = unify(args[1:], f"the values of {function.name} are of types")
    return Case(target, then.nullable or otherwise.nullable, ((truth(function, args[0]), then),), otherwise)


def _nvl2(function: Function, args: Args) -> Expr:
    target, (present, absent) = unify(args[1:], "the values of nvl2 are of types")
    missing = Call(BOOLEAN, False, "is_null", (args[0],))
    return Case(target, present.nullable or absent.nullable, ((missing, absent),), present)


def _nullif(function: Function, args: Args) -> Expr:
    _, (left, right) = comparands(args[0], args[1], "nullif cannot compare")
    same = call(BOOLEAN, "eq", comparable(left), comparable(right))
    kept = args[0] if args[0].type.kind is not Kind.NULL else left
    return Case(kept.type, True, ((same, Literal(kept.type, True, None)),), kept)


CONDITIONAL = (
    Function(
        "coalesce", "coalesce(value, ...)", 1, None, _coalesce, cheap=True, skips_nulls=True,
        description="The first value that is not NULL", example="coalesce(NULL, 2, 3)", result="2",
    ),
    Function(
        "nullif", "nullif(value, value)", 2, 2, _nullif, calls=("eq",),
        description="NULL if the two are equal, otherwise the first", example="nullif(3, 3)", result="NULL",
    ),
    Function(
        "greatest", "greatest(value, ...)", 1, None, _extreme, skips_nulls=True,
        description="The largest value; NULLs are ignored", example="greatest(1, NULL, 3)", result="3",
    ),
    Function(
        "least", "least(value, ...)", 1, None, _extreme, skips_nulls=True,
        description="The smallest value; NULLs are ignored", example="least(1, NULL, 3)", result="1",
    ),
    Function(
        "if", "if(condition, then, otherwise)", 3, 3, _if, calls=(), aliases=("iif",),
        description="The second value if the condition is true, otherwise the third", example="if(2 > 1, 'yes', 'no')",
        result="yes",
    ),
    Function(
        "ifnull", "ifnull(value, instead)", 2, 2, _coalesce, calls=("coalesce",), aliases=("nvl",),
        description="The value, or the other one if it is NULL", example="ifnull(NULL, 2)", result="2",
    ),
    Function(
        "nvl2", "nvl2(value, present, absent)", 3, 3, _nvl2, calls=("is_null",),
        description="The second value if the first is not NULL, otherwise the third",
        example="nvl2(NULL, 1, 2)", result="2",
    ),
)  # fmt: skip
