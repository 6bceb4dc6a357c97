"""Changes of the catalog that a transaction has made, as its COMMIT gives them to the store.

A transaction sees the catalog of its BEGIN with its own changes. COMMIT applies the changes to the catalog of its own
time: each is refused with `SerializationFailure` where another transaction or statement has changed the same table,
view or name since.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import field
from typing import TypeAlias

from .access.steps import AccessStep
from .lazy_dataclass import dataclass
from .namespaces import Namespace
from .schema import Table, View

Named: TypeAlias = Table | View | None
"""Object that a name refers to; None: there is none."""


@dataclass(frozen=True, slots=True)
class TableChange:
    """One table that a transaction has created, altered or dropped.

    Parameters
    ----------
    before : Table, optional
        The table that the transaction has found; None: it has created it.
    versions : tuple of Table
        The table after CREATE, and after each ALTER. Empty: it is dropped. Their numbers of versions have no meaning.
    removes_values : bool
        The change removes rows, or values of rows (DROP TABLE, DROP COLUMN, DROP RANGE PARTITION): it conflicts with
        every change of the table's rows since the transaction's snapshot.
    """

    before: Table | None
    versions: tuple[Table, ...] = ()
    removes_values: bool = False

    @property
    def after(self) -> Table | None:
        """The table afterwards; None: it is dropped."""
        return self.versions[-1] if self.versions else None


@dataclass(frozen=True, slots=True)
class ViewChange:
    """One view that a transaction has created, replaced or dropped; None: there is no such view."""

    name: str
    before: View | None
    after: View | None


@dataclass(frozen=True, slots=True)
class NamespaceChange:
    """One namespace that a transaction has created, changed or dropped; None: there is no such namespace."""

    name: str
    before: Namespace | None
    after: Namespace | None


@dataclass(frozen=True, slots=True)
class CatalogChanges:
    """All changes of the catalog by one transaction, and what it has relied on.

    Parameters
    ----------
    tables : tuple of TableChange
    views : tuple of ViewChange
    relied_on : mapping of str to Named
        Names that must still stand for the same table (by id) or view. (Those that change are validated anyway.)
    known_names : collection of str, optional
        Tables and views that the transaction has listed: no other may have been created since. None: it has not.
    known_views : mapping of str to View, optional
        Of a transaction that has dropped or altered tables, on which views depend: no other view may have been created
        or replaced since. None: any may.
    access : tuple of AccessStep
        Changes of users and grants, in their order.
    namespaces : tuple of NamespaceChange
    """

    tables: tuple[TableChange, ...] = ()
    views: tuple[ViewChange, ...] = ()
    relied_on: Mapping[str, Named] = field(default_factory=dict)
    known_names: Collection[str] | None = None
    known_views: Mapping[str, View] | None = None
    access: tuple[AccessStep, ...] = ()
    namespaces: tuple[NamespaceChange, ...] = ()

    @property
    def has_changes(self) -> bool:
        """True if the catalog is to be changed; otherwise it is only validated."""
        return bool(self.tables or self.views or self.access or self.namespaces)
