"""The temporary tables and views of a session: when it gets room for them, and when they end.

Few sessions have any: the store that lays them over the connection's is made for the first one.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ...errors import NotSupportedError
from ...model.namespaces import TEMPORARY_NAMESPACE
from ...model.store import Store
from ...sql import bound
from .engines import LOCAL
from .transactions import SessionTransactions

if TYPE_CHECKING:
    from ...planner import Plan
    from ..temporary.overlay_transaction import OverlayStore


class TemporaryObjects:
    """Those of one session.

    Parameters
    ----------
    base : Store
        The store of the connection.
    transactions : SessionTransactions
        Switched to the store with temporary objects, once there is one.
    """

    def __init__(self, base: Store, transactions: SessionTransactions):
        self._base = base
        self._transactions = transactions
        self._store: OverlayStore | None = None
        """The connection's store with the session's temporary objects, once it has had one."""

    def make_room(self, statement: bound.Statement) -> None:
        """Have room for temporary objects from now on, if a statement makes one."""
        if self._store is None and _makes_temporary(statement):
            from ..temporary.overlay_transaction import overlay, overlay_transaction

            self._store = overlay(self._base)
            self._transactions.lay_over(self._store, partial(overlay_transaction, self._store))

    def drop(self, store: Store) -> None:
        """Drop all temporary tables and views: DISCARD TEMP. `store` is that of the session's statements."""
        if self._store is None:
            return
        store.drop_views([view.name for view in store.views() if view.namespace == TEMPORARY_NAMESPACE])
        for table in store.tables():
            if table.namespace == TEMPORARY_NAMESPACE:
                store.drop_table(table.name)

    @property
    def are_possible(self) -> bool:
        """True if there was one, so that statements may read them."""
        return self._store is not None

    def close(self) -> None:
        """Release them; the store under them is the connection's."""
        if self._store is not None:
            self._store.close()


def _makes_temporary(statement: bound.Statement) -> bool:
    """True for CREATE of a temporary table or view."""
    if isinstance(statement, bound.CreateTable | bound.CreateTableAs):
        return statement.definition.namespace == TEMPORARY_NAMESPACE
    return isinstance(statement, bound.CreateView) and statement.view.namespace == TEMPORARY_NAMESPACE


def refuse_temporary(plan: Plan | None) -> None:
    """Raise `NotSupportedError` if a plan for another engine reads a temporary table."""
    from ...planner.algebra.physical import TableScan, nodes

    for node in nodes(plan.root) if plan is not None else ():
        if isinstance(node, TableScan) and node.table.namespace == TEMPORARY_NAMESPACE:
            raise NotSupportedError(
                f"{node.table.name} is a temporary table, which only this session's own executor reads: SET engine = "
                f"{LOCAL}"
            )
