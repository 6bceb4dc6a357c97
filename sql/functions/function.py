"""The record of one function, and helpers for the calls that functions are built into."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from ...model.types import BIGINT, INTERVAL, DataType
from ..expressions import Call, Expr

Args: TypeAlias = tuple[Expr, ...]
Builder: TypeAlias = Callable[["Function", Args], Expr]
"""Makes the bound node for arguments of the right number; raises `TypeMismatch` if their types are not accepted."""


@dataclass(frozen=True, slots=True)
class Function:
    """One callable function name, with its documentation.

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
    strict : NULL if any argument is NULL
    volatile : a different value at every call, so that it is neither folded nor moved
    """

    name: str
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
    strict: bool = True
    volatile: bool = False

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
    """A strict call: NULL if any argument is NULL."""
    return Call(type_, any(arg.nullable for arg in args), name, args)
