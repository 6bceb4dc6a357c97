"""Scopes: the names that are visible at a position in a statement.

A scope holds the fields of one FROM clause; its parent is the scope of the surrounding query. A name is resolved in the
innermost scope first and then outwards, so that a subquery may refer to its surroundings. Such an outer reference is
bound to the same `Column` as in the outer query.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from types import MappingProxyType
from typing import Any

from ...errors import AmbiguousColumn, UnknownColumn, UnknownTable
from ...model.lazy_dataclass import dataclass
from ..bound import Query
from ..expressions import Column, Expr
from ..syntax.written_names import did_you_mean


@dataclass(frozen=True, slots=True)
class Field:
    """One column of FROM.

    `relation` is its alias, None for a column that USING or NATURAL merged; `merged` marks the two originals, which are
    visible only when qualified. `expr` is a Column, except for a FULL JOIN's merged column. A `hidden` field is visible
    by name, but not to `*` and NATURAL. `schema` is that of a table or view without another alias.
    """

    name: str
    expr: Expr
    relation: str | None
    merged: bool = False
    hidden: bool = False
    schema: str | None = None


@dataclass(frozen=True, slots=True)
class CommonTable:
    """A bound CTE: its `query`, the `names` of its columns, and whether the statement refers to it more than once.

    Within a recursive query, `working` is its key: there the name means the rows of the previous round, and `query` is
    the anchor of the recursive query, which has their types. The last `hidden` columns are visible by name only.
    """

    query: Query
    names: tuple[str, ...]
    shared: bool
    working: int | None = None
    hidden: int = 0


@dataclass(frozen=True, slots=True)
class Scope:
    """The visible names; `relations` are the aliases of FROM in order, also those without columns.

    `beside` are fields that are visible only with LATERAL, `outputs` the output names of the select list, which its own
    block cannot read: both for messages. `holder` is the `context.Frame` of the expression whose subquery uses this
    scope; None if that is not an expression.
    """

    parent: Scope | None = None
    fields: tuple[Field, ...] = ()
    relations: tuple[str, ...] = ()
    common_tables: Mapping[str, CommonTable] = field(default_factory=lambda: MappingProxyType({}))
    beside: tuple[Field, ...] = ()
    outputs: frozenset[str] = frozenset()
    holder: Any = field(default=None, compare=False)

    def common_table(self, name: str) -> CommonTable | None:
        """The CTE of that name, the innermost first."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.common_tables:
                return scope.common_tables[name]
            scope = scope.parent
        return None

    def resolve(self, name: str, qualifier: str | None = None, schema: str | None = None) -> Expr:
        """The expression that a column name refers to; `schema` is that of its `qualifier`, if it has one.

        Raises `AmbiguousColumn` if two fields of one scope match, `UnknownTable` if no relation is called `qualifier`,
        and `UnknownColumn` if nothing matches; each lists what exists.
        """
        scope: Scope | None = self
        while scope is not None:
            fields = scope._own(name, qualifier, schema)
            if fields is not None:
                return fields
            scope = scope.parent
        if schema is not None and qualifier is not None and self._has(qualifier):
            raise UnknownTable(f"FROM has {qualifier}, and it is not that of schema {schema}: {schema}.{qualifier}")
        raise self._unknown(name, qualifier)

    def _has(self, qualifier: str) -> bool:
        """True if a relation of FROM, here or further out, has the name."""
        return qualifier in self.relations or (self.parent is not None and self.parent._has(qualifier))

    def _own(self, name: str, qualifier: str | None, schema: str | None) -> Expr | None:
        if qualifier is None:
            fields = [f for f in self.fields if f.name == name and not f.merged]
        elif qualifier in self.relations and (schema is None or self._is_of(qualifier, schema)):
            fields = [f for f in self.fields if f.name == name and f.relation == qualifier]
            if not fields:
                names = [f.name for f in self.fields if f.relation == qualifier]
                hint = did_you_mean(name, names, f"{qualifier} has")
                raise UnknownColumn(f"{qualifier} has no column {name}{hint}")
        else:
            return None
        if len(fields) > 1:
            owners = sorted({f.relation for f in fields if f.relation})
            where = f"{' and '.join(owners)} have it" if len(owners) > 1 else "it is there more than once"
            raise AmbiguousColumn(f"column {name} is ambiguous: {where}")
        return fields[0].expr if fields else None

    def _is_of(self, relation: str, schema: str) -> bool:
        """False if a relation of FROM is of another schema."""
        return all(f.schema in (None, schema) for f in self.fields if f.relation == relation)

    def _unknown(self, name: str, qualifier: str | None) -> Exception:
        scopes = []
        scope: Scope | None = self
        while scope is not None:
            scopes.append(scope)
            scope = scope.parent
        for own in (f for s in scopes for f in s.beside):
            if own.relation == qualifier or (qualifier is None and own.name == name and not own.hidden):
                kind = UnknownColumn if qualifier is None else UnknownTable
                return kind(f"{qualifier or name} stands beside this query, which sees it only as LATERAL (...)")
        if qualifier is None and name in self.outputs:
            return UnknownColumn(
                f"column {name} does not exist in FROM; it is a name of the select list, which comes later: write the "
                "expression here"
            )
        if qualifier is not None:
            aliases = [alias for s in scopes for alias in s.relations]
            hint = did_you_mean(qualifier, aliases, "FROM has")
            return UnknownTable(f"table or alias {qualifier} does not exist here{hint}")
        names = [f.name for s in scopes for f in s.fields if not f.merged]
        if not names:
            return UnknownColumn(f"column {name} does not exist: there is no FROM here")
        return UnknownColumn(f"column {name} does not exist{did_you_mean(name, names, 'the tables here have')}")

    def star(self, qualifier: str | None = None) -> list[Field]:
        """The fields of `*` or `qualifier.*`; raises `UnknownTable` if no relation of FROM has that name."""
        if qualifier is None:
            return [f for f in self.fields if not (f.merged or f.hidden)]
        if qualifier not in self.relations:
            hint = did_you_mean(qualifier, self.relations, "FROM has")
            raise UnknownTable(f"table or alias {qualifier} does not exist here{hint}")
        return [f for f in self.fields if f.relation == qualifier and not f.hidden]

    @property
    def own_columns(self) -> frozenset[int]:
        """The numbers of the columns of this FROM."""
        return frozenset(f.expr.id for f in self.fields if isinstance(f.expr, Column))
