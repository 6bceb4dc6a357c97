"""Binds the statements of transactions, and the lock clauses of a query.

    SELECT v FROM t WHERE v > 1 FOR UPDATE  ─►  SELECT v, k FROM t WHERE v > 1, locks: table t, its key from column 1 on

The primary keys of the locked tables become columns behind those of the query; the executor registers them with the
transaction and removes them from the result. What cannot be locked is what PostgreSQL refuses: rows that are computed
from several rows, and rows that an outer join fills with NULLs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from sqlglot import exp

from ...errors import NotSupportedError, StatementError, UnknownTable
from ...model.access.rights import Right
from ...model.transactions import Isolation
from ..bound import Join, Query, Relation, Select, SelectStatement, SetSetting, TableRef
from ..bound_transactions import (
    BeginTransaction,
    CommitTransaction,
    ReleaseSavepoint,
    RollbackToSavepoint,
    RollbackTransaction,
    RowLocks,
    SetSavepoint,
    SetSessionCharacteristics,
    SetTransaction,
    TransactionModes,
    TransactionStatement,
)
from ..expressions import Column, Expr
from ..syntax import nodes
from ..syntax.parser import generate
from ..syntax.written_names import did_you_mean
from .context import Context, name_of

TRANSACTION_STATEMENTS: Final[dict[type[Any], Callable[[Any], TransactionStatement]]] = {
    nodes.BeginTransaction: lambda node: BeginTransaction(_modes(node)),
    nodes.CommitTransaction: lambda node: CommitTransaction(),
    nodes.RollbackTransaction: lambda node: RollbackTransaction(),
    nodes.SetSavepoint: lambda node: SetSavepoint(name_of(node.this)),
    nodes.ReleaseSavepoint: lambda node: ReleaseSavepoint(name_of(node.this)),
    nodes.RollbackToSavepoint: lambda node: RollbackToSavepoint(name_of(node.this)),
    nodes.SetTransaction: lambda node: SetTransaction(_modes(node)),
    nodes.SetSessionCharacteristics: lambda node: SetSessionCharacteristics(_modes(node)),
}
"""Binders by the kind of node; none needs the catalog."""
_ISOLATION: Final = "ISOLATION LEVEL "
_READ_ONLY: Final = {"READ ONLY": True, "READ WRITE": False}
OF_TRANSACTION: Final = ("transaction_isolation", "transaction_read_only")
"""Settings of the open transaction."""


def _modes(node: nodes.TransactionModes) -> TransactionModes:
    """The modes of a statement. DEFERRABLE has no effect: no transaction waits for a safe snapshot."""
    isolation, read_only = None, None
    for mode in node.expressions:
        if mode.name.startswith(_ISOLATION):
            isolation = Isolation(mode.name.removeprefix(_ISOLATION))
        read_only = _READ_ONLY.get(mode.name, read_only)
    return TransactionModes(isolation, read_only)


def set_of_transaction(setting: SetSetting) -> SetTransaction:
    """SET of a setting of the open transaction, as SET TRANSACTION."""
    if setting.name == "transaction_isolation":
        return SetTransaction(TransactionModes(isolation=setting.value))
    return SetTransaction(TransactionModes(read_only=setting.value))


# ---- locks -----------------------------------------------------------------------------------------------------------


def with_locks(clauses: Sequence[exp.Lock], query: Query, context: Context) -> SelectStatement:
    """A query with its lock clauses: the keys of the locked tables are added to its columns."""
    body = query.body
    assert isinstance(body, Select)
    with context.at(clauses[0]):
        problem = _problem(body)
        if problem is not None:
            raise StatementError(f"{_clause(clauses[0])} is not allowed with {problem}: it locks rows of tables")
    chosen: dict[str, TableRef] = {}
    for lock in clauses:
        with context.at(lock):
            chosen.update(_locked(lock, body.relation, context))
    shown, added = len(query.columns), list[tuple[Column, Expr]]()
    locks = []
    for ref in chosen.values():
        with context.at(clauses[0]):
            context.require(ref.table, Right.UPDATE)
        locks.append(RowLocks(ref.table, shown + len(added)))
        for column in ref.columns[: ref.table.schema.key_columns]:
            added.append((context.column(column.name, column.type, column.nullable), column))
    projection = (*body.projection[:shown], *added, *body.projection[shown:])
    columns = (*query.columns, *(column for column, _ in added))
    return SelectStatement(replace(query, body=replace(body, projection=projection), columns=columns), tuple(locks))


def _problem(body: Select) -> str | None:
    """The part of a block by which its rows are not those of tables."""
    if body.grouped or body.groups or body.aggregates:
        return "GROUP BY, HAVING or aggregate functions"
    if body.distinct or body.distinct_on:
        return "DISTINCT"
    return "window functions" if body.windows else None


def _clause(lock: exp.Lock) -> str:
    bare = lock.copy()
    bare.set("expressions", None)
    bare.set("wait", None)
    return generate(bare)


def _locked(lock: exp.Lock, relation: Relation | None, context: Context) -> Iterator[tuple[str, TableRef]]:
    """The uses of tables that a lock clause names, by their aliases: without OF all."""
    found = {} if relation is None else dict(_relations(relation, False))
    if not lock.expressions:
        for name, (part, is_filled) in found.items():
            yield name, _lockable(lock, name, part, is_filled)
    for node in lock.expressions:
        with context.at(node):
            name = name_of(node)
            if name not in found:
                raise UnknownTable(
                    f"relation {name} of {_clause(lock)} is not in FROM{did_you_mean(name, list(found), 'there are')}"
                )
            yield name, _lockable(lock, name, *found[name])


def _relations(relation: Relation, is_filled: bool) -> Iterator[tuple[str, tuple[Relation, bool]]]:
    """The parts of a FROM by alias; True for those whose rows an outer join may fill with NULLs."""
    if isinstance(relation, Join):
        yield from _relations(relation.left, is_filled or relation.kind in ("right", "full"))
        yield from _relations(relation.right, is_filled or relation.kind in ("left", "full"))
    else:
        yield relation.alias, (relation, is_filled)


def _lockable(lock: exp.Lock, name: str, relation: Relation, is_filled: bool) -> TableRef:
    clause = _clause(lock)
    if not isinstance(relation, TableRef):
        raise NotSupportedError(
            f"{clause} locks rows of tables, and {name} is none; name the tables: {clause} OF table"
        )
    if relation.time is not None:
        raise StatementError(f"{clause} locks the latest rows, and {name} has FOR SYSTEM_TIME")
    if is_filled:
        raise StatementError(f"{clause} cannot be applied to {name}, the nullable side of an outer join")
    return relation
