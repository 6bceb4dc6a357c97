"""The records of operations and functions, and helpers for the calls that functions are built into."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY
from typing import TypeAlias

from ...model.lazy_dataclass import dataclass
from ...model.types import BIGINT, INTERVAL, DataType
from ..expressions import Call, Expr

Args: TypeAlias = tuple[Expr, ...]
Builder: TypeAlias = Callable[["Function", Args], Expr]
"""Makes the bound node for arguments of the right number; raises `TypeMismatch` if their types are not accepted."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One canonical name of `Call` nodes, with the facts that planner and executor use of its calls.

    Attributes
    ----------
    volatile : a different value at every call, so that it is not folded, moved, shared or omitted
    fallible : may raise an error for a row (division by zero, out of range), so that it is not computed for rows that
        do not need it: branches of a CASE not taken, rows that an earlier condition filtered out. `test_fallible` calls
        all functions to find them.
    fails_at_limits_only : fallible, but only for numbers near the limits of their type or texts of a negative length
    overflows : may raise an error for a row if the result's type does not hold every result of the operands' types
    cheap : its kernel costs about as much as a look-up per row
    skips_nulls : may have a value if an argument is NULL; all others are NULL then
    null_with_arguments : NULL if an argument is NULL, and only then
    """

    name: str
    _: KW_ONLY
    volatile: bool = False
    fallible: bool = False
    fails_at_limits_only: bool = False
    overflows: bool = False
    cheap: bool = False
    skips_nulls: bool = False
    null_with_arguments: bool = False


@dataclass(frozen=True, slots=True)
class Function(Operation):
    """One callable function name, with its documentation.

    The facts that it has as an `Operation` are those of the calls that have its name, if it is built into such.

    Attributes
    ----------
    signature : syntax of a call, for display
    least, most : number of arguments; `most` None is any number
    kind : "scalar", "aggregate", "window" or "table"
    category : heading in the documentation
    description : one sentence without its full stop
    example : an expression, or a whole query that starts with SELECT
    result : the example's result, as the shell shows it; NULL for NULL; values by comma, rows by semicolon
    aliases : other names of the same function
    calls : canonical names of the `Call` or `Aggregate` nodes it is built into, which an executor must implement; None
        for its own name
    zero_over_nothing : an aggregate that is 0 over no rows; the others are NULL
    always_defined : an aggregate that is not NULL over one row or more without NULLs
    order_sensitive : an aggregate whose result depends on ORDER BY inside the call
    ignores_duplicates : an aggregate that is the same however often a value occurs
    merges : an aggregate whose value over partial values is the value over all
    within_group : number of arguments before WITHIN GROUP; None for a function that is not written so
    reads_frame : a window function that reads the frame; the others read the whole partition
    takes_ignore_nulls : a window function that takes IGNORE NULLS
    """

    signature: str
    least: int
    most: int | None
    build: Builder
    kind: str = "scalar"
    category: str = ""
    description: str = ""
    example: str = ""
    result: str = ""
    aliases: tuple[str, ...] = ()
    calls: tuple[str, ...] | None = None
    zero_over_nothing: bool = False
    always_defined: bool = False
    order_sensitive: bool = False
    ignores_duplicates: bool = False
    merges: bool = False
    within_group: int | None = None
    reads_frame: bool = False
    takes_ignore_nulls: bool = False

    @property
    def aggregate(self) -> bool:
        """True if it is computed over the rows of a group."""
        return self.kind == "aggregate"

    @property
    def canonical(self) -> tuple[str, ...]:
        """The names of the nodes that its calls become."""
        return (self.name,) if self.calls is None else self.calls


def comparable(expr: Expr) -> Expr:
    """The value to compare in place of another: an INTERVAL's length, where a month is 30 days and a day 24 hours."""
    return call(BIGINT, "interval_length", expr) if expr.type == INTERVAL else expr


def call(type_: DataType, name: str, *args: Expr) -> Call:
    """A call that may be NULL if an argument may be NULL."""
    return Call(type_, any(arg.nullable for arg in args), name, args)
