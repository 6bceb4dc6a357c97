"""Constructs that SQLAlchemy itself lacks: ON CONFLICT, UPSERT, and tables as of a timestamp.

>>> import sqlalchemy as sa
>>> from nyala.driver.sqlalchemy import as_of, insert, upsert
>>> columns = sa.Column("host", sa.String, primary_key=True), sa.Column("rack", sa.Integer)
>>> hosts = sa.Table("hosts", sa.MetaData(), *columns)
>>> statement = insert(hosts).values(host="n1", rack=1)
>>> print(statement.on_conflict_do_update(set_={"rack": statement.excluded.rack}))
INSERT INTO hosts (host, rack) VALUES (?, ?) ON CONFLICT (host) DO UPDATE SET rack = excluded.rack
>>> print(upsert(hosts).values(host="n1", rack=1))
UPSERT INTO hosts (host, rack) VALUES (?, ?)
>>> print(sa.select(as_of(hosts, "2026-01-01", name="past").c.host))
SELECT past.host
FROM hosts FOR SYSTEM_TIME AS OF ? AS past
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from sqlalchemy import types as sqltypes
from sqlalchemy import util
from sqlalchemy.sql import coercions, roles
from sqlalchemy.sql.base import ReadOnlyColumnCollection, _generative
from sqlalchemy.sql.dml import Insert as StandardInsert
from sqlalchemy.sql.elements import BindParameter, ClauseElement, ColumnElement, KeyedColumnElement
from sqlalchemy.sql.expression import alias
from sqlalchemy.sql.selectable import FromClause, FromClauseAlias
from sqlalchemy.sql.visitors import InternalTraversal

Self = TypeVar("Self", bound="Insert")


def insert(table: Any) -> Insert:
    """An INSERT with an optional ON CONFLICT clause."""
    return Insert(table)


def upsert(table: Any) -> Upsert:
    """An UPSERT: inserts rows whose key is new and updates the others; columns that it does not name stay."""
    return Upsert(table)


def as_of(table: Any, time: Any, name: str | None = None) -> SystemTime:
    """A table as it was at `time`, to be selected from and joined like an alias.

    Parameters
    ----------
    table : Table or mapped class
    time : datetime, str, int or SQL expression
        UTC; an int is a hybrid time, as in `_changed_at`.
    name : str, optional
        The alias; made up unless given.
    """
    selectable = coercions.expect(roles.FromClauseRole, table)
    return SystemTime._construct(selectable, name=name, time=time)


class Insert(StandardInsert):
    """INSERT with ON CONFLICT."""

    stringify_dialect = "nyala"
    inherit_cache = True

    @util.memoized_property
    def _excluded(self) -> Any:
        return alias(self.table, name="excluded")

    @property
    def excluded(self) -> ReadOnlyColumnCollection[str, KeyedColumnElement[Any]]:
        """The columns of the row that would have been inserted."""
        columns: ReadOnlyColumnCollection[str, KeyedColumnElement[Any]] = self._excluded.columns
        return columns

    @_generative
    def on_conflict_do_nothing(self: Self, index_elements: Sequence[Any] | None = None) -> Self:
        """Pass over rows whose key exists; `index_elements`, if given, are the columns of the primary key."""
        self._post_values_clause = OnConflict(index_elements, None, None)
        return self

    @_generative
    def on_conflict_do_update(
        self: Self, index_elements: Sequence[Any] | None = None, *, set_: Mapping[Any, Any], where: Any = None
    ) -> Self:
        """Change rows whose key exists.

        Parameters
        ----------
        index_elements : sequence of columns or names, optional
            The columns of the primary key, which is what they are unless given.
        set_ : mapping of columns or names to values
            What is set; `excluded` has the values that would have been inserted.
        where : expression, optional
            Rows for which it does not hold stay as they are.
        """
        if not set_:
            raise ValueError("set_ names no column; on_conflict_do_nothing() leaves rows as they are")
        self._post_values_clause = OnConflict(index_elements, dict(set_), where)
        return self


class Upsert(StandardInsert):
    """UPSERT; compiled like an INSERT but for its first word."""

    stringify_dialect = "nyala"
    inherit_cache = True


class OnConflict(ClauseElement):
    """The clause after the rows of an INSERT: ON CONFLICT DO NOTHING, or DO UPDATE if there are `values`."""

    __visit_name__ = "nyala_on_conflict"
    stringify_dialect = "nyala"
    _traverse_internals = [
        ("target", InternalTraversal.dp_multi_list),
        ("values", InternalTraversal.dp_dml_values),
        ("where", InternalTraversal.dp_clauseelement),
    ]

    def __init__(self, target: Sequence[Any] | None, values: Mapping[Any, Any] | None, where: Any):
        self.target = [coercions.expect(roles.DDLConstraintColumnRole, column) for column in target or ()] or None
        self.values: dict[Any, Any] | None = None
        if values is not None:
            self.values = {
                coercions.expect(roles.DMLColumnRole, key): coercions.expect(
                    roles.ExpressionElementRole, value, type_=sqltypes.NULLTYPE, is_crud=True
                )
                for key, value in values.items()
            }
        self.where = None if where is None else coercions.expect(roles.WhereHavingRole, where)


class SystemTime(FromClauseAlias):
    """A table FOR SYSTEM_TIME AS OF a timestamp, under an alias."""

    __visit_name__ = "nyala_system_time"
    stringify_dialect = "nyala"
    _traverse_internals = [*FromClauseAlias._traverse_internals, ("time", InternalTraversal.dp_clauseelement)]

    time: ColumnElement[Any]

    @classmethod
    def _factory(cls, selectable: Any, time: Any, name: str | None = None) -> SystemTime:
        return as_of(selectable, time, name)

    def _init(self, selectable: FromClause, *, name: str | None = None, time: Any) -> None:  # type: ignore[override]
        is_sql = isinstance(time, ClauseElement) or hasattr(time, "__clause_element__")
        expression = coercions.expect(roles.ExpressionElementRole, time) if is_sql else None
        self.time = BindParameter(None, time, unique=True) if expression is None else expression
        super()._init(selectable, name=name)
