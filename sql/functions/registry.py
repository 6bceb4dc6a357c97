"""The registry of all functions by name; builds their calls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType

from ...errors import UnknownFunction, did_you_mean
from ..expressions import Call, Expr, walk
from .aggregates import AGGREGATE
from .arrays import ARRAYS
from .conditional import CONDITIONAL
from .dates import DATES
from .foreign_names import instead_of
from .function import Args, Function, Operation
from .numbers import NUMBERS
from .operators import INTERNAL, OPERATORS
from .system import SYSTEM
from .text import TEXT
from .windows import WINDOW


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
    *_under("array", ARRAYS),
    *_under("system", SYSTEM),
)
"""All functions, in the order of the documentation."""

REGISTRY: Mapping[str, Function] = MappingProxyType(
    {name: function for function in FUNCTIONS for name in (function.name, *function.aliases)}
)
"""Every callable function, by its names in lower case."""

AGGREGATES: Mapping[str, Function] = MappingProxyType(
    {f.name: f for f in FUNCTIONS if f.kind == "aggregate" and f.name in f.canonical}
)
"""Functions of `Aggregate` nodes, by canonical name."""

OPERATIONS: Mapping[str, Operation] = MappingProxyType(
    {
        **{f.name: f for f in FUNCTIONS if f.kind == "scalar" and f.name in f.canonical},
        **{operation.name: operation for operation in INTERNAL},
        **OPERATORS,
    }
)
"""Operations of `Call` nodes, by canonical name, all of which an executor must implement."""


def is_volatile(expr: Expr) -> bool:
    """True if the expression has a different value at every call, so that it must be computed once and in place."""
    return any(isinstance(node, Call) and OPERATIONS[node.function].volatile for node in walk(expr))


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
    check_count(function, name, args)
    return function.build(function, args)


def check_count(function: Function, name: str, args: Args) -> None:
    """Raises `UnknownFunction` if a function is called with too few or too many arguments."""
    if len(args) < function.least or (function.most is not None and len(args) > function.most):
        raise UnknownFunction(f"{name} was given {_count(len(args))}; it is {function.signature}")


def _count(n: int) -> str:
    return "no argument" if n == 0 else f"{n} argument{'s' if n > 1 else ''}"
