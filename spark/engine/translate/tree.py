"""Constructors of sqlglot nodes.

Names of functions and types pass through sqlglot unchanged (`Anonymous`), so that none of its rules for another dialect
applies. A node may have one parent only: an argument that is used twice is copied (`again`).
"""

from __future__ import annotations

from functools import lru_cache
from typing import TypeAlias

from sqlglot import exp

from ....errors import NotSupportedError, StatementTooComplex
from ....model.types import DataType, Kind
from ....sql.expressions import Column

Tree: TypeAlias = exp.Expression

DIALECT = "spark"

_NAMES = {
    Kind.BOOLEAN: "BOOLEAN",
    Kind.TINYINT: "TINYINT",
    Kind.SMALLINT: "SMALLINT",
    Kind.INT: "INT",
    Kind.BIGINT: "BIGINT",
    Kind.FLOAT: "FLOAT",
    Kind.DOUBLE: "DOUBLE",
    Kind.DATE: "DATE",
    Kind.TIMESTAMP: "TIMESTAMP_NTZ",
    Kind.STRING: "STRING",
    Kind.BINARY: "BINARY",
    Kind.INTERVAL: "STRUCT<months: INT, days: INT, microseconds: BIGINT>",
    Kind.NULL: "STRING",
}
"""An INTERVAL is a struct within a query: Spark's own intervals have either months or days and less."""


def not_supported(what: str) -> NotSupportedError:
    """The error for a construct that Spark SQL cannot express with nyala's semantics."""
    return NotSupportedError(f"{what} cannot be executed by Spark with nyala's semantics; use SET engine = nyala")


def spark_type(type_: DataType) -> str:
    """A type in Spark SQL.

    >>> from nyala.model.types import DECIMAL
    >>> spark_type(DECIMAL(15, 2))
    'DECIMAL(15, 2)'
    """
    if type_.is_decimal:
        return f"DECIMAL({type_.precision}, {type_.scale})"
    return _NAMES[type_.kind]


@lru_cache(maxsize=512)
def _parsed_type(name: str) -> exp.DataType:
    return exp.DataType.build(name, dialect=DIALECT)


def column_name(number: int) -> str:
    """The name of a plan's column in the text."""
    return f"c{number}"


def column(of: Column) -> Tree:
    return exp.column(column_name(of.id))


def named(tree: Tree, number: int) -> Tree:
    """`tree AS c<number>`; a column that already has that name is returned as it is."""
    name = column_name(number)
    if isinstance(tree, exp.Column) and tree.name == name:
        return tree
    return exp.alias_(tree, name)


def call(name: str, *args: Tree) -> Tree:
    return exp.Anonymous(this=name, expressions=list(args))


def again(tree: Tree) -> Tree:
    """A copy, for a second use."""
    copied: Tree = tree.copy()
    return copied


def cast(tree: Tree, type_: DataType | str) -> Tree:
    name = type_ if isinstance(type_, str) else spark_type(type_)
    return exp.Cast(this=tree, to=_parsed_type(name).copy())


def try_cast(tree: Tree, type_: DataType | str) -> Tree:
    name = type_ if isinstance(type_, str) else spark_type(type_)
    return exp.TryCast(this=tree, to=_parsed_type(name).copy(), safe=True)


def number(value: int) -> Tree:
    """An INT; larger ones are BIGINTs."""
    tree: Tree = exp.Literal(this=str(abs(value)), is_string=False)
    return exp.Paren(this=exp.Neg(this=tree)) if value < 0 else tree


def string(value: str) -> Tree:
    return exp.Literal.string(value)


def null(type_: DataType | str | None = None) -> Tree:
    return exp.null() if type_ is None else cast(exp.null(), type_)


_ATOMS = (exp.Column, exp.Literal, exp.Func, exp.Cast, exp.Case, exp.Paren, exp.Boolean, exp.Null, exp.Subquery)


def closed(tree: Tree) -> Tree:
    """The tree in parentheses, if an adjacent operator could bind a part of it."""
    loose = isinstance(tree, exp.Binary | exp.Connector | exp.Unary) and not isinstance(tree, exp.Paren)
    return tree if isinstance(tree, _ATOMS) and not loose else exp.Paren(this=tree)


def infix(kind: type[exp.Binary], left: Tree, right: Tree) -> Tree:
    """`left operator right`."""
    return kind(this=closed(left), expression=closed(right))


def both(*conditions: Tree) -> Tree:
    """The conjunction; TRUE of none."""
    return _chained(exp.And, conditions) if conditions else exp.true()


def either(*conditions: Tree) -> Tree:
    """The disjunction; FALSE of none."""
    return _chained(exp.Or, conditions) if conditions else exp.false()


def _chained(kind: type[exp.Binary], conditions: tuple[Tree, ...]) -> Tree:
    """A balanced tree, so that hundreds of conditions are not nested deeply."""
    if len(conditions) == 1:
        return conditions[0]
    middle = len(conditions) // 2
    return infix(kind, _chained(kind, conditions[:middle]), _chained(kind, conditions[middle:]))


def negated(condition: Tree) -> Tree:
    return exp.Not(this=closed(condition))


def is_null(tree: Tree) -> Tree:
    return exp.Is(this=closed(tree), expression=exp.null())


def is_not_null(tree: Tree) -> Tree:
    return negated(is_null(tree))


def equal(left: Tree, right: Tree) -> Tree:
    return infix(exp.EQ, left, right)


def less(left: Tree, right: Tree) -> Tree:
    return infix(exp.LT, left, right)


def minus(left: Tree, right: Tree) -> Tree:
    return infix(exp.Sub, left, right)


def plus(left: Tree, right: Tree) -> Tree:
    return infix(exp.Add, left, right)


def times(left: Tree, right: Tree) -> Tree:
    return infix(exp.Mul, left, right)


def case(*branches: tuple[Tree, Tree], default: Tree | None = None) -> Tree:
    ifs = [exp.If(this=condition, true=value) for condition, value in branches]
    return exp.Case(ifs=ifs, default=default)


def error(message: str, type_: DataType | str) -> Tree:
    """An expression of the type that raises an error when it is evaluated."""
    return cast(call("raise_error", string(message)), type_)


def text(tree: Tree) -> str:
    """The tree as Spark SQL; raises `StatementTooComplex` if it is nested too deeply."""
    try:
        written: str = tree.sql(DIALECT)
    except RecursionError:
        raise StatementTooComplex("the statement is nested too deeply for Spark SQL") from None
    return written
