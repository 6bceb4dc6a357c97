"""A SELECT under construction.

    SELECT items           one per column: its expression, or the column of that name itself
    FROM source joins      relations, whose columns are all visible under their names
    WHERE where

Columns have names that are unique within a plan. So a join's condition or a filter above it needs no aliases, and a
filter over joins goes into their WHERE. Later operations (groups, windows, an order, a limit) close the SELECT: it
becomes a subquery in the FROM of the next.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from itertools import count

from sqlglot import exp

from ....model.lazy_dataclass import dataclass
from ....sql.expressions import Column
from .tree import Tree, both, column, column_name, named, number

NO_COLUMNS = "nothing"
"""Placeholder column of a relation without columns, whose rows are still counted."""


@dataclass(frozen=True)
class Block:
    """A SELECT under construction; see the module docstring.

    Attributes
    ----------
    columns : the output columns
    source : the relation after FROM, None for one row without columns
    items : their expressions in the same order; None if all are columns of `source` and `joins`
    finished : a whole query, which replaces everything except `columns`
    """

    columns: tuple[Column, ...]
    source: Tree | None = None
    joins: tuple[exp.Join, ...] = ()
    where: tuple[Tree, ...] = ()
    hints: tuple[Tree, ...] = ()
    items: tuple[Tree, ...] | None = None
    finished: exp.Query | None = field(default=None)

    @property
    def is_open(self) -> bool:
        """True if conditions and other items can be added."""
        return self.finished is None and self.items is None and self.source is not None

    @property
    def is_relation(self) -> bool:
        """True for a bare relation, which can be used in FROM by its alias."""
        return self.is_open and not (self.joins or self.where or self.hints)

    def filtered(self, condition: Tree) -> Block:
        return replace(self, where=(*self.where, condition))

    def query(self) -> exp.Query:
        """The whole query."""
        if self.finished is not None:
            return self.finished
        made = {of.id: tree for of, tree in zip(self.columns, self.items or ())}
        return self.selecting([named(made.get(of.id, column(of)), of.id) for of in self.columns])

    def selecting(self, items: Sequence[Tree]) -> exp.Select:
        """A SELECT of other items of this FROM and WHERE."""
        shown = list(items) or [exp.alias_(number(0), NO_COLUMNS)]
        statement = exp.Select(expressions=shown)
        if self.hints:
            statement.set("hint", exp.Hint(expressions=list(self.hints)))
        if self.source is not None:
            statement = statement.from_(self.source)
        for join in self.joins:
            statement.append("joins", join)
        if self.where:
            statement.set("where", exp.Where(this=both(*self.where)))
        return statement


def subquery(query: exp.Query, alias: str) -> exp.Subquery:
    return exp.Subquery(this=query, alias=exp.TableAlias(this=exp.to_identifier(alias)))


class Aliases:
    """Aliases that are unique within the statement."""

    def __init__(self) -> None:
        self._numbers: Iterator[int] = count(1)

    def next(self) -> str:
        return f"t{next(self._numbers)}"

    def nested(self, block: Block) -> Block:
        """The block as a relation of another one."""
        return Block(block.columns, source=subquery(block.query(), self.next()))

    def opened(self, block: Block) -> Block:
        """The block, nested if nothing can be added to it."""
        return block if block.is_open else self.nested(block)

    def relation(self, block: Block) -> tuple[Tree, str]:
        """The FROM item for the block, and its alias."""
        found = block if block.is_relation else self.nested(block)
        assert found.source is not None
        return found.source, found.source.alias


def values(columns: Sequence[Column], rows: Sequence[Sequence[Tree]], alias: str) -> Tree:
    """An inline table of constants."""
    names = [column_name(of.id) for of in columns] or [NO_COLUMNS]
    cells = [exp.Tuple(expressions=list(row) or [number(0)]) for row in rows]
    described = exp.TableAlias(this=exp.to_identifier(alias), columns=[exp.to_identifier(name) for name in names])
    return exp.Values(expressions=cells, alias=described)
