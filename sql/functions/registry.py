"""The registry of all functions by name; builds their calls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType

from ...errors import UnknownFunction, did_you_mean
from ..expressions import Call, Expr, walk
from .aggregates import AGGREGATE
from .conditional import CONDITIONAL
from .dates import DATES
from .foreign_names import instead_of
from .function import Args, Function
from .numbers import NUMBERS
from .text import TEXT
from .windows import WINDOW

OPERATORS = frozenset(
    [
        *("add", "sub", "mul", "div", "mod", "neg"),
        *("eq", "ne", "lt", "le", "gt", "ge", "is_distinct", "saturated"),
        *("limit_before", "limit_after"),
        *("and", "or", "not", "is_null", "is_true", "is_false"),
        *("like", "ilike", "concat", "regexp_match", "regexp_imatch", "similar"),
        *("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not", "shift_left", "shift_right"),
        *("interval_add", "interval_sub", "interval_neg", "interval_mul", "interval_div"),
        *("interval_between", "interval_length"),
    ]
)
"""The calls that operators are bound into.

`like` and `ilike` escape with a backslash, `concat` takes two or more texts, `saturated` occurs below comparisons
(`coercion.comparands`) and in limits of window frames (`binding.expressions.windows`).
"""


def _under(category: str, functions: Iterable[Function]) -> list[Function]:
    """The functions of a heading, unless they have their own."""
    return [function if function.category else replace(function, category=category) for function in functions]


FUNCTIONS: tuple[Function, ...] = (
    *_under("text", TEXT),
    *_under("number", NUMBERS),
    *_under("date and time", DATES),
    *_under("conditional", CONDITIONAL),
    *_under("aggregate", AGGREGATE),
    *_under("window", WINDOW),
)
"""All functions, in the order of the documentation."""

REGISTRY: Mapping[str, Function] = MappingProxyType(
    {name: function for function in FUNCTIONS for name in (function.name, *function.aliases)}
)
"""Every callable function, by its names in lower case."""

AGGREGATES = frozenset(name for function in FUNCTIONS if function.kind == "aggregate" for name in function.canonical)
"""Canonical names of `Aggregate` nodes."""

SCALARS = OPERATORS | frozenset(
    name for function in FUNCTIONS if function.kind == "scalar" for name in function.canonical
)
"""Canonical names of `Call` nodes, all of which an executor must implement."""

VOLATILE = frozenset(name for function in FUNCTIONS if function.volatile for name in function.canonical)
"""Canonical names of calls with a different value each time: not to be folded, moved, shared or omitted."""


def is_volatile(expr: Expr) -> bool:
    """True if the expression has a different value at every call, so that it must be computed once and in place."""
    return any(isinstance(node, Call) and node.function in VOLATILE for node in walk(expr))


def look_up(name: str) -> Function:
    """The function of a name in lower case; `UnknownFunction` lists similar ones."""
    try:
        return REGISTRY[name]
    except KeyError:
        hint = instead_of(name) or did_you_mean(name, REGISTRY, "SHOW FUNCTIONS lists all, such as")
        raise UnknownFunction(f"function {name} does not exist{hint}") from None


def build(name: str, args: Args) -> Expr:
    """The bound call of a function; raises `UnknownFunction` or `TypeMismatch`, with its signature."""
    function = look_up(name)
    if len(args) < function.least or (function.most is not None and len(args) > function.most):
        raise UnknownFunction(f"{name} was given {_count(len(args))}; it is {function.signature}")
    return function.build(function, args)


def _count(n: int) -> str:
    return "no argument" if n == 0 else f"{n} argument{'s' if n > 1 else ''}"
