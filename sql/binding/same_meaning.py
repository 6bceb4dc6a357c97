"""Do two bound expressions mean the same, though each binding of a subquery gives its columns numbers of their own?

    GROUP BY m         (SELECT max(b#7) FROM u WHERE a#6 = t.a#2)      bound for GROUP BY
    SELECT ... AS m    (SELECT max(b#9) FROM u WHERE a#8 = t.a#2)      and again for the select list

Both are walked side by side. Columns that a query makes inside are paired, one with one: 6 with 8, 7 with 9. All others,
such as 2, come from outside, and must be the very same. So must be whatever is no column: tables, constants, parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import Field, dataclass, field, fields
from functools import cache
from typing import Any

from ..bound import (
    FileRef,
    Join,
    Query,
    Recursive,
    Select,
    SeriesRef,
    SetOperation,
    SubqueryRef,
    TableRef,
    Values,
    WorkingRef,
)
from ..expressions import SUBQUERIES, Column, Expr, OrderItem, walk

_MAKERS = (TableRef, FileRef, SubqueryRef, SeriesRef, WorkingRef, Values, SetOperation, Recursive)
"""Their `columns` are made there."""
_WALKED = (Expr, OrderItem, Query, Select, Join, *_MAKERS)


def same_meaning(one: Expr, other: Expr) -> bool:
    """Do they give the same value for each row? False where that cannot be told."""
    pairs = _Pairs()
    return pairs.same(one, other) and pairs.are_from_inside()


def known_or(expr: Expr, known: Sequence[Expr]) -> Expr:
    """The expression out of `known` that means the same, else the expression itself."""
    return next((each for each in known if same_meaning(each, expr)), expr)


def has_subquery(expr: Expr) -> bool:
    """Does a subquery stand in it?"""
    return any(isinstance(node, SUBQUERIES) for node in walk(expr))


@dataclass(slots=True)
class _Pairs:
    """Columns of one side with those of the other, by their numbers, and the keys of recursive queries so, too."""

    forth: dict[int, int] = field(default_factory=dict)
    back: dict[int, int] = field(default_factory=dict)
    made: set[int] = field(default_factory=set)
    """What the queries of the one side make. They are of one shape with the other's, so these are its partners."""
    queries: set[tuple[int, int]] = field(default_factory=set)
    """Queries found the same, by their `id`: a CTE is walked once, however often it is read."""

    def are_from_inside(self) -> bool:
        """Are all columns that differ made inside? A use may come before what makes it, so this is asked last."""
        return all(one == other or one in self.made for one, other in self.forth.items())

    def same(self, one: Any, other: Any) -> bool:
        """Are they equal but for the numbers of columns?"""
        if type(one) is not type(other):
            return False
        if isinstance(one, Column):
            return one.type == other.type and one.nullable == other.nullable and self._paired(one.id, other.id)
        if isinstance(one, tuple):
            return len(one) == len(other) and all(map(self.same, one, other))
        if not isinstance(one, _WALKED):
            return bool(one == other)
        if isinstance(one, Query):
            place = id(one), id(other)
            if place not in self.queries and self._same_parts(one, other):
                self.queries.add(place)
            return place in self.queries
        return self._same_parts(one, other)

    def _same_parts(self, one: Any, other: Any) -> bool:
        self._note_made(one)
        return all(self._same_part(part.name, one, other) for part in _compared(type(one)))

    def _same_part(self, name: str, one: Any, other: Any) -> bool:
        mine, theirs = getattr(one, name), getattr(other, name)
        if name == "key" and isinstance(one, Recursive | WorkingRef):
            self.made.add(mine)
            return self._paired(mine, theirs)
        return self.same(mine, theirs)

    def _note_made(self, part: Any) -> None:
        if isinstance(part, _MAKERS):
            self.made.update(column.id for column in part.columns)
        elif isinstance(part, Select):
            named = (*part.projection, *part.groups, *part.aggregates, *part.windows)
            self.made.update(column.id for column, _ in named)
            if part.set_number is not None:
                self.made.add(part.set_number.id)

    def _paired(self, one: int, other: int) -> bool:
        return self.forth.setdefault(one, other) == other and self.back.setdefault(other, one) == one


@cache
def _compared(kind: type) -> tuple[Field[Any], ...]:
    """The fields that say what a node means: an alias only names it."""
    return tuple(part for part in fields(kind) if part.compare and part.name != "alias")
